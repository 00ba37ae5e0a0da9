"""The audit of one step of a run, and what it says of the run's own choice there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from pymc_bpls.audit.bench import Bench
from pymc_bpls.audit.forms import Form
from pymc_bpls.audit.make import make_audit
from pymc_bpls.audit.report import Audit
from pymc_bpls.audit.track import Track
from pymc_bpls.audit.truth import Truth, from_tree
from pymc_bpls.montecarlo.references import Method
from pymc_bpls.scoring.exact import exact_tree, find_exact
from pymc_bpls.scoring.results import Pairs
from pymc_bpls.scoring.scorer import fit_on, label_options

_TOP = 5


def audit_step(track: Track, forms: Sequence[Form], method: Method, step: int, seed: int) -> tuple[Audit, xr.Dataset]:
    """The audit at one step, and what is kept of it."""
    scorer = track.scorer
    labeled, candidates = track.at(step)
    fit = fit_on(scorer, track.settings, labeled)
    options = label_options(scorer, track.settings.rule, fit, candidates)
    tree = exact_tree(scorer, labeled, find_exact("ppp"), method, options, np.random.default_rng(seed))
    truth, codes = from_tree(tree, scorer.problem, candidates)
    audit = make_audit(Bench(scorer, fit, None, options, codes, truth, _TOP, seed), forms)
    regret, error = _own_regret(track, truth, Pairs.of(candidates, codes), step)
    kept = audit.agreement.drop_vars(["verdict", "choice_label"], errors="ignore").astype(float)
    kept = kept.assign(
        n_labeled=len(labeled),
        n_candidates=len(candidates),
        run_regret=regret,
        run_regret_mcse=error,
        reliable=int(audit.reliable),
        source=truth.source,
        scale=truth.scale,
    )
    return audit, kept.expand_dims(step=[step])


def _own_regret(track: Track, truth: Truth, pairs: Pairs, step: int) -> tuple[float, float]:
    """The exact log PPP that the run's own choice lost, with its error."""
    chosen = track.run.history.steps[step]
    same = pairs.rows == chosen["candidate"]
    if len(pairs.shape) == 2:
        same &= pairs.codes == chosen["code"]
    place = int(np.flatnonzero(same)[0])
    return float(truth.value[truth.best] - truth.value[place]), float(truth.difference_error(truth.best, place))
