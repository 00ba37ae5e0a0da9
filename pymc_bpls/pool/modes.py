"""Modes of a posterior with the pool's labels integrated out, which often has several.

They are looked for from the fit on D, from components of declared mixtures and bumps on lines through the fit
(`montecarlo.other_modes`), from draws around it, and from points around the model's own start.
"""

from __future__ import annotations

import numpy as np

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.errors import ModeError
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.montecarlo.other_modes import Search, starts_elsewhere
from pymc_bpls.text.progress import stage

_AROUND_FIT, _ANYWHERE, _RADIUS = 4, 4, 2.0
_SAME = 1e-2


def search_from(engine: Engine, labeled: Labeled, supervised: Mode) -> Search:
    """Distinct modes, the one with the most mass by Laplace's method first.

    Raises
    ------
    ModeError
        No start leads to a mode.
    """
    rng, around = np.random.default_rng(0), Gaussian.at_mode(supervised).in_theta
    q = len(around.mean)
    near = around.mean + rng.normal(size=(_AROUND_FIT, q)) @ around.factor.T
    anywhere = engine.density.start + rng.uniform(-_RADIUS, _RADIUS, size=(_ANYWHERE, q))
    centres, elsewhere = starts_elsewhere(engine, labeled, 1, around.mean, np.arange(q))
    starts = np.vstack([around.mean, elsewhere, near, anywhere])
    modes: list[Mode] = []
    with stage("looking for modes", len(starts)) as tell:
        for start in starts:
            tell(1)
            try:
                mode = engine.fit(labeled, start)
            except ModeError:
                continue
            if all(other.gaussian.distances(mode.theta[None])[0] > _SAME for other in modes):
                modes.append(mode)
    if not modes:
        modes = [engine.fit(labeled, around.mean)]
    return Search(tuple(modes), len(starts), len(starts), centres.left_out(len(starts))).best_first
