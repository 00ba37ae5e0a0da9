"""What labeled rows say of each pipeline: differences with their bounds, or the wealth of bets."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pymc_bpls.choosing.choice import Choice
from pymc_bpls.choosing.evidence import BETTING
from pymc_bpls.choosing.sentences import LOSS_IN_WORDS
from pymc_bpls.errors import CriterionError
from pymc_bpls.plots.panels import BLUE, COLOURS, FONT, GREY, LIGHT_GREY, legend_above, panels, tidy
from pymc_bpls.text.numbers import percent

_WIDTH, _ROW = 6.4, 0.5
_BOUND: dict[str, Any] = {"marker": "|", "markersize": 12, "markeredgewidth": 2.5}
_DOT: dict[str, Any] = {"marker": "o", "markersize": 8, "linestyle": "none"}


def plot_choice(choice: Choice, *, axes: Any = None) -> Axes:
    """What labeled rows that were set aside say of each pipeline.

    Parameters
    ----------
    choice : Choice
        What `BPLS.choose` returned.
    axes : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        By a bound: for each pipeline how much less it loses than the supervised model (the dashed line), as a dot, and a line
        down to what that is above with the confidence that was asked for; one that is wholly to the right of the dashed line is
        proven better. By betting: the wealth of each pipeline's bets along the labeled rows, a thin line for each order, their
        mean at the end (the e-value) as a dot, and what it has to reach as a dashed line. What was chosen is drawn in blue.

    Raises
    ------
    CriterionError
        It is no choice, or nothing was judged.

    See Also
    --------
    BPLS.choose : what is drawn.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> y = np.where(np.arange(60) < 30, X[:, 0] + rng.logistic(size=60) > 0, -1)
    >>> with pm.Model() as model:
    ...     label = pm.Bernoulli("label", logit_p=X @ pm.Normal("b", 0, 2.5, shape=2), observed=y)
    >>> choice = bpls.BPLS(model).choose({"all": bpls.Train("probability")}, random_seed=0, progressbar=False)
    >>> bpls.plot_choice(choice).get_xlabel()
    'log loss below that of the supervised model'
    """
    if not isinstance(choice, Choice):
        raise CriterionError(f"A {type(choice).__name__} is no choice. Give what choose returned.")
    if not choice.evidence:
        raise CriterionError(f"Nothing was judged, so that there is nothing to draw. {choice.verdict}")
    betting = choice.guarantee == BETTING
    height = 3.4 if betting else 1.9 + _ROW * len(choice.evidence)
    [[panel]] = panels(1, 1, (_WIDTH, height), axes)
    (_draw_wealth if betting else _draw_bounds)(panel, choice)
    chosen = "the supervised model" if choice.name not in choice.evidence else f'"{choice.name}"'
    panel.set_title(f"Use {chosen}", fontsize=FONT, loc="left", pad=34)
    return panel


def _draw_bounds(panel: Axes, choice: Choice) -> None:
    """Dots with lines down to their bounds, the best proof on top."""
    names = sorted(choice.evidence, key=lambda name: choice.evidence[name].proof)
    for place, name in enumerate(names):
        each, colour = choice.evidence[name], BLUE if name == choice.name else LIGHT_GREY
        if np.isfinite(each.proof):
            panel.plot([each.proof, each.difference], [place, place], color=colour, linewidth=2.5, solid_capstyle="butt")
            panel.plot([each.proof], [place], color=colour, **_BOUND)
        panel.plot([each.difference], [place], color=colour, **_DOT)
    if any(np.isfinite(each.proof) for each in choice.evidence.values()):
        panel.plot([], [], color=GREY, linewidth=2.5, **_BOUND, label=f"to its lower bound, {percent(1 - choice.alpha)} sure")
    panel.plot([], [], color=GREY, **_DOT, label="mean difference")
    panel.axvline(0, color="black", linestyle=(0, (5, 2)), linewidth=1.5, zorder=1, label="supervised model")
    legend_above(panel, 3)
    panel.set_yticks(range(len(names)), names, fontsize=FONT)
    panel.set_ylim(-0.6, len(names) - 0.4)
    panel.set_xlabel(f"{LOSS_IN_WORDS.get(choice.loss, choice.loss)} below that of the supervised model", fontsize=FONT)
    panel.xaxis.set_major_locator(MaxNLocator(6))
    tidy(panel, lines="x")


def _draw_wealth(panel: Axes, choice: Choice) -> None:
    """The wealth of every order, and its mean at the end."""
    panel.axhline(choice.threshold, color="black", linestyle=(0, (5, 2)), linewidth=1.5, zorder=1)
    panel.axhline(1, color=GREY, linewidth=0.8, zorder=1)
    others = [colour for colour in COLOURS if colour != BLUE]
    rest = [name for name in choice.evidence if name != choice.name]
    colours = {name: others[place % len(others)] for place, name in enumerate(rest)} | {choice.name: BLUE}
    for name, each in choice.evidence.items():
        last = max(len(wealth) for wealth in each.log_wealth)
        for wealth in each.log_wealth:
            panel.plot(np.arange(len(wealth) + 1), np.exp(np.r_[0, wealth]), color=colours[name], linewidth=0.8, alpha=0.6)
        panel.plot([last], [each.proof], color=colours[name], marker="o", linestyle="none", markersize=8, label=name)
    panel.set_yscale("log")
    panel.set_xlabel("labeled rows, each predicted from rows before it", fontsize=FONT)
    panel.set_ylabel(f"wealth ({choice.threshold:.3g} proves it)", fontsize=FONT)
    panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    legend_above(panel, min(3, len(choice.evidence)))
    tidy(panel)
