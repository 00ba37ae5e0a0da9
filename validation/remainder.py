"""The remainder's order: `python -m validation.remainder`. Writes `results/remainder.json` as it goes, then report and figure.

Rodemann et al. drop ℓ_D(θ̃_i) from Eq. 6 to get Eq. 7, as a term of order n⁻². This measures how fast it, and the errors of both
criteria against exact integrals (`quadrature`), fall with n. What is in the results already is not computed again: delete them
to start anew.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import scipy.integrate
import xarray as xr
from rich.console import Console

import pymc_bpls as bpls
from pymc_bpls.model.table import Labeled
from pymc_bpls.plots.remainder import plot_remainder
from pymc_bpls.scoring.criteria import find_criterion
from pymc_bpls.scoring.scorer import Scorer, Settings
from validation.quadrature import Hierarchy, Model, Rows, Softmax, exact
from validation.remainder_report import report

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "remainder.json"
REPORT = HERE / "reports" / "remainder.md"
SIZES = 25 * 2 ** np.arange(7)
LARGER_HALF = 200
REPLICATES, CANDIDATES = 12, 40
ROWS = int(SIZES[-1]) + CANDIDATES
TOLERATED = 0.005  # change of the quadrature, as a share of the smallest spread at the same n
SCALE = 2.5
EFFECTS = np.array([-1.0, -0.3, 0.4, 1.1])
LOGISTIC = np.array([[0.3, 1.2]])
THREE = np.array([[0.3, 1.0], [-0.2, -1.0]])
Record = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """How rows are drawn, how PyMC declares the model on them (−1 where unlabeled), and what integrates it."""

    name: str
    simulate: Callable[[np.random.Generator], Rows]
    declare: Callable[[Rows], None]
    exact: Model

    def rows(self) -> Rows:
        """All replicates' rows, one after the other: 1,600 to label, then the candidates."""
        drawn = [self.simulate(np.random.default_rng([7, replicate])) for replicate in range(REPLICATES)]
        return Rows(*(np.concatenate(parts) for parts in zip(*drawn, strict=True)))

    def scorer(self, rows: Rows) -> Scorer:
        """The package's scorer of one table that holds all rows."""
        few = np.arange(len(rows.codes)) < SIZES[0]
        with pm.Model() as model:
            self.declare(rows._replace(codes=np.where(few, rows.codes, -1)))
        return bpls.BPLS(model)._scorer


def draw_classes(coefficients: np.ndarray) -> Callable[[np.random.Generator], Rows]:
    """An intercept, a normal feature, and classes of a softmax whose class 0 has logit 0."""

    def simulate(rng: np.random.Generator) -> Rows:
        X = np.column_stack([np.ones(ROWS), rng.normal(size=ROWS)])
        logits = np.column_stack([np.zeros(ROWS), X @ coefficients.T])
        codes = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        return Rows(X, codes, np.zeros(ROWS, dtype=int))

    return simulate


def draw_groups(rng: np.random.Generator) -> Rows:
    """One normal feature, four groups of equal size."""
    x, groups = rng.normal(size=ROWS), np.arange(ROWS) % len(EFFECTS)
    codes = (x + EFFECTS[groups] + rng.logistic(size=ROWS) > 0).astype(int)
    return Rows(x[:, None], codes, groups)


def logistic(rows: Rows) -> None:
    """Intercept and slope."""
    pm.Bernoulli("y", logit_p=rows.X @ pm.Normal("beta", 0, SCALE, shape=2), observed=rows.codes)


def softmax(rows: Rows) -> None:
    """Three classes, the first as the baseline."""
    logits = rows.X @ pm.Normal("beta", 0, SCALE, shape=(2, 2))
    logits = pt.concatenate([pt.zeros((len(rows.codes), 1)), logits], axis=1)
    pm.Categorical("y", logit_p=logits, observed=rows.codes)


def hierarchical(rows: Rows) -> None:
    """Non-centered group effects."""
    groups(rows, pm.HalfNormal("spread", 1))


def known_spread(rows: Rows) -> None:
    """The control: the same where the effects' standard deviation is known."""
    groups(rows, 1.0)


def groups(rows: Rows, spread: Any) -> None:
    """A slope, and effects of groups around 0."""
    effects = spread * pm.Normal("z", 0, 1, shape=len(EFFECTS))
    eta = rows.X[:, 0] * pm.Normal("beta", 0, SCALE) + effects[rows.groups]
    pm.Bernoulli("y", logit_p=eta, observed=rows.codes)


def cases() -> list[Case]:
    """The three models, and the hierarchy's control."""
    fine, coarse = (12, 18, 27, 40, 60), (10, 13, 16, 20, 25, 31, 38)
    return [
        Case("logistic", draw_classes(LOGISTIC), logistic, Softmax(2, SCALE, fine)),
        Case("softmax", draw_classes(THREE), softmax, Softmax(3, SCALE, coarse)),
        Case("hierarchical logistic", draw_groups, hierarchical, Hierarchy(4, SCALE, coarse)),
        Case("groups, spread known", draw_groups, known_spread, Hierarchy(4, SCALE, coarse, spread=1.0)),
    ]


@dataclass(frozen=True)
class FixedLabels:
    """A label rule that knows each candidate's class beforehand."""

    fixed: np.ndarray
    name: str = "fixed"

    def codes(self, log_probabilities: np.ndarray, present: np.ndarray) -> np.ndarray:
        """The classes given."""
        return self.fixed


def measure(case: Case, scorer: Scorer, rows: Rows, replicate: int) -> Record:
    """One data set: its n first rows labeled, for each n; pseudo-labels are those of the largest n throughout."""
    start = time.perf_counter()
    first = replicate * ROWS
    order, candidates = np.arange(first, first + SIZES[-1]), np.arange(first + SIZES[-1], first + ROWS)
    everything = labeled(rows, order)
    codes = scorer.log_probabilities(scorer.fit(everything), candidates).argmax(axis=1)
    pool = Rows(rows.X[candidates], codes, rows.groups[candidates])
    record: Record = {"n": SIZES.tolist(), "map": {}, "mle": {}, "left_out": {"map": {}, "mle": {}}, "quadrature": []}
    for n in SIZES.tolist():
        D = labeled(rows, order[:n])
        scored = {}
        for expansion in ("map", "mle"):
            try:
                scored[expansion] = terms(scorer, D, candidates, codes, expansion)
            except bpls.ModeError as error:
                record["left_out"][expansion][n] = str(error)
        held = Rows(rows.X[order[:n]], rows.codes[order[:n]], rows.groups[order[:n]])
        found = exact(case.exact, held, pool, partial(tolerance, scored))
        for expansion, values in scored.items():
            for quantity, spread in spreads(values, found.log_ppp).items():
                record[expansion].setdefault(quantity, {})[n] = rounded(spread)
        share = found.change / smallest(scored, found.log_ppp)
        record["quadrature"].append({"nodes": found.nodes, "change": rounded(found.change), "share": rounded(share)})
    return record | {"seconds": rounded(time.perf_counter() - start)}


def labeled(rows: Rows, positions: np.ndarray) -> Labeled:
    """D with weights 1."""
    return Labeled(positions, rows.codes[positions], np.ones(len(positions)))


def terms(scorer: Scorer, D: Labeled, candidates: np.ndarray, codes: np.ndarray, expansion: str) -> xr.Dataset:
    """Scores of both criteria and the terms of `ppp`."""
    scores = {}
    for name in ("ppp", "ibpls"):
        criterion, with_prior = find_criterion(name, expansion)
        settings = Settings(criterion, with_prior, FixedLabels(codes), np.random.default_rng(0))
        scores[name], _ = scorer.score(settings, D, scorer.fit(D), candidates)
    return scores["ppp"].rename(score="ppp").assign(ibpls=scores["ibpls"]["score"])


def spreads(values: xr.Dataset, log_ppp: np.ndarray) -> dict[str, float]:
    """Standard deviations over candidates of each quantity."""
    quantities = {
        "dropped": values["log_lik_labeled"],
        "ppp_minus_exact": values["ppp"] - log_ppp,
        "ibpls_minus_exact": values["ibpls"] - log_ppp,
        "log_prior": values["log_prior"],
        "half_log_det": 0.5 * values["log_det"],
        "log_lik_pseudo": values["log_lik_pseudo"],
    }
    return {name: float(quantity.std(ddof=1)) for name, quantity in quantities.items()}


def smallest(scored: dict[str, xr.Dataset], log_ppp: np.ndarray) -> float:
    """The smallest spread of a difference from exact, or of the dropped term."""
    names = ("dropped", "ppp_minus_exact", "ibpls_minus_exact")
    return min(spreads(values, log_ppp)[name] for values in scored.values() for name in names)


def tolerance(scored: dict[str, xr.Dataset], log_ppp: np.ndarray) -> float:
    """How much the quadrature may change when nodes are added."""
    return TOLERATED * smallest(scored, log_ppp)


def rounded(value: float) -> float:
    """Six significant digits."""
    return float(f"{value:.6g}")


def scipy_check() -> Record:
    """The first logistic data set at the smallest n by `scipy.integrate.cubature`, and the spread of the difference."""
    case = cases()[0]
    rows, n = case.simulate(np.random.default_rng([7, 0])), int(SIZES[0])
    D, pool = (Rows(*(part[some] for part in rows)) for some in (slice(n), slice(int(SIZES[-1]), None)))
    model = case.exact
    assert isinstance(model, Softmax)
    mode, hessian = model.mode(D)
    reach = 14 * np.sqrt(np.diag(np.linalg.inv(hessian)))
    peak = model.log_density(mode[None], D)[0]

    def integrand(theta: np.ndarray) -> np.ndarray:
        return np.exp(model.log_density(theta, D)[:, None] - peak + model.log_lik(theta, pool))

    by_scipy = scipy.integrate.cubature(integrand, mode - reach, mode + reach, rtol=1e-11, atol=0)
    difference = np.log(by_scipy.estimate) - model.with_nodes(D, pool, model.nodes[-1])
    return {"model": case.name, "n": n, "status": by_scipy.status, "difference": rounded(float(difference.std(ddof=1)))}


def to_dataset(results: dict[str, Record]) -> xr.Dataset:
    """Spreads, and slopes with errors over the larger half of the n (`slope`) and over all of them (`slope_all`)."""
    names = [case.name for case in cases()]
    quantities = ("dropped", "ibpls_minus_exact", "ppp_minus_exact", "log_prior", "half_log_det", "log_lik_pseudo")
    spread = xr.DataArray(
        np.nan,
        coords={
            "model": names,
            "expansion": ["map", "mle"],
            "quantity": list(quantities),
            "replicate": np.arange(REPLICATES),
            "n": SIZES,
        },
        dims=("model", "expansion", "quantity", "replicate", "n"),
    )
    for key, record in results.items():
        name, _, replicate = key.rpartition(" ")
        for expansion in ("map", "mle"):
            for quantity, by_n in record[expansion].items():
                for n, value in by_n.items():
                    spread.loc[name, expansion, quantity, int(replicate), int(n)] = value
    slope, slope_error = slopes(spread.sel(n=SIZES[SIZES >= LARGER_HALF]))
    slope_all, slope_all_error = slopes(spread)
    return xr.Dataset(
        {
            "spread": spread,
            "slope": slope,
            "slope_error": slope_error,
            "slope_all": slope_all,
            "slope_all_error": slope_all_error,
        }
    )


def slopes(spread: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Means over replicates of the slope of log spread in log n, and their standard errors.

    A replicate's n without a value are left out; it takes part with three or more.
    """
    log_n = np.log(spread["n"].to_numpy().astype(float))

    def one(values: np.ndarray) -> float:
        some = np.isfinite(values)
        return float(np.polyfit(log_n[some], np.log(values[some]), 1)[0]) if some.sum() >= 3 else np.nan

    each = xr.apply_ufunc(one, spread, input_core_dims=[["n"]], vectorize=True)
    count = each.notnull().sum("replicate")
    enough = count > 1
    error = each.std("replicate", ddof=1) if each.sizes["replicate"] > 1 else xr.full_like(each.isel(replicate=0), np.nan)
    return each.mean("replicate"), (error / np.sqrt(count.where(enough)))


def save(results: dict[str, Any]) -> None:
    """Write the results, an entry a line, so that an interruption leaves the old file or the new one."""
    RESULTS.parent.mkdir(exist_ok=True)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in results.items())
    written = RESULTS.with_suffix(".part")
    written.write_text("{\n" + lines + "\n}\n")
    os.replace(written, RESULTS)


def main() -> None:
    """Measure what is missing, then write figure and report."""
    console = Console()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if "check" not in results:
        results["check"] = scipy_check()
        save(results)
    for case in cases():
        missing = [replicate for replicate in range(REPLICATES) if f"{case.name} {replicate}" not in results]
        if not missing:
            continue
        rows = case.rows()
        scorer = case.scorer(rows)
        for replicate in missing:
            key = f"{case.name} {replicate}"
            results[key] = measure(case, scorer, rows, replicate)
            save(results)
            console.print(f"{key}: {results[key]['seconds']:.0f} s")
    records = {key: record for key, record in results.items() if key != "check"}
    data = to_dataset(records)
    REPORT.parent.mkdir(exist_ok=True)
    panels = plot_remainder(data)
    panels[0].figure.savefig(REPORT.with_suffix(".png"), dpi=110)
    REPORT.write_text(report(data, records, results["check"]))


if __name__ == "__main__":
    main()
