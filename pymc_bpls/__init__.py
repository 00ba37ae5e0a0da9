"""Bayesian pseudo-label selection for models declared in PyMC.

Names are imported when they are asked for: a worker that scores a partition of a pool needs neither PyMC nor Matplotlib.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pymc_bpls.audit.along import AuditAlong
    from pymc_bpls.audit.report import Audit
    from pymc_bpls.bpls import BPLS
    from pymc_bpls.choosing.choice import Choice
    from pymc_bpls.choosing.pipelines import Marginalize
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
    from pymc_bpls.plots.agreement import plot_agreement
    from pymc_bpls.plots.audit import plot_audit
    from pymc_bpls.plots.choice import plot_choice
    from pymc_bpls.plots.decision import plot_decision
    from pymc_bpls.plots.scores import plot_scores
    from pymc_bpls.plots.self_training import plot_self_training
    from pymc_bpls.pool.information import Information
    from pymc_bpls.rules.label_rules import CombiningRule, DrawingRule, Hurwicz, LabelRule, Weighing
    from pymc_bpls.rules.model_rules import Decision, GammaMaximin, LeastFavorable, ModelRule, Penalised, SumRule
    from pymc_bpls.scoring.criteria import Criterion, FitCriterion, FittedView
    from pymc_bpls.selftraining.stop_rules import EvidenceDrop, MaxRounds, NoGain, StopRule, Threshold
    from pymc_bpls.selftraining.train import Train
    from pymc_bpls.summaries.summary import summary
    from pymc_bpls.text.versions import show_versions

#: Where each public name is defined.
_NAMES = {
    "audit.along": ("AuditAlong",),
    "audit.report": ("Audit",),
    "bpls": ("BPLS",),
    "choosing.choice": ("Choice",),
    "choosing.pipelines": ("Marginalize",),
    "comparison.compare": ("compare",),
    "datasets": ("load_dataset", "simulate"),
    "engine.laplace_fit": ("LaplaceFit",),
    "errors": (
        "ApproximationError",
        "BPLSError",
        "BPLSWarning",
        "CriterionError",
        "DataUnavailableError",
        "LabelError",
        "ModeError",
        "ModelError",
        "RowError",
        "SizeError",
    ),
    "model.data.index": ("read_index",),
    "model.data.labels": ("encode_labels",),
    "model.data.storing": ("save",),
    "model.prior_sets": ("prior_set",),
    "modelset": ("ModelSet",),
    "pool.information": ("Information",),
    "rules.label_rules": ("CombiningRule", "DrawingRule", "Hurwicz", "LabelRule", "Weighing"),
    "rules.model_rules": ("Decision", "GammaMaximin", "LeastFavorable", "ModelRule", "Penalised", "SumRule"),
    "scoring.criteria": ("Criterion", "FitCriterion", "FittedView"),
    "selftraining.stop_rules": ("EvidenceDrop", "MaxRounds", "NoGain", "StopRule", "Threshold"),
    "selftraining.train": ("Train",),
    "summaries.summary": ("summary",),
    "text.versions": ("show_versions",),
    "plots.agreement": ("plot_agreement",),
    "plots.audit": ("plot_audit",),
    "plots.choice": ("plot_choice",),
    "plots.decision": ("plot_decision",),
    "plots.scores": ("plot_scores",),
    "plots.self_training": ("plot_self_training",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "BPLS",
    "ApproximationError",
    "Audit",
    "AuditAlong",
    "BPLSError",
    "BPLSWarning",
    "Choice",
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
    "Marginalize",
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
    "Train",
    "Weighing",
    "compare",
    "encode_labels",
    "load_dataset",
    "plot_agreement",
    "plot_audit",
    "plot_choice",
    "plot_decision",
    "plot_scores",
    "plot_self_training",
    "prior_set",
    "read_index",
    "save",
    "show_versions",
    "simulate",
    "summary",
]


def __getattr__(name: str) -> Any:
    """A public name, whose module is imported once it is asked for."""
    if name == "__version__":
        return version("pymc-bpls")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
