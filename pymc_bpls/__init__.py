"""Bayesian pseudo-label selection for models declared in PyMC."""

from pymc_bpls.along import AuditAlong
from pymc_bpls.audit import Audit
from pymc_bpls.bpls import BPLS
from pymc_bpls.criteria import Criterion
from pymc_bpls.datasets import load_dataset, simulate
from pymc_bpls.decisions import Hurwicz
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
)
from pymc_bpls.labels import encode_labels
from pymc_bpls.laplace import LaplaceFit
from pymc_bpls.modelrules import GammaMaximin, LeastFavorable, Penalised, SumRule
from pymc_bpls.modelset import ModelSet
from pymc_bpls.plots_audit import plot_agreement, plot_audit, plot_scores
from pymc_bpls.plots_decision import plot_decision
from pymc_bpls.plots_remainder import plot_remainder
from pymc_bpls.plots_run import plot_self_training
from pymc_bpls.priors import prior_set
from pymc_bpls.stopping import EvidenceDrop, MaxRounds, NoGain, Threshold
from pymc_bpls.summaries import summary

__all__ = [
    "BPLS",
    "ApproximationError",
    "Audit",
    "AuditAlong",
    "BPLSError",
    "BPLSWarning",
    "Criterion",
    "CriterionError",
    "DataUnavailableError",
    "EvidenceDrop",
    "GammaMaximin",
    "Hurwicz",
    "LabelError",
    "LaplaceFit",
    "LeastFavorable",
    "MaxRounds",
    "ModeError",
    "ModelError",
    "ModelSet",
    "NoGain",
    "Penalised",
    "RowError",
    "SumRule",
    "Threshold",
    "encode_labels",
    "load_dataset",
    "plot_agreement",
    "plot_audit",
    "plot_decision",
    "plot_remainder",
    "plot_scores",
    "plot_self_training",
    "prior_set",
    "simulate",
    "summary",
]
