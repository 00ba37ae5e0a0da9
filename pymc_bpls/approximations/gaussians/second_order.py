"""What pairs and triples of skewed factors change in the moments of EP's Gaussian: the second order after the first.

p_k ∝ q Π_n (1 + ε_n) with ε_n = Σ_{l≥3} c_ln He_l(z_n)/l!, z_n being factor n's linear function, standardised: EP has matched
the first two moments of each. To the first order in ε a linear function z gets a skewness and a kurtosis (`Shape`). Its mean
and its variance change from the second order on. With ρ_n the correlation of z and z_n, ρ_mn that of two factors, and sums over
distinct factors, Wick's theorem gives

    Var z = 1 + ½ Σ_mn c_3m c_3n ρ_m ρ_n ρ_mn²,
    E z = ¼ Σ_lmn c_3l c_3m c_3n ρ_l ρ_lm ρ_ln ρ_mn² + ⅙ Σ_mn c_4m c_3n ρ_m ρ_mn³,
    E He_4(z) = Σ_n c_4n ρ_n⁴ + 3 Σ_mn c_3m c_3n ρ_m² ρ_n² ρ_mn:

all terms up to 1/n in even moments of n rows, and up to n^(−3/2) in the mean [1]_. The moments are a change of q itself.

References
----------
.. [1] Opper, M., Paquet, U. and Winther, O. (2013). Perturbative corrections for approximate inference in Gaussian latent
   variable models. Journal of Machine Learning Research 14, 2857-2898. https://jmlr.org/papers/v14/opper13a.html
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

#: Where there are more factors, each differs too little from a Gaussian for their pairs to matter.
MOST_FACTORS = 500
_MOST_CHANGE = 0.5


class Change(NamedTuple):
    """E z = Σ_n `pull`_n ρ_n and Var z = 1 + Σ_mn `pairs`_mn ρ_m ρ_n of a standardised function; shapes (J,) and (J, J).

    The same of white coordinates u ~ N(0, I) in which the functions have the directions `roots` (J, d): E u = `shift` (d,) and
    Cov u = I + `spread` (d, d).
    """

    pull: np.ndarray
    pairs: np.ndarray
    shift: np.ndarray
    spread: np.ndarray

    @property
    def is_small(self) -> bool:
        """Whether no function's mean changes by more than half its standard deviation, and no variance by more than half."""
        if not np.isfinite(self.spread).all() or self.shift @ self.shift > _MOST_CHANGE**2:
            return False
        half = _MOST_CHANGE * np.eye(len(self.spread))
        return all(lapack.dpotrf(half + sign * self.spread, lower=1)[1] == 0 for sign in (1, -1))


def second_order(c: np.ndarray, roots: np.ndarray) -> Change | None:
    """From the tilted means c (2, J) of He_3 and He_4, and roots (J, d) of the correlations of the factors' functions.

    None where there are too many factors, or where the change is so large that the series tells nothing.
    """
    if not 0 < len(roots) <= MOST_FACTORS:
        return None
    third, fourth = c
    others = roots @ roots.T
    np.fill_diagonal(others, 0.0)
    squares = others * others
    pairs = 0.5 * third[:, None] * third * squares
    spread = roots.T @ (pairs @ roots)
    triples = ((roots @ spread) * roots).sum(axis=1) - 2 * (pairs * others).sum(axis=1)
    pull = 0.5 * third * triples + fourth * ((squares * others) @ third) / 6
    change = Change(pull, pairs, roots.T @ pull, spread)
    return change if change.is_small else None


def kurtosis_of_pairs(by: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """3 Σ_mn c_3m c_3n ρ_m² ρ_n² ρ_mn / 4! for `by` = c_3n ρ_n² (rows, J), where ρ_mn = roots_m'roots_n; shape (rows,)."""
    return (((by @ roots) ** 2).sum(axis=1) - (by**2).sum(axis=1)) / 8
