"""What the paper's code did, emulated: fits by `glm` on raw features, and PPP with a determinant that underflows.

Every candidate's model is fitted to D and the candidate. Its value is ℓ_D + ℓ_i − ½ log(det), to a constant; where the data are
separated the determinant is 0 and the value +Inf. The largest value wins, the first row among equal ones, and rows come in
random order. A candidate whose covariance R's `solve` refuses is skipped. All candidates are valued in every 20th round;
in the others rows after the first +Inf, which cannot win, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from validation.paper.runs.curves import Curve
from validation.paper.runs.glm import Fit, fit
from validation.paper.runs.tables import Table
from validation.paper.settings import GLM_LIKELIHOOD, GLM_PROBABILITY, GLM_RANDOM, GLM_VARIANCE, ORIGINAL
from validation.study.splits import Split

EVERY = 20


@dataclass
class Values:
    """How many candidates of the rounds that were measured have which value, in how many rounds the first row was taken, and
    since which round it always was.
    """

    infinite: int = 0
    finite: int = 0
    failed: int = 0
    first: int = 0
    since: int = 0


@dataclass
class Round:
    """D as columns X and labels y, its fit, the candidates in order, and their pseudo-labels."""

    number: int
    X: np.ndarray
    y: np.ndarray
    fit: Fit
    candidates: np.ndarray
    codes: np.ndarray

    def refits(self) -> Iterator[Fit]:
        """The fits to D and each candidate."""
        for x, code in zip(self.candidates, self.codes, strict=True):
            yield fit(np.vstack([self.X, x]), np.append(self.y, code))

    def values(self) -> Iterator[float]:
        """The candidates' PPP, NaN where it fails."""
        for refit in self.refits():
            yield refit.log_lik - 0.5 * refit.log_det if refit.invertible else np.nan


@dataclass
class Original:
    """Selection by the original PPP, and a count of its values."""

    counts: Values = field(default_factory=Values)

    def __call__(self, at: Round) -> int:
        measured = at.number % EVERY == 0
        values: list[float] = []
        for value in at.values():
            values.append(value)
            if value == np.inf and not measured:
                break
        held = np.array(values)
        if measured:
            self.counts.infinite += int(np.isposinf(held).sum())
            self.counts.failed += int(np.isnan(held).sum())
            self.counts.finite += int(np.isfinite(held).sum())
        chosen = int(np.argmax(np.where(np.isnan(held), -np.inf, held)))
        self.counts.first += int(chosen == 0)
        self.counts.since = self.counts.since if chosen == 0 else at.number + 1
        return chosen


def _variance(at: Round) -> int:
    return int(np.argmin(at.fit.standard_error(at.candidates)))


def _likelihood(at: Round) -> int:
    """All refits have one number of coefficients, so that the least BIC is the greatest likelihood."""
    return int(np.argmax([refit.log_lik for refit in at.refits()]))


def _probability(at: Round) -> int:
    return int(np.argmax(np.abs(at.fit.logit(at.candidates))))


#: Candidates come in random order, so that taking the first is random selection.
SELECTIONS: dict[str, Callable[[Round], int]] = {
    GLM_RANDOM: lambda at: 0,
    GLM_LIKELIHOOD: _likelihood,
    GLM_VARIANCE: _variance,
    GLM_PROBABILITY: _probability,
}


def self_train(
    method: str, table: Table, split: Split, fresh: np.ndarray, rng: np.random.Generator
) -> tuple[Curve, Values | None]:
    """A run until the pool is empty, and for the original PPP the count of its values."""
    rows = np.column_stack([np.ones(len(table.X)), table.X])
    select = Original() if method == ORIGINAL else SELECTIONS[method]
    X, y, pool = rows[split.labeled.positions], split.labeled.codes, rng.permutation(split.candidates)
    order, codes, right, fresh_right = [], [], [], []
    for number in range(len(pool) + 1):
        fitted = fit(X, y)
        right.append(_right(fitted, rows, table.y, split.test.positions))
        fresh_right.append(_right(fitted, rows, table.y, fresh))
        if not len(pool):
            break
        labels = (fitted.logit(rows[pool]) > 0).astype(int)
        chosen = select(Round(number, X, y, fitted, rows[pool], labels))
        order.append(pool[chosen])
        codes.append(labels[chosen])
        X, y, pool = np.vstack([X, rows[pool[chosen]]]), np.append(y, labels[chosen]), np.delete(pool, chosen)
    curve = Curve(*(np.array(each, dtype=int) for each in (order, codes, right, fresh_right)))
    return curve, select.counts if isinstance(select, Original) else None


def _right(fitted: Fit, rows: np.ndarray, y: np.ndarray, positions: np.ndarray) -> int:
    return int(((fitted.logit(rows[positions]) > 0) == y[positions]).sum())
