"""The methods of the package: Bayesian fits with the setting's prior, and every criterion's own selection."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.special import expit, log_expit

from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.rules.label_rules import find_rule
from pymc_bpls.scoring.criteria import FITTED, LAPLACE, Criterion, FitCriterion
from pymc_bpls.scoring.settings import Settings
from pymc_bpls.selftraining.held_out import HeldOut
from pymc_bpls.selftraining.history import History
from pymc_bpls.selftraining.planning import Plan
from pymc_bpls.selftraining.run import Run
from validation.paper.runs.curves import Curve, divergence
from validation.paper.runs.tables import Declared
from validation.paper.settings import EP, IBPLS, MARGINAL, PPP, PROBABILITY, RANDOM, REFERENCE, UBPLS, VARIANCE
from validation.paper.settings import LIKELIHOOD as MAX_MAX
from validation.study.splits import Split

#: Theorem 3 at the mode, since few labeled rows have a maximum of the likelihood. All candidates' BIC have one penalty.
LIKELIHOOD = Criterion(MAX_MAX, lambda t: t.log_lik_labeled + t.log_lik_pseudo, k=1)
CRITERIA: dict[str, Criterion | FitCriterion] = {
    EP: LAPLACE[PPP],
    MAX_MAX: LIKELIHOOD,
    **{name: LAPLACE[name] for name in (PPP, IBPLS, MARGINAL, UBPLS, REFERENCE)},
    **{name: FITTED[name] for name in (VARIANCE, PROBABILITY, RANDOM)},
}


def self_train(method: str, declared: Declared, split: Split, fresh: np.ndarray, rng: np.random.Generator) -> Curve:
    """A run until the pool is empty; of a criterion without a prior only as far as it is defined.

    Raises
    ------
    KeyboardInterrupt, RuntimeError
        The run was interrupted or failed, which `Run.go` itself returns as the reason why it ended.
    """
    criterion = CRITERIA[method]
    with_prior = isinstance(criterion, FitCriterion) or criterion.prior
    approximation, centre_of = ("ep", "ep") if method == EP else ("laplace", None)
    settings = Settings(criterion, with_prior, find_rule("predicted"), rng, approximation, centre_of, absolute=False)
    judged = np.append(split.test.positions, fresh)
    plan = Plan(None, 1, [], None, 1.0, HeldOut(judged, declared.table.y[judged]))
    run = Run(declared.scorer, settings, plan, split.labeled, split.candidates, History())
    design, y = declared.design[split.labeled.positions], split.labeled.codes
    supervised = declared.scorer.fit(split.labeled).mode
    before = declared.design[judged] @ supervised.theta
    left_out, from_supervised = [left_out_score(supervised, design, y)], [0.0]

    def note(_: int) -> None:
        assert run.fit is not None
        left_out.append(left_out_score(run.fit.mode, design, y))
        from_supervised.append(divergence(before, declared.design[judged] @ run.fit.mode.theta))

    ending = run.go(note)
    if ending.kind == "interrupted":
        raise KeyboardInterrupt
    if ending.kind == "failed":
        raise RuntimeError(f"{method}: {ending.reason}")
    history, n_test = run.history, len(split.test.positions)
    return Curve(
        order=np.array([step["candidate"] for step in history.steps], dtype=int),
        codes=np.array([step["code"] for step in history.steps], dtype=int),
        right=np.array([right[:n_test].sum() for right in history.right], dtype=int),
        fresh=np.array([right[n_test:].sum() for right in history.right], dtype=int),
        log_score=np.array([model["log_score"] for model in history.models]),
        left_out=np.array(left_out),
        # with two classes, rows are predicted alike where both models are right or both wrong
        alike=np.array([(right == history.right[0]).mean() for right in history.right]),
        divergence=np.array(from_supervised),
    )


def left_out_score(mode: Mode, design: np.ndarray, y: np.ndarray) -> float:
    """Mean log probability of labels, each by the model without it: one Newton step from the mode of all.

    With p_j the fitted probability and h_j = x_j'H⁻¹x_j, leaving row j out moves its logit by
    −h_j (y_j − p_j) / (1 − h_j p_j (1 − p_j)).
    """
    logit = design @ mode.theta
    p = expit(logit)
    h = np.einsum("ij,ji->i", design, scipy.linalg.cho_solve(scipy.linalg.cho_factor(mode.hessian), design.T))
    moved = logit - h * (y - p) / (1 - h * p * (1 - p))
    return float(log_expit(np.where(y == 1, moved, -moved)).mean())
