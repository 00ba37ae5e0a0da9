"""The figure of the calibration: how far the ranks' distribution function is from the uniform one."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from validation.pool.calibration import KEPT, PARAMETERS
from validation.study.figures import BLUE, GREEN, ORANGE

_BAND = 1.63  # 99% of Kolmogorov's distribution


def plot_ranks(ranks: dict[str, np.ndarray]) -> Figure:
    """One panel a way, ranks (simulations, q); the band holds 99% of the curves of uniform ranks."""
    figure, axes = plt.subplots(1, len(ranks), figsize=(10, 3.6), sharey=True, layout="constrained")
    x = np.arange(KEPT + 1)
    for axis, (way, values) in zip(axes, ranks.items(), strict=True):
        limit = _BAND / np.sqrt(len(values))
        axis.fill_between([0, 1], -limit, limit, color="0.9")
        for place, name in enumerate(PARAMETERS):
            below = (values[:, place][:, None] <= x).mean(axis=0)
            color = ORANGE if place == 0 else BLUE if place <= 2 else GREEN
            axis.plot((x + 1) / (KEPT + 1), below - (x + 1) / (KEPT + 1), color=color, lw=1.2, label=name)
        axis.set_title(way)
        axis.set_xlabel("rank of the truth among draws, as a share")
    axes[0].set_ylabel("share of simulations below − uniform")
    axes[0].legend(fontsize=8, ncols=2)
    return figure
