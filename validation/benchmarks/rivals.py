"""What the package is timed against, each as one round of selection on the same labeled and unlabeled rows."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pymc as pm
from scipy.special import expit, log_expit
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import SelfTrainingClassifier
from threadpoolctl import threadpool_limits

PRIOR_SD = 2.5
HERE = Path(__file__).parent


def seconds(function: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def one_thread(function: Callable[[], object]) -> float:
    """Wall-clock seconds of one call with one BLAS thread, which is the faster way for small matrices."""
    with threadpool_limits(1, user_api="blas"):
        return seconds(function)


def declare(X: np.ndarray, y: np.ndarray) -> pm.Model:
    """Logistic regression with Normal(0, 2.5) priors; y is −1 where unlabeled."""
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, PRIOR_SD)
        beta = pm.Normal("beta", 0, PRIOR_SD, shape=X.shape[1])
        pm.Bernoulli("label", logit_p=intercept + X @ beta, observed=y)
    return model


def sklearn_round(X: np.ndarray, y: np.ndarray) -> float:
    """One round of scikit-learn's self-training (fit, score the pool, add the best), from a run of ten."""
    rounds = 10
    model = SelfTrainingClassifier(
        LogisticRegression(C=PRIOR_SD**2, max_iter=1000), criterion="k_best", k_best=1, max_iter=rounds
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return one_thread(lambda: model.fit(X, y)) / rounds


def sklearn_run(X: np.ndarray, y: np.ndarray) -> float:
    """A whole run of scikit-learn's self-training."""
    model = SelfTrainingClassifier(
        LogisticRegression(C=PRIOR_SD**2, max_iter=1000), criterion="k_best", k_best=1, max_iter=None
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return one_thread(lambda: model.fit(X, y))


def numpy_round(X: np.ndarray, y: np.ndarray) -> float:
    """Eq. 6 by a plain loop over the candidates, each with Newton's method from D's mode."""
    A = np.column_stack([np.ones(len(X)), X])
    labeled, pool = np.flatnonzero(y >= 0), np.flatnonzero(y < 0)

    def newton(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, float]:
        for _ in range(50):
            p = expit(rows @ theta)
            gradient = rows.T @ (weights * (labels - p)) - theta / PRIOR_SD**2
            hessian = (rows.T * (weights * p * (1 - p))) @ rows + np.eye(len(theta)) / PRIOR_SD**2
            step = np.linalg.solve(hessian, gradient)
            theta = theta + step
            if np.abs(step).max() < 1e-8:
                break
        return theta, np.linalg.slogdet(hessian)[1]

    def whole_round() -> None:
        X_D, y_D = A[labeled], y[labeled]
        mode, _ = newton(X_D, y_D, np.ones(len(y_D)), np.zeros(A.shape[1]))
        shared, _ = newton(X_D, y_D, np.full(len(y_D), 2.0), mode)
        weights = np.append(np.full(len(y_D), 2.0), 1.0)
        for i in pool:
            label = float(A[i] @ mode > 0)
            rows, labels = np.vstack([X_D, A[i]]), np.append(y_D, label)
            theta, log_det = newton(rows, labels, weights, shared)
            weights @ log_expit((2 * labels - 1) * (rows @ theta)) - 0.5 * log_det

    return one_thread(whole_round)


def pymc_candidate(X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Seconds of PyMC's own `find_MAP` and `find_hessian` for one candidate: the first time, and once compiled."""
    labeled, pool = np.flatnonzero(y >= 0), np.flatnonzero(y < 0)
    rows = np.concatenate([labeled, labeled, pool[:1]])
    model = declare(X[rows], np.where(y[rows] < 0, 1, y[rows]))

    def refit() -> None:
        with model:
            point = pm.find_MAP(progressbar=False)
            pm.find_hessian(point)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return seconds(refit), seconds(refit)


def r_rounds(X: np.ndarray, y: np.ndarray, rounds: int) -> tuple[float, float] | None:
    """Seconds of the first round, and of `rounds`, of the original algorithm in R; None where there is no Rscript."""
    if shutil.which("Rscript") is None:
        return None
    labeled, pool = np.flatnonzero(y >= 0), np.flatnonzero(y < 0)
    order = np.concatenate([labeled, pool])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        header = ",".join(["y", *(f"x{i}" for i in range(X.shape[1]))])
        np.savetxt(path, np.column_stack([y[order], X[order]]), delimiter=",", header=header, comments="")
        command = ["Rscript", str(HERE / "glm_selection.R"), str(path), str(len(labeled)), str(rounds)]
        first, total, _ = map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    return first, total
