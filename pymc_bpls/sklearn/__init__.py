"""scikit-learn's interface to `BPLS`. It takes the extra `pymc-bpls[sklearn]`."""

from pymc_bpls.sklearn.classifier import BPLSClassifier, cross_validate_labeled, logistic_regression
from pymc_bpls.sklearn.folds import LabeledKFold

__all__ = ["BPLSClassifier", "LabeledKFold", "cross_validate_labeled", "logistic_regression"]
