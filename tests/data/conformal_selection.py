"""p-values and selections of conformal selection by its authors' package, for tests/test_acceptance.py.

    pip install "git+https://github.com/ying531/conformal-selection#subdirectory=confselect-python"
    python tests/data/conformal_selection.py

Of commit feffee179a1c76c10648bc950db024c356c020fd. Its random tie-break is set to 1. A calibration row whose prediction is
right has a score above all candidates, as the clipped score of Jin and Candès (2023) has; others have minus their confidence.
"""

import json
from pathlib import Path

import numpy as np
from ConfSelect.confselect import BH, conformal_select

np.random.uniform = lambda size: np.ones(size)
rng = np.random.default_rng(2023)
cases = []
for n, m, alpha, decimals in ((40, 100, 0.1, 12), (25, 60, 0.2, 2), (12, 30, 0.05, 12), (150, 200, 0.05, 2)):
    confidence = np.round(0.5 + 0.5 * rng.beta(2, 1, size=n), decimals)
    wrong = rng.random(n) > confidence
    candidates = np.round(0.5 + 0.5 * rng.beta(3, 1, size=m), decimals)
    _, p_values = conformal_select(np.where(wrong, 0.0, 10.0) - confidence, -candidates, alpha)
    selected = np.sort(BH(p_values, alpha)).astype(int)
    case = {"confidence": confidence, "wrong": wrong, "candidates": candidates, "p_values": p_values, "selected": selected}
    cases.append({"alpha": alpha, **{name: values.tolist() for name, values in case.items()}})
Path(__file__).with_suffix(".json").write_text(json.dumps(cases) + "\n")
