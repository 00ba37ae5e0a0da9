"""The figure of the calibration: how far the ranks' distribution function is from the uniform one."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from validation.pool.bands import PLACES, band, curves
from validation.pool.calibration import PARAMETERS
from validation.study.figures import BLUE, GREEN, ORANGE, PURPLE, VERMILION

#: The share of a class, and the means of either class: a colour a feature and class, dashed for the second feature.
_LINES = ((ORANGE, "-"), (BLUE, "-"), (PURPLE, "--"), (GREEN, "-"), (VERMILION, "--"))


def plot_ranks(ranks: dict[str, np.ndarray]) -> Figure:
    """One panel a way, ranks (simulations, q), within the band of uniform ranks."""
    figure, axes = plt.subplots(1, len(ranks), figsize=(10, 3.6), sharey=True, layout="constrained")
    for axis, (way, values) in zip(axes, ranks.items(), strict=True):
        axis.fill_between(PLACES, *band(len(values)), color="0.9")
        for name, curve, (color, style) in zip(PARAMETERS, curves(values), _LINES, strict=True):
            axis.plot(PLACES, curve, color=color, linestyle=style, lw=1.4, label=name)
        axis.set_title(way)
        axis.set_xlabel("rank of the truth among draws, as a share")
    axes[0].set_ylabel("share of simulations below − uniform")
    axes[1].legend(fontsize=8, ncols=2)
    return figure
