"""How far one walks through the package: `python tests/house/walk.py` counts files, and changes of file, of two calls.

The model is a logistic regression; each call is made once before, so that nothing is compiled, and then followed call by call.
A change of file is a call from a function of the package in one file to one in another, or the return from it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pymc as pm

import pymc_bpls as bpls

PACKAGE = str(Path(bpls.__file__).parent)


def model() -> pm.Model:
    """Ten labels and a pool of twenty rows, two features."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), np.where(np.arange(30) < 10, np.arange(30) % 2, -1)
    with pm.Model() as declared:
        beta = pm.Normal("beta", 0, 2.5, shape=2)
        pm.Bernoulli("y", logit_p=pm.Normal("intercept", 0, 2.5) + X @ beta, observed=y)
    return declared


def walk(call: Callable[[], Any]) -> tuple[int, int]:
    """Files of the package that a call enters, and how often it changes from one to another."""
    visited: list[str] = []

    def see(frame: FrameType, event: str, _: Any) -> None:
        back = frame.f_back if event == "return" else frame
        file = "" if event not in ("call", "return") or back is None else back.f_code.co_filename
        if file.startswith(PACKAGE) and visited[-1:] != [file]:
            visited.append(file)

    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(set(visited)), len(visited)


def main() -> None:
    """Print both walks."""
    for criterion in ("ppp", "predictive"):
        bpls.BPLS(model()).score(criterion)
    declared = model()
    print("BPLS(model): {} files, {} changes".format(*walk(lambda: bpls.BPLS(declared))))
    pls = bpls.BPLS(model())
    print('score("ppp"): {} files, {} changes'.format(*walk(lambda: pls.score("ppp"))))


if __name__ == "__main__":
    main()
