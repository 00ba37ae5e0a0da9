"""The study as a table and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from validation.study.figures import BLUE, GREEN, ORANGE, SKY
from validation.study.markdown import table

Results = dict[str, Any]
METHODS = ("Laplace, refits", "Laplace, predictive", "VI", "EP", "PSIS")
MARKERS = dict(zip(METHODS, "o^sDx", strict=True))
COLOURS = dict(zip(METHODS, (BLUE, SKY, ORANGE, GREEN, "#555555"), strict=True))


RECOMMENDATION = """## Which when

- Rows with one linear predictor, priors Gaussian or independent: `approximation="ep"`. Closest to NUTS wherever labels are
  few or rows separated, for one fit instead of one refit a candidate; importance sampling from it can be trusted.
- Any other model: `approximation="vi"`. Better than refits where labels are few, near them where they are many.
- `"laplace"` with refits: to reproduce the paper, for criteria that need the refit's own terms, and with ten or more labeled
  rows a parameter, where all of them agree. With about as many rows as parameters its ranking is far off, and its choices
  lost the most log PPP. It stays the default of `score` because it is the paper's; these results
  are the case for `"ep"`, and `"vi"` where that is refused, in its place.
- Laplace's Gaussian without refits is no substitute for either.
- PSIS with 4,000 draws has more Monte Carlo error than EP has bias; take it for its k-hat, or with many more draws."""


def write(results: Results, path: Path) -> None:
    """The table and what follows from it, as Markdown."""
    path.write_text(
        "\n\n".join(
            [
                "# Approximations of the pseudo posterior predictive against NUTS",
                "Remade by `python -m validation.approximations`. Each cell: Kendall's τ with the exact ranking / largest "
                "centred error of log PPP / exact log PPP lost by the choice / k-hat of importance sampling from that "
                "approximation / milliseconds, compiled. The reference is 4 × 4,000 draws of NUTS on the doubled posterior; "
                "errors near its own largest Monte Carlo error (third column) and τ between near ties cannot be told from it.",
                _table(results),
                "![Largest centred error of each approximation](approximations.png)",
                _summary(results),
                RECOMMENDATION,
            ]
        )
        + "\n"
    )


def _table(results: Results) -> str:
    header = ["case", "range of log PPP", "error of the reference", *METHODS]
    rows = []
    for name, found in results.items():
        flag = " (unreliable reference)" if found["reasons"] else ""
        cells = [_cell(found["methods"].get(method, {})) for method in METHODS]
        rows.append([name + flag, f"{found['range']:.2f}", f"{found['mcse']:.4f}", *cells])
    return table(header, rows)


def _cell(found: dict[str, Any]) -> str:
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
            if "error" in found["methods"][method] and "error" in found["methods"][METHODS[0]]
        ]
        ratios = np.array([each[method]["error"] / each[METHODS[0]]["error"] for each in both])
        better = int((ratios < 1).sum())
        lines.append(
            f"- {method}: largest error {np.median(ratios):.2f} times that of refits in the median "
            f"({ratios.min():.2f} to {ratios.max():.2f}), smaller in {better} of {len(ratios)} cases. {_lost(results, method)}"
        )
    return "\n".join(lines)


def _lost(results: Results, method: str) -> str:
    lost = max(f["methods"][method]["regret"] for f in results.values() if "regret" in f["methods"][method])
    return f"Its choice lost at most {lost:.4f} of log PPP."


def draw(results: Results, path: Path) -> None:
    """Largest centred errors, a row each case."""
    names = list(results)
    figure, axes = plt.subplots(figsize=(7.5, 0.32 * len(names) + 1.6), layout="constrained")
    for method in METHODS:
        points = [(f["methods"][method]["error"], i) for i, f in enumerate(results.values()) if "error" in f["methods"][method]]
        axes.scatter(*zip(*points, strict=True), marker=MARKERS[method], color=COLOURS[method], label=method, zorder=3)
    axes.scatter(
        [f["mcse"] for f in results.values()], range(len(names)), marker="|", s=120, color="black", label="error of NUTS"
    )
    axes.set(xscale="log", yticks=range(len(names)), yticklabels=names, xlabel="largest centred error of log PPP (nats)")
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
