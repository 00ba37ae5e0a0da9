"""Lower bounds of mean differences that are known from cross-fitting, for several pipelines at once.

Every labeled row is set aside once in each repeat, and d̄ is the mean difference of losses over rows. With V_units the variance
of d̄ by clusters that are rows, or groups of rows that belong together, and V_folds its variance by the folds of a repeat, the
bound is the lower one of

    d̄ − q_{U−1} √((1 + n_test/n_train) V_units)   and   d̄ − q_{J−R} √((1 + n_test/n_train) V_folds)

of U units, and of J folds in R repeats. The first sees rows that differ by chance, which stratified folds hide; the second
sees fits that fail in a whole fold. The factor stands for training sets that overlap: it is the limit of many repeats in the
variance of Nadeau and Bengio (2003), (1/J + n_test/n_train) s² with s² the variance of fold means, since folds that cover
every row equally often add no noise of which rows are tested.

q is the quantile of the largest of |C| Student's t's that are correlated as the pipelines' differences are (Dunnett, 1955):
with probability 1 − α all bounds together are below the expected differences. This is normal theory, and differences are
skewed: the fewer rows, the more often a rare, large loss is not among them. Fewer than `FEWEST` units have no bound; bets are
exact with any number.

References
----------
.. [1] Nadeau, C. and Bengio, Y. (2003). Inference for the generalization error. Machine Learning 52, 239-281.
   https://doi.org/10.1023/A:1024068626366
.. [2] Dunnett, C. W. (1955). A multiple comparison procedure for comparing several treatments with a control. JASA 50,
   1096-1121. https://doi.org/10.1080/01621459.1955.10501294
.. [3] Cameron, A. C. and Miller, D. L. (2015). A practitioner's guide to cluster-robust inference. Journal of Human Resources
   50, 317-372. https://doi.org/10.3368/jhr.50.2.317
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_bpls.choosing.simultaneous import quantile_of_largest

#: Rows, or groups of rows that belong together, that a bound needs.
FEWEST = 20


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
    """Of each prediction (T,) the number of its unit, of its fold and of its repeat; `ratio` is n_test/n_train."""

    unit: np.ndarray
    fold: np.ndarray
    repeat: np.ndarray
    ratio: float


def lower_bounds(differences: np.ndarray, dealt: Dealt, alpha: float) -> list[Bound]:
    """Of each pipeline, from differences (C, T) of its predictions.

    A bound is −∞ where there are fewer than `FEWEST` units or one fold, and where a difference is infinite; the latter's share
    of α is spent.
    """
    finite = np.isfinite(differences).all(axis=1)
    with np.errstate(invalid="ignore"):
        bounds = [Bound(float(d.mean()), np.nan, -np.inf) for d in differences]
    spreads = _spreads(differences[finite], dealt)
    of_units, of_folds = spreads
    if not finite.any() or of_units.df < FEWEST - 1 or of_folds.df < 1:
        return bounds
    correlation, share = of_units.correlation(), alpha * finite.mean()
    errors = np.sqrt([(1 + dealt.ratio) * each.variance for each in spreads])
    distances = errors * np.array([[quantile_of_largest(correlation, each.df, share)] for each in spreads])
    for place, number in enumerate(np.flatnonzero(finite)):
        which = distances[:, place].argmax()
        mean = bounds[number].mean
        bounds[number] = Bound(mean, float(errors[which, place]), float(mean - distances[which, place]))
    return bounds


@dataclass(frozen=True)
class _Spread:
    """How a mean (C,) varies by clusters: its `residuals` are what each cluster adds to it beyond its share, (C, clusters)."""

    residuals: np.ndarray
    variance: np.ndarray
    df: int

    @classmethod
    def of(cls, d: np.ndarray, cluster: np.ndarray) -> _Spread:
        """Of d (C, T) with the cluster of each (T,)."""
        codes = np.unique(cluster, return_inverse=True)[1]
        centred = d - d.mean(axis=1, keepdims=True)
        residuals = np.array([np.bincount(codes, each) for each in centred]) / d.shape[1]
        df = int(codes.max())
        return cls(residuals, (df + 1) / max(df, 1) * (residuals**2).sum(axis=-1), df)

    def correlation(self) -> np.ndarray:
        """Of pipelines (C, C), 0 with one that never differs."""
        size = np.sqrt((self.residuals**2).sum(axis=1, keepdims=True))
        scaled = np.divide(self.residuals, size, out=np.zeros_like(self.residuals), where=size > 0)
        correlation = scaled @ scaled.T
        np.fill_diagonal(correlation, 1.0)
        return correlation


def _spreads(d: np.ndarray, dealt: Dealt) -> tuple[_Spread, _Spread]:
    """By units, and by folds: the mean over repeats that have several."""
    of_repeats = [_Spread.of(d[:, here], dealt.fold[here]) for here in (dealt.repeat == r for r in np.unique(dealt.repeat))]
    whole = [each for each in of_repeats if each.df > 0] or of_repeats
    variance = np.mean([each.variance for each in whole], axis=0)
    of_folds = _Spread(np.hstack([each.residuals for each in whole]), variance, sum(each.df for each in whole))
    return _Spread.of(d, dealt.unit), of_folds
