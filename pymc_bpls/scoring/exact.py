"""The exact pseudo posterior predictive of every candidate, from draws of one distribution.

With p_k(θ) ∝ p(D | θ)^k π(θ) and Z_k its normalising constant,

    log PPP_i = log Z_2 − log Z_1 + log E_{p_2}[p(ŷ_i | x_i, θ)],      log p(D ∪ i) = log Z_1 + log E_{p_1}[p(ŷ_i | x_i, θ)],

so that one run on the doubled likelihood (`montecarlo.references`) ranks the whole pool. `mcse` is the error of the absolute
value where there is one, the constant's and the average's together, and that of the average, `log_predictive_mcse`, beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.errors import CriterionError, warn
from pymc_bpls.model.data.storing import as_tree
from pymc_bpls.model.data.table import Labeled
from pymc_bpls.montecarlo.averages import exact_dataset
from pymc_bpls.montecarlo.references import Method
from pymc_bpls.rules.label_rules import AllClasses, LabelRule, Options
from pymc_bpls.scoring.criteria import CRITERIA, WITH_ABSOLUTE, Criterion
from pymc_bpls.scoring.predictors import MAP
from pymc_bpls.scoring.scorer import Scorer, label_options


def exact_pool(scorer: Scorer, criterion: Criterion, rule: LabelRule, method: Method, rng: np.random.Generator) -> xr.DataTree:
    """Exact values of all candidates of the table."""
    labeled, candidates = scorer.problem.labeled, scorer.problem.table.candidates
    fit = scorer.fit(labeled, centre_of="vi")
    predicts = scorer.with_predictor(MAP) if isinstance(rule, AllClasses) else scorer  # no prediction has a part in these
    return exact_tree(scorer, labeled, criterion, method, label_options(predicts, rule, fit, candidates), rng)


def exact_tree(
    scorer: Scorer,
    labeled: Labeled,
    criterion: Criterion,
    method: Method,
    options: Options,
    rng: np.random.Generator,
) -> xr.DataTree:
    """Exact values of the candidates' classes, or of their combination, with the run that they come from."""
    problem, name = scorer.problem, criterion.absolute
    exact = scorer.exact_values(labeled, criterion.k, method, options)
    averages, codes = exact.averages, exact.codes
    dims = ("candidate",) if codes.ndim == 1 else ("candidate", "label")
    result = exact_dataset(averages, codes.shape, dims, rng)
    if codes.ndim == 1:
        result["pseudo_label"] = "candidate", problem.classes.names[codes]
    attrs: dict[str, Any] = {
        "criterion": criterion.name,
        "labels": options.rule.name,
        "source": exact.source,
        "table": problem.fingerprint,
    }
    if exact.absolute:
        result = result.rename(log_predictive=name)
    if exact.normaliser is not None:
        result = result.rename(mcse="log_predictive_mcse")
        result[name] = result["log_predictive"] + exact.normaliser.value
        result["mcse"] = dims, np.asarray(exact.absolute_error).reshape(codes.shape)
        attrs |= {"log_normalizer": exact.normaliser.value, "log_normalizer_error": exact.normaliser.error}
    if exact.proposal is not None:
        attrs["proposal"] = exact.proposal
    attrs |= {"reliable": int(not exact.reasons), "reasons": list(exact.reasons)}
    coords = problem.coords(options.candidates, codes)
    deviations = averages.deviations.reshape(-1, *codes.shape).astype(np.float32)
    batches = xr.Dataset({"deviation": (("batch", *dims), deviations)}, coords=coords)
    return as_tree({"/": xr.Dataset(attrs=attrs), "/exact": result.assign_coords(coords), "/batches": batches, **exact.groups})


def warn_if_unreliable(tree: xr.DataTree) -> xr.DataTree:
    """The tree, after a warning where its reference is not to be trusted."""
    if not tree.attrs["reliable"]:
        reasons = "; ".join(tree.attrs["reasons"])
        warn(f"The exact reference is not reliable: {reasons}. Its values and errors may be wrong.")
    return tree


def find_exact(criterion: str) -> Criterion:
    """A criterion that has an exact value."""
    chosen = CRITERIA.get(criterion) if isinstance(criterion, str) else None
    if not isinstance(chosen, Criterion) or chosen.absolute is None:
        raise CriterionError(f'criterion="{criterion}" has no exact value. Use {" or ".join(map(repr, WITH_ABSOLUTE))}.')
    return chosen
