"""How an audit is made: the same pairs scored in every form, beside their exact values."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.audit.agreement import DESCRIPTIONS, OF_CANDIDATES, PairScores, agreement, correlation, errors
from pymc_bpls.audit.bench import Bench
from pymc_bpls.audit.forms import Form
from pymc_bpls.audit.report import Audit
from pymc_bpls.audit.sentences import (
    say_criterion,
    say_diagnostic,
    say_labels,
    say_nothing_compared,
    say_simplified,
    say_verdict,
    words_for,
)
from pymc_bpls.audit.truth import Truth, labels_of, read_exact
from pymc_bpls.errors import ApproximationError, BPLSError, BPLSWarning, ModeError
from pymc_bpls.model.data.storing import as_tree
from pymc_bpls.montecarlo.references import find_method
from pymc_bpls.rules.label_rules import LabelRule, find_rule
from pymc_bpls.rules.ranking import best_first, kendall, ranks
from pymc_bpls.scoring.exact import exact_tree, find_exact
from pymc_bpls.scoring.fitted import ModelFit
from pymc_bpls.scoring.one_model import ModelScorer
from pymc_bpls.scoring.scorer import Scorer, label_options
from pymc_bpls.scoring.settings import LAPLACE
from pymc_bpls.text.progress import stage

_LEAST_SIGNAL = 2.0


def audit_pool(
    scorer: Scorer,
    forms: Sequence[Form],
    exact: Any,
    labels: str | LabelRule,
    top: int,
    rng: np.random.Generator,
    exact_kwargs: Mapping[str, Any],
) -> Audit:
    """The audit of all candidates; parameters are those of `BPLS.audit`."""
    labeled, candidates = scorer.problem.labeled, scorer.problem.table.candidates
    lost: ModeError | None = None
    try:
        fit = scorer.fit(labeled)
    except ModeError as error:
        lost = error
        try:
            fit = scorer.fit(labeled, centre_of="vi")
        except ApproximationError:
            return nothing_to_audit(lost, forms, top)
    options = label_options(scorer, find_rule(labels_of(exact, labels)), fit, candidates)
    if exact is None:
        method = find_method(rng=rng, **exact_kwargs)
        exact = exact_tree(scorer, labeled, find_exact("ppp"), method, options, rng)
    truth, codes = read_exact(exact, scorer.problem, options)
    seed = int(rng.integers(2**31))
    return make_audit(Bench(scorer, fit, lost, options.of(codes), codes, truth, top, seed), forms)


def make_audit(bench: Bench, forms: Sequence[Form]) -> Audit:
    """Score in every form and compare."""
    scores: dict[str, PairScores] = {}
    refused: dict[str, str] = {}
    class_sum_error = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BPLSWarning)
        for form in forms:
            try:
                with stage(f"scores by {form.label}"):
                    scores[form.label] = bench.scored(form)
            except BPLSError as error:
                refused[form.label] = str(error)
        by_laplace = _by_laplace(forms, scores, "ppp")
        if by_laplace is not None:
            class_sum_error = bench.class_sum_error()
    truth = bench.truth
    flags = _flags(truth, scores)
    reasons = [*truth.reasons, *_too_noisy(truth)]
    compared = _agreement(bench, scores, flags, reasons)
    if not scores:
        return _audit_of_nothing(bench, reasons, refused)
    unit = "candidates" if bench.codes.ndim == 1 else "pairs of candidate and class"
    n_doubtful = int((truth.doubts != "").sum())
    verdict = say_verdict(compared, reasons, flags, unit, truth.source, truth.told_apart(), n_doubtful, list(refused))
    return _audit(
        bench.top,
        reasons,
        verdict + ("" if reasons else _say_labels(bench)),
        _candidates(bench, scores, flags, class_sum_error),
        compared,
        _simplified(forms, scores, truth),
        _diagnostics(bench, by_laplace, class_sum_error),
        refused,
    )


def _say_labels(bench: Bench) -> str:
    """Of pseudo-labels whose probability is the value: that of one class a candidate, p(ŷ | x, θ)."""
    scorer, combined = bench.scorer, bench.codes.ndim == 2 or bench.options.weigh is not None
    if combined or not isinstance(scorer, ModelScorer) or not isinstance(bench.fit, ModelFit):
        return ""
    if scorer.problem.class_conditional and not bench.fit.engine.conditional:  # values are of p(x, y | θ)
        return ""
    return say_labels(bench.truth.n_below(1 / len(scorer.problem.classes)), len(bench.codes), scorer.predictor)


def _audit_of_nothing(bench: Bench, reasons: list[str], refused: dict[str, str]) -> Audit:
    """No criterion has a score: the exact values alone are kept."""
    flags = _flags(bench.truth, {})
    compared, simplified, diagnostics = _empty()
    held = _candidates(bench, {}, flags, None)
    return _audit(bench.top, reasons, say_nothing_compared(refused), held, compared, simplified, diagnostics, refused)


def _empty() -> tuple[xr.Dataset, xr.Dataset, xr.Dataset]:
    compared, simplified, diagnostics = (
        xr.Dataset({"verdict": (dim, np.array([], dtype=str))}) for dim in ("criterion", "expansion", "diagnostic")
    )
    return compared, simplified, diagnostics


def nothing_to_audit(error: BPLSError, forms: Sequence[Form], top: int) -> Audit:
    """The audit of a model without a fit on D: nothing can be compared, and `error` says why."""
    reason = str(error)
    compared, simplified, diagnostics = _empty()
    verdict = f"Not reliable: there is no fit on D, and so nothing to compare. {reason}"
    refused = {form.label: reason for form in forms}
    return _audit(top, [reason], verdict, xr.Dataset(), compared, simplified, diagnostics, refused)


def _audit(
    top: int,
    reasons: list[str],
    verdict: str,
    candidates: xr.Dataset,
    compared: xr.Dataset,
    simplified: xr.Dataset,
    diagnostics: xr.Dataset,
    refused: dict[str, str],
) -> Audit:
    attrs = {"reliable": int(not reasons), "reasons": list(reasons), "verdict": verdict, "top": top}
    why = xr.Dataset(
        {"why": ("criterion", np.array(list(refused.values()), dtype=str))},
        coords={"criterion": np.array(list(refused), dtype=str)},
    )
    groups = {"candidates": candidates, "agreement": compared, "simplified": simplified, "diagnostics": diagnostics}
    return Audit(as_tree({"/": xr.Dataset(attrs=attrs), **groups, "refused": why}))


def _flags(truth: Truth, scores: dict[str, PairScores]) -> list[list[str]]:
    """Notes on each pair: why it is not to be taken at its word."""
    lost = np.zeros(len(truth.value), dtype=bool)
    for scored in scores.values():
        lost |= ~np.isfinite(scored.score)
    kinds = (
        (~np.isfinite(truth.value), "no finite exact value"),
        (truth.near_ties(), "not separated from a neighbour by the reference's own error"),
        (lost, "no finite score by some criterion"),
    )
    return [
        [*([str(doubt)] if doubt else []), *(note for where, note in kinds if where[pair])]
        for pair, doubt in enumerate(truth.doubts)
    ]


def _too_noisy(truth: Truth) -> list[str]:
    """The reason that the reference tells candidates from noise no longer."""
    if truth.known:
        return []
    value, error = truth.value[np.isfinite(truth.value)], truth.centred_error()[np.isfinite(truth.value)]
    if value.std() >= _LEAST_SIGNAL * np.sqrt(np.mean(error**2)):
        return []
    return [
        f"the Monte Carlo error ({np.sqrt(np.mean(error**2)):.2g}) is about as large as the differences between candidates "
        f"(standard deviation {value.std():.2g})"
    ]


def _agreement(bench: Bench, scores: dict[str, PairScores], flags: list[list[str]], reasons: list[str]) -> xr.Dataset:
    words = words_for(reasons, bench.truth.range, bench.truth.scale)
    flagged = np.array([bool(notes) for notes in flags])
    found = {label: agreement(scored, bench.truth, flagged, bench.top, bench.seed) for label, scored in scores.items()}
    for label, each in found.items():
        pair = each.pop("choice")
        each["verdict"] = say_criterion(label, each, _name(bench, pair), words)
        each["choice"] = bench.pairs.rows[pair]
        each["choice_label"] = bench.scorer.problem.classes.names[bench.pairs.codes[pair]]
    names = list(dict.fromkeys(["verdict", *(key for each in found.values() for key in each)]))
    columns = {name: [each.get(name, np.nan) for each in found.values()] for name in names}
    return xr.Dataset(
        {
            name: ("criterion", np.array(values, dtype=None if values else str), _described(name))
            for name, values in columns.items()
        },
        coords={"criterion": np.array(list(scores), dtype=str)},
        attrs={"range": bench.truth.range, "scale": bench.truth.scale, "top": bench.top},
    )


def _described_column(name: str) -> dict[str, str]:
    return {"description": OF_CANDIDATES[name]}


def _described(name: str) -> dict[str, str]:
    return {"description": DESCRIPTIONS[name]} if name in DESCRIPTIONS else {}


def _name(bench: Bench, pair: int) -> str:
    """A pair in words, by the user's index."""
    problem, pairs = bench.scorer.problem, bench.pairs
    label = f" as {problem.classes.names[pairs.codes[pair]]}" if bench.codes.ndim == 2 else ""
    return f"candidate {problem.table.index[pairs.rows[pair]]}{label}"


def _candidates(
    bench: Bench, scores: dict[str, PairScores], flags: list[list[str]], class_sum_error: np.ndarray | None
) -> xr.Dataset:
    truth, pairs = bench.truth, bench.pairs
    names = bench.scorer.problem.classes.names
    best = np.full(len(truth.value), truth.best)
    dims = ("criterion", *pairs.dims)
    nothing = np.full(len(truth.value), np.nan)
    both = [errors(scored, truth) or (nothing, nothing) for scored in scores.values()]
    centred = [errors(scored, truth, absolute=False) or (nothing, nothing) for scored in scores.values()]
    columns: dict[str, Any] = {
        "log_ppp" if truth.absolute else "log_predictive": pairs.variable(truth.value),
        "mcse": pairs.variable(truth.absolute_error if truth.absolute else truth.error),
        "diff_to_best": pairs.variable(truth.value - truth.value[truth.best]),
        "diff_to_best_mcse": pairs.variable(np.broadcast_to(truth.difference_error(np.arange(len(best)), best), best.shape)),
        "prob_best": pairs.variable(truth.probability_best(np.arange(len(best)), 1000, np.random.default_rng(bench.seed))),
        "flags": pairs.variable(np.array(["; ".join(notes) for notes in flags], dtype=str)),
    }
    if bench.codes.ndim == 1:
        columns["pseudo_label"] = ("candidate", names[bench.codes])
    if class_sum_error is not None:
        columns["class_sum_error"] = pairs.variable(class_sum_error)
    if scores:
        shape = (len(scores), *pairs.shape)
        layers = {
            "score": [scored.score for scored in scores.values()],
            "approximate": [truth.value + error for error, _ in both],
            "error": [error for error, _ in both],
            "error_mcse": [spread for _, spread in both],
            "centred": [error for error, _ in centred],
            "centred_mcse": [spread for _, spread in centred],
            "pareto_k": [nothing if scored.pareto_k is None else scored.pareto_k.mean(axis=0) for scored in scores.values()],
        }
        columns |= {name: (dims, np.stack(values).reshape(shape)) for name, values in layers.items()}
    described = {name: (*column[:2], _described_column(name)) for name, column in columns.items()}
    coords = bench.scorer.problem.coords(bench.options.candidates, bench.codes)
    return xr.Dataset(described, coords={"criterion": np.array(list(scores), dtype=str), **coords})


def _by_laplace(
    forms: Sequence[Form], scores: dict[str, PairScores], criterion: str, expansion: str = "map"
) -> PairScores | None:
    """Scores of that criterion by Laplace's method, under whichever name they were asked for."""
    wanted = criterion, LAPLACE, expansion
    labels = [form.label for form in forms if (form.criterion, form.approximation, form.expansion) == wanted]
    return next((scores[label] for label in labels if label in scores), None)


def _simplified(forms: Sequence[Form], scores: dict[str, PairScores], truth: Truth) -> xr.Dataset:
    """Eq. 7 against Eq. 6, where both were scored at the same points."""
    pairs = {name: [_by_laplace(forms, scores, each, name) for each in ("ppp", "ibpls")] for name in ("map", "mle")}
    found = {
        name: _dropped(full, simplified, truth)
        for name, (full, simplified) in pairs.items()
        if full is not None and simplified is not None
    }
    names = ("dropped_sd", "dropped_range", "tau", "choice_changes", "lost", "lost_mcse")
    result = xr.Dataset(
        {name: ("expansion", np.array([each[name] for each in found.values()])) for name in names},
        coords={"expansion": np.array(list(found), dtype=str)},
    )
    texts = [say_simplified(result.sel(expansion=name)) for name in found]
    return result.assign(verdict=("expansion", np.array(texts, dtype=str)))


def _dropped(full: PairScores, simplified: PairScores, truth: Truth) -> dict[str, Any]:
    """The term ℓ_D(θ̃_i) that Eq. 7 leaves out, and what leaving it out changes."""
    usable = np.isfinite(full.score) & np.isfinite(simplified.score)
    term = (full.score - simplified.score)[usable]
    first, second = full.choice, simplified.choice
    tied = best_first(full.score)
    changes = second not in tied[0][tied[1] == 0]
    return {
        "dropped_sd": float(term.std()),
        "dropped_range": float(np.ptp(term)),
        "tau": kendall(ranks(full.score[usable]), ranks(simplified.score[usable])),
        "choice_changes": changes,
        "lost": float(truth.value[first] - truth.value[second]),
        "lost_mcse": float(truth.difference_error(first, second)),
    }


def _diagnostics(bench: Bench, by_laplace: PairScores | None, class_sum_error: np.ndarray | None) -> xr.Dataset:
    """How well diagnostics tell where Laplace's ppp is off."""
    found: dict[str, tuple[float, float, float]] = {}
    given: dict[str, np.ndarray] = {}
    if by_laplace is not None:
        sums = None if class_sum_error is None else class_sum_error[None]
        possible = {"class_sum_error": sums, "pareto_k": by_laplace.pareto_k}
        given = {name: values for name, values in possible.items() if values is not None}
        found = {name: correlation(values, by_laplace, bench.truth, bench.seed) for name, values in given.items()}
    columns = list(zip(*found.values(), strict=True)) or [(), (), ()]
    texts = [say_diagnostic(name, *values) for name, values in found.items()]
    return xr.Dataset(
        {
            **{name: ("diagnostic", np.array(column, dtype=float)) for name, column in zip(_RHO, columns, strict=True)},
            "largest": ("diagnostic", np.array([float(np.nanmax(np.abs(values.mean(axis=0)))) for values in given.values()])),
            "verdict": ("diagnostic", np.array(texts, dtype=str)),
        },
        coords={"diagnostic": np.array(list(found), dtype=str)},
    )


_RHO = ("rho", "rho_low", "rho_high")
