"""The study as a table and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from pymc_bpls.approximations.automatic import FEW_ROWS
from validation.study.figures import BLUE, GREEN, ORANGE, SKY
from validation.study.markdown import table

Results = dict[str, Any]
METHODS = ("Laplace, refits", "Laplace, predictive", "VI", "EP", "PSIS")
MARKERS = dict(zip(METHODS, "o^sDx", strict=True))
COLOURS = dict(zip(METHODS, (BLUE, SKY, ORANGE, GREEN, "#555555"), strict=True))


RECOMMENDATION = """## Which when

`approximation="auto"`, the default, is the rule that follows; it can be told before anything is fitted.

- Rows with one linear predictor, priors Gaussian or those of single coefficients, and hierarchies, which are that once five
  parameters or fewer are fixed: `"ep"`. Closest to the exact values
  wherever labels are few or rows separated, for one fit instead of one refit a candidate; importance sampling from it can be
  trusted.
- Any other model with fewer than five labeled rows a parameter: `"vi"`. Its errors are a fraction of those of refits, which
  rank worst there; where it takes long (many parameters, no linear predictors), `"laplace"` is the quick one.
- Any other model with five rows a parameter or more: `"laplace"`. Both rank candidates there as the exact values do, or nearly
  so, and VI takes ten to some hundred times as long.
- Laplace's Gaussian without refits is no substitute for any of them.
- PSIS with 4,000 draws has more Monte Carlo error than EP has bias; take it for its k-hat, or with many more draws."""


def write(results: Results, missing: list[str], path: Path) -> None:
    """The table and what follows from it, as Markdown."""
    left = f" Not measured yet: {', '.join(missing)}." if missing else ""
    path.write_text(
        "\n\n".join(
            [
                "# Approximations of the pseudo posterior predictive against NUTS and importance sampling",
                "Remade by `python -m validation.approximations`. Each cell: Kendall's τ with the exact ranking / largest "
                "centred error of log PPP / exact log PPP lost by the choice / k-hat of importance sampling from that "
                "approximation / milliseconds, compiled. The reference is 4 × 4,000 draws of NUTS on the doubled posterior, "
                "4 × 10,000 for the zoo's hierarchies, nested groups and many cells, and 4 × 20,000 for its zero-sum groups "
                "and Hilbert-space process, whose approximations are closest; for the zoo's other "
                "models 40,000 weighted draws whose k-hat is below 0.7, or else 4 × 2,000 of NUTS. NUTS is PyMC's, or nutpie's "
                "where `--nuts-sampler nutpie` was given, as it was for those of 4 × 20,000, nested groups, many cells, the "
                "latent process and the random walk of unknown scale. "
                "Where the error of the reference has a star, averages are taken with control "
                "variates (Mira et al. 2013), which makes them as exact as those of "
                "ten to a hundred times the draws. "
                "Errors near its own largest Monte Carlo error and τ between near ties cannot be told from it. "
                "Times of the zoo were taken on a busy machine." + left,
                _table(results),
                "![Largest centred error of each approximation](approximations.png)",
                _summary(results),
                RECOMMENDATION,
            ]
        )
        + "\n"
    )


def _table(results: Results) -> str:
    header = ["case", "rows a parameter", "range of log PPP", "error of the reference", *METHODS]
    rows = []
    for name, found in results.items():
        flag = " (unreliable reference)" if found["reasons"] else ""
        cells = [_cell(found["methods"].get(method)) for method in METHODS]
        rows.append([name + flag, _rows_a_parameter(found), f"{found['range']:.2f}", _own_error(found), *cells])
    return table(header, rows)


def _rows_a_parameter(found: dict[str, Any]) -> str:
    return f"{found['n'] / found['q']:.1f}"


def _own_error(found: dict[str, Any]) -> str:
    return f"{found['mcse']:.4f}" + ("*" if found.get("controlled") else "")


def _cell(found: dict[str, Any] | None) -> str:
    if found is None:
        return "–"
    if "tau" not in found:
        return "refused"
    k = "–" if found["pareto_k"] is None else f"{found['pareto_k']:.2f}"
    return f"{found['tau']:.3f} / {found['error']:.4f} / {found['regret']:.4f} / {k} / {1e3 * found['seconds']:.0f}"


def _summary(results: Results) -> str:
    """Medians of paired ratios of errors to those of refits, and what choices lost."""
    lines = [f"- {METHODS[0]}: {_lost(results, METHODS[0])}"]
    for method in METHODS[1:]:
        both = [
            found["methods"]
            for found in results.values()
            if "error" in found["methods"].get(method, {}) and "error" in found["methods"][METHODS[0]]
        ]
        ratios = np.array([each[method]["error"] / each[METHODS[0]]["error"] for each in both])
        better = int((ratios < 1).sum())
        lines.append(
            f"- {method}: largest error {np.median(ratios):.2f} times that of refits in the median "
            f"({ratios.min():.2f} to {ratios.max():.2f}), smaller in {better} of {len(ratios)} cases. {_lost(results, method)}"
        )
    return "\n".join([*lines, _ep_beside_vi(results), *_where_ep_is_refused(results)])


def _ep_beside_vi(results: Results) -> str:
    """Where EP's largest error is more than a third of VI's, of the zoo's models, and the least τ of EP."""
    both = {
        name.removeprefix("zoo: "): (found["methods"]["EP"], found["methods"]["VI"]["error"], found["mcse"])
        for name, found in results.items()
        if name.startswith("zoo: ") and all("error" in found["methods"].get(each, {}) for each in ("EP", "VI"))
    }
    above = [
        f"{name} ({ep['error']:.4f} of {vi:.4f}, the reference's error {mcse:.4f})"
        for name, (ep, vi, mcse) in both.items()
        if 3 * ep["error"] > vi
    ]
    tau = min(ep["tau"] for ep, _, _ in both.values())
    return (
        f"- EP beside VI, the zoo's models that have both: EP's largest error is at most a third of VI's in "
        f"{len(both) - len(above)} of {len(both)}, Kendall's τ of EP at least {tau:.3f}. More than a third: {', '.join(above)}."
    )


def _where_ep_is_refused(results: Results) -> list[str]:
    """VI beside refits, for fewer rows a parameter than the rule asks for of these, and for more."""
    refits, vi = METHODS[0], "VI"
    held = [
        (found["n"] / found["q"] < FEW_ROWS, found["methods"][refits], found["methods"][vi])
        for found in results.values()
        if "refused" in found["methods"].get("EP", {}) and all("error" in found["methods"][name] for name in (refits, vi))
    ]
    lines = []
    for few, words in ((True, f"fewer than {FEW_ROWS}"), (False, f"{FEW_ROWS} or more")):
        pairs = [(one, other) for is_few, one, other in held if is_few == few]
        if pairs:
            error, seconds = (np.array([[each[name] for each in pair] for pair in pairs]) for name in ("error", "seconds"))
            tau = np.array([[each["tau"] for each in pair] for pair in pairs]).min(axis=0)
            lines.append(
                f"- Where EP is refused and D has {words} rows a parameter ({len(pairs)} cases): VI's largest error is "
                f"{np.median(error[:, 1] / error[:, 0]):.2f} times that of refits in the median, in "
                f"{np.median(seconds[:, 1] / seconds[:, 0]):.0f} times the time; Kendall's τ is down to {tau[0]:.3f} for "
                f"refits and {tau[1]:.3f} for VI, errors up to {error[:, 0].max():.3f} and {error[:, 1].max():.3f}."
            )
    return lines


def _lost(results: Results, method: str) -> str:
    lost = max(f["methods"][method]["regret"] for f in results.values() if "regret" in f["methods"].get(method, {}))
    return f"Its choice lost at most {lost:.4f} of log PPP."


def draw(results: Results, path: Path) -> None:
    """Largest centred errors, a row each case."""
    names = list(results)
    figure, axes = plt.subplots(figsize=(7.5, 0.32 * len(names) + 1.6), layout="constrained")
    for method in METHODS:
        points = [
            (f["methods"][method]["error"], i)
            for i, f in enumerate(results.values())
            if "error" in f["methods"].get(method, {})
        ]
        axes.scatter(*zip(*points, strict=True), marker=MARKERS[method], color=COLOURS[method], label=method, zorder=3)
    own = [f["mcse"] for f in results.values()]
    axes.scatter(own, range(len(names)), marker="|", s=120, color="black", label="error of the reference")
    axes.set(xscale="log", yticks=range(len(names)), yticklabels=names, xlabel="largest centred error of log PPP (nats)")
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
