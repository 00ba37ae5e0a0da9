"""How often a choice leaves the supervised model where labels of a class are few or none, and no pipeline is better.

Tables are drawn from the supervised model's own prior, so that averages over its posterior are Bayes's predictions: no
pipeline's expected loss is below its own, up to Laplace's error in these averages. Fits are NumPy's; folds, bounds, bets and
the choice are the package's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm, qmc

from pymc_bpls.choosing.bound import ADDED, COMMON, FEWEST, FEWEST_OF_CLASS
from pymc_bpls.choosing.evidence import BETTING, BOUND, Judged, best_proven, judge
from pymc_bpls.choosing.folds import Fold, NoFolds, Units, cross_fitting, one_after_the_other
from pymc_bpls.choosing.losses import LOSSES
from pymc_bpls.choosing.pipelines import SUPERVISED
from pymc_bpls.choosing.sentences import say_too_few
from validation.choose.cases import ALPHA
from validation.choose.fast import OF_TRUTH, PIPELINES, predict

RARE = "rare"
SHARES, LABELS = (0.01, 0.03, 0.05, 0.1), (20, 40, 60)
#: By guarantee the losses that it judges by; bets need a bounded one.
LOSSES_OF = {BOUND: ("log", "brier", "zero_one"), BETTING: ("brier", "zero_one")}
#: Tables by repetition, and repetitions: 2,000 tables of each cell.
TABLES, REPETITIONS = 100, 20
POOL, FOLDS, REPEATS = 40, 5, 4
_POINTS = norm.ppf(qmc.Sobol(2, rng=1).random(1024))
_FRESH = np.column_stack([np.ones(len(_POINTS)), _POINTS])
_TRUTHS = norm.ppf(qmc.Sobol(3, rng=2).random(1024)) * OF_TRUTH


@dataclass(frozen=True)
class Cell:
    """A share of class 1, a number of labels and a number of pipelines."""

    share: float
    n_labeled: int
    n_pipelines: int

    @property
    def key(self) -> str:
        """Names its file of results."""
        return f"{RARE}-{self.share:g}-n{self.n_labeled}-c{self.n_pipelines}"

    @property
    def source(self) -> str:
        """No table that is loaded."""
        return RARE

    @property
    def title(self) -> str:
        """Names it to a reader."""
        return f"class share {self.share:g}, {self.n_labeled} labels, {self.n_pipelines} pipelines"

    @property
    def work(self) -> int:
        """What the time of a repetition is roughly proportional to."""
        return int(5 + self.share * self.n_labeled * self.n_pipelines)


CELLS = [Cell(share, n, size) for size in PIPELINES for n in LABELS for share in SHARES]


def protocol(cell: Cell) -> dict[str, Any]:
    """What all repetitions of a cell have in common."""
    return {
        "alpha": ALPHA,
        "bound": [FEWEST, FEWEST_OF_CLASS, COMMON, ADDED],
        "tables": TABLES,
        "pool": POOL,
        "folds": FOLDS,
        "repeats": REPEATS,
        "pipelines": list(PIPELINES[cell.n_pipelines]),
        "predictor": "averaged over Laplace's Gaussian",
    }


def repeat(cell: Cell, repetition: int) -> dict[str, Any]:
    """By loss the pipelines' mean gains over the tables; by guarantee and loss in how many tables rows can be set aside for a
    proof, in how many the supervised model was left, and in how many for one that is worse in its table.
    """
    rng = np.random.default_rng([round(1000 * cell.share), cell.n_labeled, cell.n_pipelines, repetition])
    tables = _draw(cell, rng)
    record: dict[str, Any] = {"gain": {loss: gains.mean(axis=0).tolist() for loss, gains in tables.gains.items()}}
    for guarantee, losses in LOSSES_OF.items():
        counts = {loss: {"judged": 0, "left": 0, "left_for_worse": 0} for loss in losses}
        for loss, number, judged in _judged(cell, guarantee, tables, rng):
            chosen = None if judged is None else _choose(cell, guarantee, loss, judged)
            counts[loss]["judged"] += 1
            counts[loss]["left"] += chosen is not None
            counts[loss]["left_for_worse"] += chosen is not None and bool(tables.gains[loss][number, chosen] < 0)
        record[guarantee] = counts
    return record


@dataclass(frozen=True)
class _Tables:
    """Labeled rows (T, n, q), their classes (T, n), pools, and by loss pipelines' gains over the supervised (T, C)."""

    X: np.ndarray
    y: np.ndarray
    pool: np.ndarray
    gains: dict[str, np.ndarray]


@cache
def _intercept(share: float) -> float:
    """About which intercepts are normal, so that class 1 has this share over tables."""
    others = _TRUTHS @ _FRESH.T
    return float(brentq(lambda intercept: expit(intercept + others).mean() - share, -20, 5))


def _draw(cell: Cell, rng: np.random.Generator) -> _Tables:
    """Tables, with what the fits on all of their labels are worth."""
    n, intercept = cell.n_labeled, _intercept(cell.share)
    design = np.concatenate([np.ones((TABLES, n + POOL, 1)), rng.normal(size=(TABLES, n + POOL, 2))], axis=2)
    X, pool = design[:, :n], design[:, n:]
    truth = rng.normal(size=(TABLES, 3)) * OF_TRUTH + [intercept, 0, 0]
    y = (rng.random((TABLES, n)) < expit(np.einsum("tnq,tq->tn", X, truth))).astype(float)
    p_true = expit(truth @ _FRESH.T)
    predicted = predict(X, y, np.ones((TABLES, 1, n)), pool, _FRESH[None], intercept, cell.n_pipelines)
    gains = {}
    for loss in LOSSES:
        expected = {
            name: (p_true * _losses(loss, p[:, 0], 1) + (1 - p_true) * _losses(loss, p[:, 0], 0)).mean(axis=1)
            for name, p in predicted.items()
        }
        gains[loss] = np.array([expected[SUPERVISED] - expected[name] for name in PIPELINES[cell.n_pipelines]]).T
    return _Tables(X, y, pool, gains)


def _losses(loss: str, p: np.ndarray, codes: Any) -> np.ndarray:
    """Of class 1's probabilities, of any shape."""
    every = np.broadcast_to(codes, p.shape).ravel()
    return LOSSES[loss].of_rows(np.column_stack([1 - p.ravel(), p.ravel()]), every).reshape(p.shape)


def _choose(cell: Cell, guarantee: str, loss: str, judged: list[Judged]) -> int | None:
    """The number of the pipeline that is taken, None for the supervised."""
    names = PIPELINES[cell.n_pipelines]
    n, largest = cell.n_labeled, LOSSES[loss].largest
    evidence = judge(judged, list(names), SUPERVISED, guarantee, largest=largest, n=n, n_classes=2, alpha=ALPHA)
    best = best_proven(evidence, guarantee, ALPHA, len(names))
    return None if best is None else names.index(best)


def _judged(
    cell: Cell, guarantee: str, tables: _Tables, rng: np.random.Generator
) -> Iterator[tuple[str, int, list[Judged] | None]]:
    """By loss the numbers of tables that have folds, with these; None where differences show that there is no proof."""
    dealt = {number: folds for number in range(TABLES) if (folds := _deal(guarantee, tables.y[number], rng))}
    if not dealt:
        return
    some, n = list(dealt), cell.n_labeled
    hidden, test = (np.zeros((len(dealt), max(map(len, dealt.values())), n), dtype=bool) for _ in range(2))
    for place, folds in enumerate(dealt.values()):
        for number, fold in enumerate(folds):
            hidden[place, number, fold.hidden], test[place, number, fold.test] = True, True
    X, codes, intercept = tables.X[some], tables.y[some].astype(int), _intercept(cell.share)
    predicted = predict(X, tables.y[some], 1.0 - hidden, tables.pool[some], X, intercept, cell.n_pipelines)
    for loss in LOSSES_OF[guarantee]:
        losses = {name: _losses(loss, p, codes[:, None]) for name, p in predicted.items()}
        differences = np.stack([losses[SUPERVISED] - losses[name] for name in PIPELINES[cell.n_pipelines]], axis=1)
        possible = _may_be_proven(guarantee, np.where(test[:, None], differences, 0), LOSSES[loss].largest)
        for place, (number, folds) in enumerate(dealt.items()):
            held = [
                Judged(
                    rows=fold.test,
                    codes=codes[place, fold.test],
                    unit=fold.test,
                    repeat=fold.repeat,
                    n_train=n - len(fold.hidden),
                    losses={name: each[place, at, fold.test] for name, each in losses.items()},
                    right={},
                    refused={},
                )
                for at, fold in enumerate(folds if possible[place] else [])
            ]
            yield loss, number, held or None


def _may_be_proven(guarantee: str, d: np.ndarray, largest: float | None) -> np.ndarray:
    """Which tables (T,) are worth the package's proof, from differences (T, C, F, n) that are 0 where a fold does not judge.

    A bound above 0 takes a mean beyond the normal quantile of its standard error, and an e-value has at most half of the wealth
    in each bet that wins.
    """
    if guarantee == BETTING:
        assert largest is not None
        most = np.log1p(np.maximum(d, 0) / (2 * largest)).sum(axis=(2, 3))
        return np.asarray((most >= np.log(d.shape[1] / ALPHA)).any(axis=1))
    of_rows = d.sum(axis=2) / REPEATS
    errors = of_rows.std(axis=2, ddof=1) / np.sqrt(d.shape[3])
    return np.asarray((of_rows.mean(axis=2) > norm.ppf(1 - ALPHA) * errors).any(axis=1))


def _deal(guarantee: str, y: np.ndarray, rng: np.random.Generator) -> list[Fold]:
    """By the package; empty where it says that nothing can be proven."""
    units = Units.of(np.arange(len(y)), y.astype(int), np.arange(2), None)
    try:
        if guarantee == BETTING:
            return one_after_the_other(units, FOLDS, 1, rng)
        return [] if say_too_few(units) else cross_fitting(units, FOLDS, REPEATS, rng)
    except NoFolds:
        return []
