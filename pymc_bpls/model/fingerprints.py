"""Fingerprints of a declared table and model: what a result has to share to be one of them.

A fingerprint begins with its form, so that files of earlier versions are compared as these versions did: theirs had none, and
knew neither the classes nor the likelihood. Functions are compared by their values at one θ, to eight digits, which other
machines and other versions of PyMC reproduce.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pytensor
from pytensor.graph.basic import Variable

from pymc_bpls.model.data.labels import Classes
from pymc_bpls.model.data.table import Table
from pymc_bpls.model.density import Density
from pymc_bpls.model.graphs.slicing import PLAIN, Source, evaluate, remake, unchecked

#: What a fingerprint of today begins with.
FORM = "2:"
_DIGITS = 8
_ROWS = 5  # labeled rows whose likelihoods are compared: enough for several groups and values of predictors
_PAIRS = 100  # rows times classes, at a millisecond each


@dataclass(frozen=True)
class Declared:
    """A table and a model whose fingerprint is taken; of a set, one for each member."""

    table: Table
    classes: Classes
    density: Density
    source: Source
    prior_terms: Sequence[Variable]

    @property
    def near(self) -> np.ndarray:
        """A point beside the start, in PyMC's own numbers (q,)."""
        return self.density.start * self.density.parameters.units + 0.1

    @property
    def uneven(self) -> np.ndarray:
        """A point beside the start in θ's own units (q,), at which no two parameters are alike."""
        golden = 0.5 * (np.sqrt(5.0) - 1.0)
        return self.density.start + 0.1 + 0.2 * (golden * np.arange(1, self.density.dimension + 1) % 1)

    def log_prior(self, theta: np.ndarray) -> float:
        """log π at one θ (q,), by PyTensor, so that nothing is compiled for it."""
        values = {**self.source.givens, **self.source.at(theta)}
        return float(sum(np.sum(term) for term in evaluate(self.prior_terms, values)))

    def log_likelihoods(self, theta: np.ndarray) -> np.ndarray:
        """At one θ (q,), of every class in some labeled rows (rows, K), by PyTensor.

        Where rows depend on each other, of these rows together, one of which has another class.
        """
        labeled, K = self.table.labeled, len(self.classes)
        n = max(1, min(_ROWS, len(labeled), _PAIRS // K))
        rows = labeled[np.linspace(0, len(labeled) - 1, n).round().astype(int)]
        of = self._of_rows_together(rows) if self.density.joint is not None else self._of_one_row()
        with np.errstate(all="ignore"):
            return np.array([[of(theta, row, code) for code in range(K)] for row in rows])

    def _of_rows_together(self, rows: np.ndarray) -> Callable[[np.ndarray, int, int], float]:
        joint = self.density.joint
        assert joint is not None

        def of(theta: np.ndarray, row: int, code: int) -> float:
            return joint.plain(theta, np.where(rows == row, code, self.table.codes[rows]), rows)

        return of

    def _of_one_row(self) -> Callable[[np.ndarray, int, int], float]:
        graph, values = self.density.graph, self.classes.values
        theta = graph.theta.type("theta")
        free = remake([graph.log_lik], {graph.theta: theta}, check=unchecked)
        function = pytensor.function([theta, graph.label, *graph.rows], free, mode=PLAIN, on_unused_input="ignore")

        def of(theta: np.ndarray, row: int, code: int) -> float:
            if graph.sliced:
                inputs = (array[row : row + 1] for array in graph.data)
                return float(function(theta, values[code : code + 1], *inputs)[0][0])
            return float(function(theta, np.repeat(values[code : code + 1], self.source.n_rows, axis=0))[0][row])

        return of


def fingerprint(declared: Sequence[Declared]) -> str:
    """In the form of today."""
    return FORM + _digest(parts(declared).values())


def parts(declared: Sequence[Declared]) -> dict[str, str]:
    """Fingerprints of what `fingerprint` is of, each by itself, to say what differs."""
    found = earlier_parts(declared)
    for each in declared:
        theta = each.uneven
        own = {
            "priors": [_as_text(each.log_prior(theta))],
            "classes": [json.dumps([str(name) for name in each.classes.names])],
            "likelihood": [_as_text(value) for value in each.log_likelihoods(theta).ravel()],
        }
        for name, values in own.items():
            found[name] = _digest([found.get(name, ""), *values])
    return found


def earlier_fingerprint(declared: Sequence[Declared]) -> str:
    """As versions before 0.2 had it."""
    each = [_earlier_fingerprint(one) for one in declared]
    return each[0] if len(each) == 1 else _digest(each)


def earlier_parts(declared: Sequence[Declared]) -> dict[str, str]:
    """Parts as `earlier_fingerprint` has them."""
    found: dict[str, str] = {}
    for each in declared:
        table = {"labels": [each.table.codes], "candidates": [each.table.candidates], "data": each.density.data}
        for name, values in ({"priors": [*_earlier_prior(each), each.near.round(_DIGITS)]} | table).items():
            found[name] = _digest([found.get(name, ""), *values])
    return found


def _earlier_fingerprint(declared: Declared) -> str:
    arrays = (declared.table.codes, declared.table.candidates, declared.near.round(_DIGITS), *declared.density.data)
    return _digest([*_earlier_prior(declared), *arrays])


def _earlier_prior(declared: Declared) -> list[str]:
    parameters = declared.density.parameters
    log_prior = declared.log_prior(parameters.counted(declared.near))
    return [np.format_float_scientific(log_prior, _DIGITS), *parameters.labels]


def _as_text(value: float) -> str:
    """To eight digits, and no closer than that to 0, where rounding errors are all there is."""
    rounded = value if abs(value) > 1 else round(value, _DIGITS) + 0.0
    return np.format_float_scientific(rounded, _DIGITS)


def _digest(values: Iterable[str | np.ndarray]) -> str:
    found = hashlib.sha256()
    for value in values:
        found.update(value.encode() if isinstance(value, str) else np.ascontiguousarray(value).tobytes())
    return found.hexdigest()[:16]
