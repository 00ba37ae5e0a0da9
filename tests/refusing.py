"""A table, models on it, and what a refusal is: it names the variable, what is wrong and the fix, in two short sentences."""

from __future__ import annotations

import re

import numpy as np
import pymc as pm
import pytest

from pymc_bpls import BPLSError

N, N_LABELED = 24, 16
COLUMNS = ["age", "dose"]


def table(seed=0):
    """X (24, 2) and labels, the last 8 unlabeled."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 2))
    y = (X[:, 0] + rng.logistic(size=N) > 0).astype(int)
    return X, np.where(np.arange(N) < N_LABELED, y, -1)


def logistic(X, y, **options):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=np.shape(X)[1])
        pm.Bernoulli("label", logit_p=X @ beta, observed=y, **options)
    return model


def flat_logistic(X, y):
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=np.shape(X)[1])
        pm.Bernoulli("label", logit_p=X @ beta, observed=y)
    return model


def softmax(y, prior=pm.Normal, **options):
    X, _ = table()
    with pm.Model() as model:
        beta = prior("beta", shape=(2, 3), **options)
        pm.Categorical("label", logit_p=X @ beta, observed=y)
    return model


def separated():
    """One column that separates the labeled rows, one that does not matter."""
    X, y = table()
    return X, np.where(y < 0, -1, (X[:, 0] > 0).astype(int))


def in_containers(X, y, n=N_LABELED):
    """A model declared on `n` rows, whose rows are in the container "X" with named columns."""
    with pm.Model(coords={"column": COLUMNS, "row": np.arange(n)}) as model:
        data = pm.Data("X", X[:n], dims=("row", "column"))
        beta = pm.Normal("beta", 0, 2, dims="column")
        pm.Bernoulli("label", logit_p=data @ beta, observed=y[:n], dims="row")
    return model


def refused(error, action, *words):
    """The action is refused in two short sentences that hold the words."""
    with pytest.raises(error) as caught:
        action()
    message = str(caught.value)
    assert isinstance(caught.value, BPLSError)
    assert len(re.findall(r"\.(?=\s|$)", message)) == 2, message
    assert len(message) < 320, message
    assert message.endswith("."), message
    for word in words:
        assert word in message, message
    assert "nan" not in re.findall(r"\w+", message), message
