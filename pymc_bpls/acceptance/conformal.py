"""Conformal selection: p-values of "this pseudo-label is wrong", and the labels that a bound on the share of wrong ones admits.

With confidences s_i of n calibration rows, W_i whether their predicted label is wrong, and s_j that of a candidate,

    p_j = (1 + Σ_i W_i 1{s_i ≥ s_j}) / (n + 1),

and Benjamini and Hochberg's step-up procedure [2]_ at α: where calibration rows and candidates are exchangeable and the model
did not see the calibration labels, at most a share α of the accepted labels is wrong in expectation, in any finite sample [1]_.

References
----------
.. [1] Jin, Y. and Candès, E. J. (2023). Selection by prediction with conformal p-values. JMLR 24(244), 1-41.
   https://doi.org/10.48550/arXiv.2210.01408
.. [2] Benjamini, Y. and Hochberg, Y. (1995). Controlling the false discovery rate. JRSS B 57, 289-300.
   https://doi.org/10.1111/j.2517-6161.1995.tb02031.x
"""

from __future__ import annotations

import numpy as np
import scipy


def conformal_p_values(confidence: np.ndarray, wrong: np.ndarray, of_candidates: np.ndarray) -> np.ndarray:
    """p-values (m,) of candidates' confidences (m,), from those of calibration rows (n,) and whether these are `wrong`.

    A confidence that is not a number is no evidence: its p-value is 1.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bpls.acceptance.conformal import conformal_p_values
    >>> conformal_p_values(np.array([0.9, 0.8, 0.6]), np.array([False, True, True]), np.array([0.95, 0.7, 0.5]))
    array([0.25, 0.5 , 0.75])
    """
    ahead = np.sort(confidence[wrong])
    p = (1 + len(ahead) - np.searchsorted(ahead, of_candidates, side="left")) / (len(confidence) + 1)
    return np.where(np.isnan(of_candidates), 1.0, p)


def step_up(p_values: np.ndarray, alpha: float) -> np.ndarray:
    """Which of the hypotheses Benjamini and Hochberg's procedure rejects at level α, shape (m,)."""
    if not len(p_values):
        return np.zeros(0, dtype=bool)
    return np.asarray(scipy.stats.false_discovery_control(p_values) <= alpha)
