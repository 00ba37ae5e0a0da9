"""E-values: what a gambler would have who bets, row after row, that one pipeline predicts better than another.

Rows come in random order, and each is predicted from rows before it alone. With d_s ∈ [−1, 1] the difference of losses of row
s, and a bet b_s ∈ [0, ½] that is made before it is seen, the wealth E_t = Π_{s≤t} (1 + b_s d_s) is a supermartingale where the
pipeline is not better in conditional expectation for any rows before, so that P(E ≥ c) ≤ 1/c (Ville), whatever the model and
however few rows. The bets are b_s = clip(Σ d / Σ d², 0, ½) over the rows before.

The mean over several orders is an e-value as well, since each has expectation ≤ 1, and Markov's inequality holds for it.

References
----------
.. [1] Ville, J. (1939). Étude critique de la notion de collectif. Gauthier-Villars.
.. [2] Waudby-Smith, I. and Ramdas, A. (2024). Estimating means of bounded random variables by betting. JRSS B 86, 1-27.
   https://doi.org/10.1093/jrsssb/qkad009
"""

from __future__ import annotations

import numpy as np

MOST = 0.5


def bets(d: np.ndarray) -> np.ndarray:
    """The share of the wealth that is staked on each d_s (T,), from those before it."""
    before, squares = (np.cumsum(values) - values for values in (d, d**2))
    return np.clip(np.divide(before, squares, out=np.zeros_like(before), where=squares > 0), 0, MOST)


def log_wealth(d: np.ndarray) -> np.ndarray:
    """log E_t (T,) of differences d (T,) in [−1, 1], in their order."""
    return np.cumsum(np.log1p(bets(d) * d))


def labels_to_see(difference: float, d: np.ndarray, threshold: float) -> float:
    """About how many rows would have to be predicted for E to reach the threshold, by a mean of `difference` among d's squares.

    The wealth of a small constant bet b grows by b δ − ½ b² E[d²] a row, which is δ² / 2 E[d²] at the best one.
    """
    return 2 * float(np.mean(d**2)) * np.log(threshold) / difference**2
