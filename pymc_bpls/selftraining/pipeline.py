"""A whole way from labels and a pool to class probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np


class Pipeline(ABC):
    """From labels and a pool to class probabilities."""

    #: Another model on the same rows, where the pipeline uses one.
    scorer: Any = None

    @abstractmethod
    def fit(
        self, learner: Any, random_seed: Any, *, test: Any = None, progressbar: bool = True, other_modes: bool = True
    ) -> Any:
        """What comes of the learner's labels and pool; `test` is for the final fit alone."""

    def how_it_predicts(self, learner: Any) -> str:
        """How its class probabilities come about, in words."""
        return "in a way of its own"

    def predict(self, learner: Any, result: Any, rows: np.ndarray) -> np.ndarray:
        """Class probabilities (rows, K) of rows by position."""
        return learner.predict_proba(rows, result=result).to_numpy()
