"""Lower bounds of mean differences that are known from cross-fitting, for several pipelines at once.

Every labeled row is set aside once in each repeat, and d̄ is the mean difference of losses over rows. With V_units the variance
of d̄ by clusters that are rows, or groups of rows that belong together, and V_folds its variance by the folds of a repeat, the
bound is the lowest one of

    d̄ − q_{U−1} √((1 + n_test/n_train) V_units)   and   d̄ − q_{J−R} √((1 + n_test/n_train) V_folds)

of U units, and of J folds in R repeats. The first sees rows that differ by chance, which stratified folds hide; the second
sees fits that fail in a whole fold. The factor stands for training sets that overlap: it is the limit of many repeats in the
variance of Nadeau and Bengio (2003), (1/J + n_test/n_train) s² with s² the variance of fold means, since folds that cover
every row equally often add no noise of which rows are tested.

q is the quantile of the largest of |C| Student's t's that are correlated as the pipelines' differences are (Dunnett, 1955):
with probability 1 − α all bounds together are below the expected differences. This is normal theory, and differences are
skewed: the fewer rows of a class, the more often its losses, which can be large, are not among them. So there is no bound with
fewer than `FEWEST` units, nor while a class has fewer than `FEWEST_OF_CLASS`. Where a class has fewer than `COMMON`, its worst
unit is added twice, as Agresti and Coull (1998) add two observations to a rare outcome, and the bound is also below the first
one of these data. `python -m validation.choose rare` simulates the level. Bets are exact with any number.

References
----------
.. [1] Nadeau, C. and Bengio, Y. (2003). Inference for the generalization error. Machine Learning 52, 239-281.
   https://doi.org/10.1023/A:1024068626366
.. [2] Dunnett, C. W. (1955). A multiple comparison procedure for comparing several treatments with a control. JASA 50,
   1096-1121. https://doi.org/10.1080/01621459.1955.10501294
.. [3] Agresti, A. and Coull, B. A. (1998). Approximate is better than "exact" for interval estimation of binomial
   proportions. American Statistician 52, 119-126. https://doi.org/10.1080/00031305.1998.10480550
.. [4] Cameron, A. C. and Miller, D. L. (2015). A practitioner's guide to cluster-robust inference. Journal of Human Resources
   50, 317-372. https://doi.org/10.3368/jhr.50.2.317
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_bpls.choosing.folds import units_by_class
from pymc_bpls.choosing.simultaneous import quantile_of_largest

#: Rows, or groups of rows that belong together, that a bound needs: in all, and of each class. With four of a class a bound of
#: the log loss is wrong up to twice as often as alpha says, in tables as those of `python -m validation.choose rare`.
FEWEST, FEWEST_OF_CLASS = 20, 5
#: From so many of each class on the normal distribution is the usual approximation of how often an outcome comes.
#: Of a rarer class so many units are added, as in Agresti and Coull's interval.
COMMON, ADDED = 10, 2


@dataclass(frozen=True)
class Bound:
    """A mean difference, its standard error, and what it is above with the level that was asked for."""

    mean: float
    error: float
    lower: float

    def labels_to_see(self, difference: float, n: int) -> float:
        """How many labels it would take, there being n, for the bound of such a difference to reach 0.

        The bound's distance from the mean falls like 1/√n.
        """
        return n * ((self.mean - self.lower) / difference) ** 2


@dataclass(frozen=True)
class Dealt:
    """Of each prediction (T,) the number of its unit, of its fold and of its repeat, and its true class; `ratio` is
    n_test/n_train.
    """

    unit: np.ndarray
    fold: np.ndarray
    repeat: np.ndarray
    code: np.ndarray
    n_classes: int
    ratio: float

    @property
    def units_by_class(self) -> np.ndarray:
        """How many units have a row of each class (n_classes,)."""
        return units_by_class(self.unit, self.code, self.n_classes)


def lower_bounds(differences: np.ndarray, dealt: Dealt, alpha: float) -> list[Bound]:
    """Of each pipeline, from differences (C, T) of its predictions.

    A bound is −∞ where there are fewer than `FEWEST` units, fewer than `FEWEST_OF_CLASS` of a class or one fold, and where a
    difference is infinite; the latter's share of α is spent.
    """
    finite = np.isfinite(differences).all(axis=1)
    with np.errstate(invalid="ignore"):
        bounds = [Bound(float(d.mean()), np.nan, -np.inf) for d in differences]
    few = len(np.unique(dealt.unit)) < FEWEST or dealt.units_by_class.min() < FEWEST_OF_CLASS
    if few or not finite.any():
        return bounds
    spreads = _spreads(differences[finite], dealt)
    of_units, of_folds = spreads[:2]
    if of_folds.df < 1:
        return bounds
    correlation, share = of_units.correlation(), alpha * finite.mean()
    errors = np.sqrt([(1 + dealt.ratio) * each.variance for each in spreads])
    quantiles = np.array([[quantile_of_largest(correlation, each.df, share)] for each in spreads])
    lower = np.array([each.mean for each in spreads]) - errors * quantiles
    for place, number in enumerate(np.flatnonzero(finite)):
        which = lower[:, place].argmin()
        bounds[number] = Bound(bounds[number].mean, float(errors[which, place]), float(lower[which, place]))
    return bounds


@dataclass(frozen=True)
class _Spread:
    """How a mean (C,) varies by clusters: its `residuals` are what each cluster adds to it beyond its share, (C, clusters)."""

    mean: np.ndarray
    residuals: np.ndarray
    variance: np.ndarray
    df: int

    @classmethod
    def of(cls, d: np.ndarray, cluster: np.ndarray) -> _Spread:
        """Of d (C, T) with the cluster of each (T,)."""
        codes = np.unique(cluster, return_inverse=True)[1]
        mean = d.mean(axis=1)
        residuals = np.array([np.bincount(codes, each) for each in d - mean[:, None]]) / d.shape[1]
        df = int(codes.max())
        return cls(mean, residuals, (df + 1) / max(df, 1) * (residuals**2).sum(axis=-1), df)

    def correlation(self) -> np.ndarray:
        """Of pipelines (C, C), 0 with one that never differs."""
        size = np.sqrt((self.residuals**2).sum(axis=1, keepdims=True))
        scaled = np.divide(self.residuals, size, out=np.zeros_like(self.residuals), where=size > 0)
        correlation = scaled @ scaled.T
        np.fill_diagonal(correlation, 1.0)
        return correlation


def _spreads(d: np.ndarray, dealt: Dealt) -> list[_Spread]:
    """By units, by folds (the mean over repeats that have several), and where a class is rare with its worst units added."""
    of_repeats = [_Spread.of(d[:, here], dealt.fold[here]) for here in (dealt.repeat == r for r in np.unique(dealt.repeat))]
    whole = [each for each in of_repeats if each.df > 0] or of_repeats
    variance = np.mean([each.variance for each in whole], axis=0)
    of_folds = _Spread(d.mean(axis=1), np.hstack([each.residuals for each in whole]), variance, sum(each.df for each in whole))
    rare = np.flatnonzero(dealt.units_by_class < COMMON)
    added = [_Spread.of(*_with_worst_added(d, dealt, rare))] if len(rare) else []
    return [_Spread.of(d, dealt.unit), of_folds, *added]


def _with_worst_added(d: np.ndarray, dealt: Dealt, rare: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Differences (C, T') and units (T',) with two more units of each rare class, as bad as its worst for each pipeline."""
    values, units = [d], [dealt.unit]
    for code in rare:
        here = dealt.code == code
        unit = np.unique(dealt.unit[here], return_inverse=True)[1]
        sizes = np.bincount(unit)
        worst = (np.array([np.bincount(unit, each) for each in d[:, here]]) / sizes).min(axis=1, keepdims=True)
        times = round(sizes.mean())
        values.append(np.repeat(worst, ADDED * times, axis=1))
        units.append(np.repeat(dealt.unit.max() + 1 + ADDED * code + np.arange(ADDED), times))
    return np.hstack(values), np.concatenate(units)
