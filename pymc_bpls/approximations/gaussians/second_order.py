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
    """E z = Σ_n `pull`_n ρ_n and Var z = 1 + Σ_mn `pairs`_mn ρ_m ρ_n of a standardised function; shapes (J,) and (J, J)."""

    pull: np.ndarray
    pairs: np.ndarray


def second_order(c: np.ndarray, rho: np.ndarray) -> Change | None:
    """From the tilted means c (2, J) of He_3 and He_4 and the correlations (J, J) of the factors' functions.

    None where there are too many factors, or where the series does not converge: the variance of some function would change by
    more than half, or its mean by more than half its standard deviation.
    """
    if not 0 < len(rho) <= MOST_FACTORS:
        return None
    third, fourth = c
    others = rho - np.diag(np.diag(rho))
    pairs = 0.5 * third[:, None] * third * others**2
    triples = ((others @ pairs) * others).sum(axis=1)
    pull = 0.5 * third * triples + fourth * (others**3 @ third) / 6
    return Change(pull, pairs) if _is_small(pull, pairs, rho) else None


def _is_small(pull: np.ndarray, pairs: np.ndarray, rho: np.ndarray) -> bool:
    """Whether |Σ pairs_mn ρ_m ρ_n| ≤ ½ and |Σ pull_n ρ_n| ≤ ½ for every z.

    ρ = R u for a unit vector u with R R' = rho, so that these are the eigenvalues of R' pairs R and the length of R' pull.
    """
    if not np.isfinite(pairs).all() or pull @ rho @ pull > _MOST_CHANGE**2:
        return False
    change = rho @ pairs @ rho
    return all(_is_positive(_MOST_CHANGE * rho + sign * change) for sign in (1, -1))


def _is_positive(matrix: np.ndarray) -> bool:
    """Whether it is positive semidefinite, up to rounding."""
    rounding = 1e-10 * np.trace(matrix) * np.eye(len(matrix))
    return lapack.dpotrf(matrix + rounding, lower=1)[1] == 0


def kurtosis_of_pairs(by: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """3 Σ_mn c_3m c_3n ρ_m² ρ_n² ρ_mn / 4! for `by` = c_3n ρ_n² (rows, J), where ρ_mn = roots_m'roots_n; shape (rows,)."""
    return (((by @ roots) ** 2).sum(axis=1) - (by**2).sum(axis=1)) / 8
