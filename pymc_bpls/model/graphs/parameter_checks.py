"""PyMC's checks of a distribution's parameters, read row by row.

PyMC checks the parameters of the whole table at once, such as 0 ≤ p ≤ 1 and Σ_y p_y = 1, and gives no row a density where a
condition fails. Here one with a value for each row counts in its own row alone, since rows outside D may hold anything; any
other counts in all of them. Where one fails, ℓ is NaN, so that no mode lies there and no row is scored there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.scalar.basic import Cast
from pytensor.tensor.basic import Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import All

from pymc_bpls.compute.travel import OfFields

_PLAIN = Mode(linker="py", optimizer=None)
_SHOWN = 5
_ADVICE = (
    ("sum(", "Make the probabilities of each row add up to 1: softmax takes axis=-1, cutpoints an ordered transform."),
    ("p <= 1", "Keep probabilities between 0 and 1 by a link, as pm.math.sigmoid."),
    ("", "Keep these parameters in their range by a link or a prior, or start elsewhere with initvals=."),
)


@dataclass(frozen=True)
class Condition:
    """What has to hold, in PyMC's words, and whether it does: (rows,), or one value for all rows."""

    words: str
    holds: Variable


@dataclass(frozen=True)
class Rejection:
    """A condition of PyMC's that fails, and the rows in which it does."""

    words: str
    rows: np.ndarray


def conditions_of(words: str, checked: Sequence[Variable], n_rows: int) -> Iterator[Condition]:
    """The conditions that are joined in what a check takes, each by row where it has a value for each row."""
    for variable in checked:
        node = variable.owner
        if node is not None and _joins(node.op):
            below = node.inputs[1:] if isinstance(node.op, Join) else node.inputs
            yield from conditions_of(words, below, n_rows)
            continue
        condition = pt.as_tensor(variable)
        by_row = condition.type.shape[:1] == (n_rows,)
        axes = tuple(range(1, condition.ndim)) if by_row else tuple(range(condition.ndim))
        yield Condition(words, condition.all(axis=axes) if axes else condition)


def _joins(op: Any) -> bool:
    """Whether all entries of an operation's output hold exactly where all those of its inputs do."""
    if isinstance(op, Elemwise):
        return isinstance(op.scalar_op, Cast)
    return isinstance(op, (All, MakeVector, Join, ScalarFromTensor, TensorFromScalar, DimShuffle))


def where_they_hold(value: Variable, conditions: Sequence[Condition]) -> Variable:
    """`value` where the conditions hold, NaN elsewhere."""
    for condition in conditions:
        holds = condition.holds
        if holds.ndim and value.type.shape[:1] == holds.type.shape:
            holds = pt.shape_padright(holds, value.ndim - 1)
        else:
            holds = holds.all()
        value = pt.switch(holds, value, np.nan)
    return value


@dataclass(frozen=True)
class ParameterChecks(OfFields):
    """The checks in a likelihood of `theta` and `label` on a table of `n_rows`, the first `declared` of which were declared.

    `class_value` is any label, `name` that of the variable.
    """

    name: str
    theta: Variable
    label: Variable
    conditions: Sequence[Condition]
    class_value: np.ndarray
    n_rows: int
    declared: int

    @cached_property
    def _holds(self) -> Callable[..., list[Any]]:
        outputs = [condition.holds for condition in self.conditions]
        return pytensor.function([self.theta, self.label], outputs, mode=_PLAIN, on_unused_input="ignore")

    def rejections(self, theta: np.ndarray, rows: np.ndarray) -> list[Rejection]:
        """What fails at θ (q,) in some of the `rows`, by the words of the conditions."""
        labels = np.repeat(self.class_value[None], self.n_rows, axis=0)
        failed: dict[str, np.ndarray] = {}
        with np.errstate(all="ignore"):
            values = self._holds(theta, labels)
        for condition, value in zip(self.conditions, values, strict=True):
            bad = ~np.broadcast_to(value, self.n_rows)[rows]
            failed[condition.words] = failed.get(condition.words, np.zeros(len(rows), dtype=bool)) | bad
        return [Rejection(words, rows[bad]) for words, bad in failed.items() if bad.any()]

    def sentence(self, theta: np.ndarray, rows: np.ndarray, where: str) -> str | None:
        """What PyMC rejects at θ in some of the `rows`, and what to do; None where it rejects nothing."""
        if not self.conditions:
            return None
        rejected = self.rejections(theta, rows)
        if not rejected:
            return None
        first = rejected[0]
        advice = next(advice for words, advice in _ADVICE if words in first.words)
        return (
            f'PyMC rejects the parameters of "{self.name}" {where} in {self._named(first.rows, len(rows))}: '
            f"{first.words.replace('<=1', '<= 1') or 'a check of them'} does not hold. {advice}"
        )

    def _named(self, rows: np.ndarray, among: int) -> str:
        """Rows of the table by position, new ones by their place among the new ones."""
        new = len(rows) > 0 and rows[0] >= self.declared
        more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
        places = (rows - self.declared if new else rows)[:_SHOWN].tolist()
        return f"{len(rows)} of {among} {'new ' if new else ''}rows, {places}{more}"
