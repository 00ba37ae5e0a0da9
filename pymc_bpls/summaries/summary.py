"""A result on one screen, whichever it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import xarray as xr

from pymc_bpls.errors import CriterionError
from pymc_bpls.selftraining.run_tables import read_tables
from pymc_bpls.selftraining.saved_run import is_run
from pymc_bpls.summaries.accepted import is_acceptance, summarise_acceptance
from pymc_bpls.summaries.compared import is_comparison, summarise_comparison
from pymc_bpls.summaries.exact import is_exact, summarise_exact
from pymc_bpls.summaries.pooled import is_pooled, summarise_pooled
from pymc_bpls.summaries.replicates import are_replicates, summarise_replicates
from pymc_bpls.summaries.run import summarise_run
from pymc_bpls.summaries.scores import are_scores, summarise_scores
from pymc_bpls.text.incomplete import as_it_was_left
from pymc_bpls.text.summary import Summary

#: How each kind of result is known, what is said of it, and what made it.
_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Summary], str], ...] = (
    (is_run, lambda run: summarise_run(read_tables(run)), "self_train"),
    (are_replicates, summarise_replicates, "self_train"),
    (are_scores, summarise_scores, "score"),
    (is_exact, summarise_exact, "exact"),
    (is_pooled, summarise_pooled, "marginalize"),
    (is_comparison, summarise_comparison, "compare"),
    (is_acceptance, summarise_acceptance, "accept"),
)


def summary(result: xr.Dataset | xr.DataTree) -> Summary:
    """A result on one screen: a run, scores, exact values, a posterior with the pool, a comparison, or accepted labels.

    Where `self_train(choose=…)` picked it, the summary says why. A `Choice` and an `Audit` show themselves.

    Parameters
    ----------
    result : xarray.DataTree or xarray.Dataset
        What `self_train`, `resume`, `score`, `exact`, `marginalize`, `compare` or `accept` returned.

    Returns
    -------
    Summary
        `print` it, or leave it as the last line of a notebook's cell.

    Raises
    ------
    CriterionError
        It is none of these, or has lost a part.

    See Also
    --------
    plot_self_training, plot_scores : the same in figures.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> X = np.column_stack([np.ones(24), np.linspace(-2, 2, 24)])
    >>> y = np.where(np.arange(24) % 2, -1, X[:, 1] + np.tile([0.9, -0.9], 12) > 0)
    >>> with pm.Model() as model:
    ...     label = pm.Bernoulli("label", logit_p=X @ pm.Normal("b", 0, 2.5, shape=2), observed=y)
    >>> print(bpls.summary(bpls.BPLS(model).self_train("probability", rounds=2, progressbar=False)))
    No test rows were given, so whether self-training helped is unknown. As declared, this model describes y given x only:
    unlabeled rows and pseudo-labels add no information. Invented information: pseudo-labels moved or narrowed the posterior by
    0.00012 nats (Kullback-Leibler divergence from that of the labels alone), and no label stands behind that.
    <BLANKLINE>
                     rows in D log evidence a row
    supervised              12             -0.358
    2 pseudo-labels         14             -0.307
    <BLANKLINE>
    Ended after 2 rounds of "probability" (mode): 2 rounds are done.
    Log evidence is by Laplace's method, where there is a mode.
    Pseudo-labels: 2 of class 1 (100%; labeled rows 67%).
    Choices were ahead of the next best row by 0.0021 (median).
    """
    for is_of_kind, summarise, by in _KINDS:
        if is_of_kind(result):
            with as_it_was_left("result=", by):
                return _with_choice(summarise(result), result.attrs.get("choice_verdict"))
    raise CriterionError(
        f"A {type(result).__name__} is no result that can be summarised. Give what self_train, score, exact, "
        "marginalize, compare or accept returned."
    )


def _with_choice(found: Summary, verdict: str | None) -> Summary:
    """With the verdict of the choice that picked a result, where one did."""
    if verdict is None:
        return found
    first, *others = found.sentences
    return replace(found, sentences=[first, verdict, *others])
