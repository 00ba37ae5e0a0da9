"""Bayesian pseudo-label selection for models declared in PyMC."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pymc_bpls.audit.along import AuditAlong
from pymc_bpls.audit.report import Audit
from pymc_bpls.bpls import BPLS
from pymc_bpls.comparison.compare import compare
from pymc_bpls.datasets import load_dataset, simulate
from pymc_bpls.engine.laplace_fit import LaplaceFit
from pymc_bpls.errors import (
    ApproximationError,
    BPLSError,
    BPLSWarning,
    CriterionError,
    DataUnavailableError,
    LabelError,
    ModeError,
    ModelError,
    RowError,
    SizeError,
)
from pymc_bpls.model.data.index import read_index
from pymc_bpls.model.data.labels import encode_labels
from pymc_bpls.model.data.storing import save
from pymc_bpls.model.prior_sets import prior_set
from pymc_bpls.modelset import ModelSet
from pymc_bpls.pool.information import Information
from pymc_bpls.rules.label_rules import CombiningRule, DrawingRule, Hurwicz, LabelRule, Weighing
from pymc_bpls.rules.model_rules import Decision, GammaMaximin, LeastFavorable, ModelRule, Penalised, SumRule
from pymc_bpls.scoring.criteria import Criterion, FitCriterion, FittedView
from pymc_bpls.selftraining.stop_rules import EvidenceDrop, MaxRounds, NoGain, StopRule, Threshold
from pymc_bpls.summaries import summary

if TYPE_CHECKING:
    from pymc_bpls.plots.agreement import plot_agreement
    from pymc_bpls.plots.audit import plot_audit
    from pymc_bpls.plots.decision import plot_decision
    from pymc_bpls.plots.scores import plot_scores
    from pymc_bpls.plots.self_training import plot_self_training

__all__ = [
    "BPLS",
    "ApproximationError",
    "Audit",
    "AuditAlong",
    "BPLSError",
    "BPLSWarning",
    "CombiningRule",
    "Criterion",
    "CriterionError",
    "DataUnavailableError",
    "Decision",
    "DrawingRule",
    "EvidenceDrop",
    "FitCriterion",
    "FittedView",
    "GammaMaximin",
    "Hurwicz",
    "Information",
    "LabelError",
    "LabelRule",
    "LaplaceFit",
    "LeastFavorable",
    "MaxRounds",
    "ModeError",
    "ModelError",
    "ModelRule",
    "ModelSet",
    "NoGain",
    "Penalised",
    "RowError",
    "SizeError",
    "StopRule",
    "SumRule",
    "Threshold",
    "Weighing",
    "compare",
    "encode_labels",
    "load_dataset",
    "plot_agreement",
    "plot_audit",
    "plot_decision",
    "plot_scores",
    "plot_self_training",
    "prior_set",
    "read_index",
    "save",
    "simulate",
    "summary",
]


def __getattr__(name: str) -> Any:
    """A plot, whose module brings Matplotlib with it, once it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.plots.{name.removeprefix('plot_')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
