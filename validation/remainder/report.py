"""The report on the remainder's order, as Markdown, from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from validation.study.markdown import table

NAMES = {
    "dropped": "dropped term ℓ_D(θ̃_i)",
    "ppp_minus_exact": "`ppp` − exact",
    "ibpls_minus_exact": "`ibpls` − exact",
    "half_log_det": "kept: ½ log det H",
    "log_prior": "kept: log π(θ̃_i)",
    "log_lik_pseudo": "kept: ℓ_i(θ̃_i)",
}
#: The orders that a Taylor expansion gives where all parameters concentrate; the paper has −2 for the dropped term.
EXPECTED = {
    "dropped": -1,
    "ppp_minus_exact": -2,
    "ibpls_minus_exact": -1,
    "half_log_det": -1,
    "log_prior": -1,
    "log_lik_pseudo": 0,
}
PAPER = -2
NEAR = 0.25
#: Beyond so many standard errors a mean slope is not the expected one by chance.
BY_CHANCE = 3
MEASURED = ("dropped", "ppp_minus_exact", "ibpls_minus_exact")
KEPT = ("half_log_det", "log_prior", "log_lik_pseudo")
HIERARCHY, CONTROL = "hierarchical logistic", "groups, spread known"
Records = dict[str, dict[str, Any]]
#: Of a quantity, in a model, by an expansion.
Slope = tuple[str, str, str]


def report(data: xr.Dataset, records: Records, check: dict[str, Any]) -> str:
    """The whole report."""
    sizes, replicates = data["n"].to_numpy(), data.sizes["replicate"]
    half = sizes[len(sizes) // 2 :]
    return (
        "\n\n".join(
            [
                "# The remainder's order",
                f"Remade by `python -m validation.remainder` (the measurements took "
                f"{sum(record['seconds'] for record in records.values()) / 60:.0f} minutes).",
                "## Finding",
                _finding(data),
                "## Evidence",
                f"{replicates} data sets a model with {', '.join(map(str, sizes))} labeled rows (the first n of the same "
                "rows) and 40 candidates each. A data set's candidates and their pseudo-labels are fixed: those predicted at "
                "the largest n, so that only n varies. A spread is the standard deviation over candidates; a slope is that "
                "of log spread in log n, fitted to each data set; means ± standard errors over data sets. The models: "
                "logistic (intercept, slope), softmax (three classes, the first one's logit 0, q = 4), both under "
                "Normal(0, 2.5); hierarchical logistic (slope, four non-centered group effects, their spread HalfNormal(1)); "
                "and its control, the same with the spread known to be 1.",
                f"![Spread against n; slopes over n ≥ {half[0]}](remainder.png)",
                _table(data, half),
                f"Expected: what a Taylor expansion gives where all parameters concentrate; the paper has "
                f"{_number(PAPER, 0)} for the dropped term. Bold: more than {NEAR} from it over n ≥ {half[0]}.",
                "Sizes at the largest n, medians over data sets:",
                _sizes(data),
                "### What was left out",
                _left_out(data, records),
                "### The exact values",
                _quadrature(data, records, check),
                "## Where the orders deviate",
                _deviations(data),
                "## Consequence",
                _consequence(data),
            ]
        )
        + "\n"
    )


def _number(value: float, places: int = 2) -> str:
    return f"{value:.{places}f}".replace("-", "−")


def _with_error(slope: xr.DataArray, error: xr.DataArray) -> str:
    return f"{_number(slope.item())} ± {error.item():.2f}"


def _measured(data: xr.Dataset) -> list[tuple[str, str]]:
    """Pairs (model, expansion) that have slopes."""
    pairs = data["slope"].sel(quantity="dropped").stack(pair=("model", "expansion")).dropna("pair")["pair"]
    return [pair for pair in pairs.to_numpy().tolist()]


def _far(data: xr.Dataset, quantity: str) -> list[tuple[str, str]]:
    """Pairs (model, expansion) whose slope is not near the expected one."""
    slope = data["slope"].sel(quantity=quantity)
    return [
        (model, expansion)
        for model, expansion in _measured(data)
        if abs(slope.sel(model=model, expansion=expansion).item() - EXPECTED[quantity]) > NEAR
    ]


def _range(slope: xr.DataArray) -> str:
    return f"{_number(slope.min().item())} to {_number(slope.max().item())}"


def _finding(data: xr.Dataset) -> str:
    slope = data["slope"]
    regular = slope.where(slope["model"] != HIERARCHY)
    lines = [
        f"- The term that Eq. 7 drops has slopes from {_range(slope.sel(quantity='dropped'))} over all models and "
        f"expansions: {'near' if not _far(data, 'dropped') else 'not everywhere near'} −1, which here means within {NEAR}, and "
        f"{'somewhere' if (slope.sel(quantity='dropped') < PAPER + NEAR).any() else 'nowhere'} near the paper's "
        f"{_number(PAPER, 0)}.",
        f"- Where all parameters concentrate (every model but the hierarchy), `ppp` − exact has slopes from "
        f"{_range(regular.sel(quantity='ppp_minus_exact'))}, `ibpls` − exact from "
        f"{_range(regular.sel(quantity='ibpls_minus_exact'))}.",
        f"- In the hierarchy, with its few groups, `ppp` − exact has the slope "
        f"{_with_error(*_of(data, HIERARCHY, 'map', 'ppp_minus_exact'))}, `ibpls` − exact "
        f"{_with_error(*_of(data, HIERARCHY, 'map', 'ibpls_minus_exact'))}; with the spread known, "
        f"{_with_error(*_of(data, CONTROL, 'map', 'ppp_minus_exact'))} and "
        f"{_with_error(*_of(data, CONTROL, 'map', 'ibpls_minus_exact'))}.",
        *_beyond_chance(data),
    ]
    return "\n".join(lines)


def _beyond_chance(data: xr.Dataset) -> list[str]:
    """Slopes that are near the expected ones and yet differ from them by more than chance."""
    near, kept = _near(data, MEASURED), _near(data, KEPT)
    off, kept_off = _off(data, near), _off(data, kept)
    if not off and not kept_off:
        return []
    named = "; ".join(
        f"{NAMES[quantity]} {_with_error(*_of(data, model, expansion, quantity))} ({model}, {expansion})"
        for quantity, model, expansion in off
    )
    return [
        f"- Near is not equal: of the {len(near)} near slopes of the dropped term and of the two errors, {len(off)} are more "
        f"than {BY_CHANCE} standard errors off what is expected, as slopes at finite n may be"
        f"{f': {named}' if named else ''}. Of the {len(kept)} near slopes of the kept terms, {len(kept_off)} are."
    ]


def _near(data: xr.Dataset, quantities: Sequence[str]) -> list[Slope]:
    """Slopes that are near the expected ones."""
    return [
        (quantity, model, expansion)
        for quantity in quantities
        for model, expansion in _measured(data)
        if (model, expansion) not in _far(data, quantity)
    ]


def _off(data: xr.Dataset, slopes: Sequence[Slope]) -> list[Slope]:
    """Those of them that differ from the expected ones by more than chance."""
    return [
        (quantity, model, expansion)
        for quantity, model, expansion in slopes
        if _is_off(*_of(data, model, expansion, quantity), EXPECTED[quantity])
    ]


def _is_off(slope: xr.DataArray, error: xr.DataArray, expected: float) -> bool:
    return bool(abs(slope.item() - expected) > BY_CHANCE * error.item())


def _of(data: xr.Dataset, model: str, expansion: str, quantity: str) -> tuple[xr.DataArray, xr.DataArray]:
    found = data.sel(model=model, expansion=expansion, quantity=quantity)
    return found["slope"], found["slope_error"]


def _table(data: xr.Dataset, half: np.ndarray) -> str:
    header = ["model", "expansion", "quantity", "expected", f"slope, n ≥ {half[0]}", "slope, all n"]
    rows = []
    for model, expansion in _measured(data):
        for quantity, name in NAMES.items():
            found = data.sel(model=model, expansion=expansion, quantity=quantity)
            slope = _with_error(found["slope"], found["slope_error"])
            if (model, expansion) in _far(data, quantity):
                slope = f"**{slope}**"
            rows.append(
                [
                    model,
                    expansion,
                    name,
                    _number(EXPECTED[quantity], 0),
                    slope,
                    _with_error(found["slope_all"], found["slope_all_error"]),
                ]
            )
    return table(header, rows)


def _medians(data: xr.Dataset, model: str, expansion: str) -> dict[str, float]:
    """Spreads at the largest n, medians over data sets."""
    last = data["spread"].sel(model=model, expansion=expansion).isel(n=-1).median("replicate")
    return {str(name): last.sel(quantity=name).item() for name in NAMES}


def _sizes(data: xr.Dataset) -> str:
    rows = []
    for model, expansion in _measured(data):
        rows.append([model, expansion, *(f"{value:.1e}" for value in _medians(data, model, expansion).values())])
    return table(["model", "expansion", *NAMES.values()], rows)


def _left_out(data: xr.Dataset, records: Records) -> str:
    lines = []
    for model in data["model"].to_numpy().tolist():
        for expansion in data["expansion"].to_numpy().tolist():
            left = [
                (int(n), message)
                for key, record in records.items()
                if key.rpartition(" ")[0] == model
                for n, message in record["left_out"][expansion].items()
            ]
            if not left:
                continue
            sizes = sorted({size for size, _ in left})
            counts = ", ".join(f"{sum(n == size for n, _ in left)} at n = {size}" for size in sizes)
            everywhere = len(left) == data.sizes["n"] * data.sizes["replicate"]
            what = "refused by the package for every data set and n" if everywhere else f"data sets without a mode: {counts}"
            lines.append(f"- {model}, {expansion}: {what}. The first error: “{left[0][1]}”")
    return "\n".join(lines) if lines else "Nothing: every fit has a mode."


def _quadrature(data: xr.Dataset, records: Records, check: dict[str, Any]) -> str:
    steps = [
        (record["n"][i], step, key.rpartition(" ")[0])
        for key, record in records.items()
        for i, step in enumerate(record["quadrature"])
    ]
    worst = max(step["share"] for _, step, _ in steps)
    header = [
        "model",
        "nodes an axis",
        "largest change",
        "largest share of the smallest spread at the same n",
        "change at the largest n",
    ]
    rows = []
    for model in data["model"].to_numpy().tolist():
        mine = [(n, step) for n, step, name in steps if name == model]
        nodes = [step["nodes"] for _, step in mine]
        largest_n = max(n for n, _ in mine)
        rows.append(
            [
                model,
                f"{min(nodes)} to {max(nodes)}",
                f"{max(step['change'] for _, step in mine):.1e}",
                f"{max(step['share'] for _, step in mine):.2%}",
                f"{max(step['change'] for n, step in mine if n == largest_n):.1e}",
            ]
        )
    spread = data["spread"].sel(quantity=list(MEASURED))
    return (
        "Gauss-Hermite grids around the mode of p(D|θ)² π(θ), nested for groups (`validation/remainder/quadrature.py`), "
        "without the package. Nodes are added until the values change, over candidates, by less than 0.5% of the smallest "
        "spread at the same n; the change from the last step overstates the error that is left. "
        f"The largest share is {worst:.2%}, {'below' if worst < 0.01 else '**not below**'} the 1% that is required; the "
        f"smallest spread of all is {spread.min().item():.1e}. `scipy.integrate.cubature` on the first {check['model']} data "
        f"set at n = {check['n']} ({check['status']}) differs by {check['difference']:.0e}; the nested rule is compared with "
        "a plain grid in `tests/test_remainder.py`.\n\n" + table(header, rows)
    )


def _deviations(data: xr.Dataset) -> str:
    lines = [
        f"- {NAMES[quantity]}, {model}, {expansion}: {_with_error(*_of(data, model, expansion, quantity))} instead of "
        f"{_number(EXPECTED[quantity], 0)}."
        for quantity in EXPECTED
        for model, expansion in _far(data, quantity)
    ]
    if not lines:
        return f"Nowhere by more than {NEAR}."
    if (HIERARCHY, "map") in _far(data, "ppp_minus_exact"):
        lines.append(
            "\nIn the hierarchy `ppp` does not reach −2, and more rows in the same groups help only like 1/n: four groups "
            "inform their spread only so far, however many rows each has, so that its posterior stays wide and skewed. "
            "Laplace's method errs there by a function of the group effects that does not shrink; candidates move these "
            "effects by O(1/n), and so the error differs between them by O(1/n). The control has the same rows and groups, "
            f"and only the spread is known: {_with_error(*_of(data, CONTROL, 'map', 'ppp_minus_exact'))}. An order of −2 needs "
            "every parameter to concentrate."
        )
    return "\n".join(lines)


def _consequence(data: xr.Dataset) -> str:
    at_last = {pair: _medians(data, *pair) for pair in _measured(data)}
    det, prior = ([each["dropped"] / each[kept] for each in at_last.values()] for kept in ("half_log_det", "log_prior"))
    errors, kept = ([each[name] for each in at_last.values()] for name in ("ibpls_minus_exact", "log_lik_pseudo"))
    gains = {pair: each["ibpls_minus_exact"] / each["ppp_minus_exact"] for pair, each in at_last.items()}
    regular = [gain for (model, _), gain in gains.items() if model != HIERARCHY]
    hierarchy = gains[HIERARCHY, "map"]
    largest = int(data["n"].max())
    return (
        "What iBPLS drops falls at the same rate as what it keeps beside ℓ_i: at n = "
        f"{largest} the dropped term's spread is {min(det):.1f} to {max(det):.1f} times that of ½ log det H, and "
        f"{min(prior):.1f} to {max(prior):.1f} times that of log π. Where one can be neglected so can the "
        "others; what remains then is ℓ_i, whose spread does not fall: "
        f"{min(kept):.2f} to {max(kept):.2f} nats at n = {largest}, beside errors of `ibpls` of {min(errors):.0e} to "
        f"{max(errors):.0e} nats.\n\n"
        "`ppp` costs the same refits and keeps the term. That is why it is the default: where all parameters concentrate, its "
        f"error at n = {largest} is {min(regular):.0f} to {max(regular):.0f} times smaller than that of `ibpls`.\n\n"
        "In a hierarchy whose spread few groups inform this does not hold: in these data sets the error of `ibpls` is "
        f"{hierarchy:.1f} times that of `ppp`"
        f"{', so that keeping the term does not even help' if hierarchy < 1 else ''}. Laplace's method in the spread is to "
        "blame, and more rows in the same groups reduce its error only like 1/n; use `exact` where it matters."
    )
