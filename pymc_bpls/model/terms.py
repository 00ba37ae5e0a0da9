"""The terms of the log-likelihood that labels reach, each summed over its own shape, by the rows that it depends on.

A term with an axis of rows is summed over its others. Any other, such as a total of the labels, belongs to the rows together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytensor
from pytensor.graph.basic import Variable

from pymc_bpls.errors import ModelError
from pymc_bpls.model.data.labels import Classes
from pymc_bpls.model.graphs.row_axes import RowAxes
from pymc_bpls.model.graphs.slicing import PLAIN, Source, table_graph
from pymc_bpls.model.graphs.subtables import SubTables

_ROUNDING = 1e-9  # what evaluating the same sum in another order may change


def sum_terms(
    target: Variable, terms: Mapping[Variable, Variable], source: Source, classes: Classes, start: np.ndarray
) -> dict[str, Variable]:
    """Each term by row (N,), or each as one number where one has no axis of rows; by name, the target's first.

    `terms` are by observed variable, of which `target` holds the labels; `start` is θ (q,) near which they are tried.

    Raises
    ------
    ModelError
        The entries of a term depend on one row each and have no axis of rows, as in a table of votes.
    """
    axes = {rv: 0 if rv is target else _row_axis(target, rv, term, source, classes, start) for rv, term in terms.items()}
    together = terms[target].ndim == 0 or None in axes.values()
    in_order = sorted(terms, key=lambda rv: rv is not target)
    return {rv.name: terms[rv].sum() if together else _over_others(terms[rv], axes[rv]) for rv in in_order}


def sum_all(terms: Mapping[Variable, Variable]) -> Variable:
    """Every entry of every term, added up."""
    return sum(term.sum() for term in terms.values())


def _over_others(term: Variable, axis: int | None) -> Variable:
    others = tuple(place for place in range(term.ndim) if place != axis)
    return term.sum(axis=others) if others else term


def _row_axis(
    target: Variable, rv: Variable, term: Variable, source: Source, classes: Classes, start: np.ndarray
) -> int | None:
    graph = table_graph(source, term, checked=False)
    function = pytensor.function([graph.theta, graph.label], graph.log_lik, mode=PLAIN, on_unused_input="ignore")
    theta, codes = _tried(source, classes, start)

    def of_labels(labels: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(function(theta, labels))

    rows = RowAxes(of_labels, classes.values[codes], classes.values[(codes + 1) % len(classes)])
    if rows.axis is None and rows.by_lines:
        raise ModelError(
            f'"{rv.name}" has shape {rows.one.shape}, and each entry depends on one of the {source.n_rows} rows of '
            f'"{target.name}". Give it an axis of {source.n_rows} rows, and mask what is missing by a pm.CustomDist.'
        )
    return rows.axis


def _tried(source: Source, classes: Classes, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """θ near the start, and a class code for each row, at random."""
    rng = np.random.default_rng(0)
    return start + 0.3 * rng.normal(size=len(start)), rng.integers(0, len(classes), source.n_rows)


def refuse_numbered_rows(
    target: Variable, terms: Mapping[Variable, Variable], joint: SubTables, start: np.ndarray, classes: Classes
) -> None:
    """Refuse a term that takes rows by their number: of half of the table, it has to depend on the same rows as before.

    Raises
    ------
    ModelError
    """
    theta, codes = _tried(joint.source, classes, start)
    n = joint.source.n_rows
    half = np.arange(n // 2, n)
    # among equal labels another one shows in totals, counts of changes, any and all alike, which may cancel in others
    labelings = [codes, *(np.full(n, code) for code in range(len(classes)))]
    for rv, term in terms.items():
        if rv is target:
            continue
        alone = replace(joint, log_lik=term.sum(), functions={}, plain_functions={}, stores={})
        of_all, of_half = (_reached(alone, theta, labelings, rows) for rows in (np.arange(n), half))
        if not np.array_equal(of_all[half], of_half[half]):
            raise ModelError(
                f'"{rv.name}" takes some of the {n} rows of "{target.name}" by their number, so that it is not defined '
                "for fewer rows. Pick rows by data with a value for each, as a mask that the labels are multiplied by."
            )


def _reached(joint: SubTables, theta: np.ndarray, labelings: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Whether the label of a row of the table (N,) changes the term of `rows`, in any of the labelings."""
    found = np.zeros(joint.source.n_rows, dtype=bool)
    for codes in labelings:
        value = joint.plain(theta, codes[rows], rows)
        for row in rows[~found[rows]]:
            other = codes.copy()
            other[row] = (other[row] + 1) % len(joint.class_values)
            changed = joint.plain(theta, other[rows], rows)
            found[row] = not np.isclose(changed, value, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)
    return found
