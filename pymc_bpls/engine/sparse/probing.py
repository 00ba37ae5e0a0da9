"""Which parameters a row's linear predictors touch, and how, from a few products of the design with vectors.

Parameters of small variables are asked for one by one. Those of large ones are coloured at random: a row that touches one
parameter c of a colour has a u_c in the product with random u there, and (c + 1) a u_c in that with (c + 1) u, so that their
ratio names c. Each row is verified by a product with another vector; rows that touch two parameters of a colour are asked again
with other colours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

_SMALL, _COLOURS, _ROUNDS = 64, 16, 10
_ROUNDING = 1e-9

#: Products (V, n, p) of the designs of rows, by their numbers (n,), with vectors (V, q).
Products = Callable[[np.ndarray, np.ndarray], np.ndarray]


def probe(products: Products, n: int, sizes: Sequence[int]) -> tuple[tuple[np.ndarray, np.ndarray] | None, np.ndarray]:
    """The parameters (n, W) that each row touches, q where there are fewer, and its design there (n, p, W).

    None where some rows touch many parameters of large variables, and the numbers of these.
    """
    q, rng = sum(sizes), np.random.default_rng(0)
    variables = np.split(np.arange(q), np.cumsum(sizes)[:-1])
    small = np.concatenate([np.empty(0, dtype=int), *(v for v in variables if len(v) <= _SMALL)])
    large = np.setdiff1d(np.arange(q), small)
    rows = np.arange(n)
    units = np.zeros((len(small) + 1, q))
    units[np.arange(len(small)), small] = 1.0
    alone = np.moveaxis(products(units, rows)[:-1], 0, 2)
    triples = [_entries(rows, small, alone)]
    waiting = rows if len(large) else rows[:0]
    for _ in range(_ROUNDS):
        if not len(waiting):
            break
        found, resolved = _by_colours(products, waiting, large, q, rng)
        triples.append(tuple(part[resolved[found[0]]] for part in found))
        waiting = waiting[~resolved[waiting]]
    return (None if len(waiting) else _packed(triples, n, q, alone.shape[1])), waiting


def _entries(rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row, parameter and design (p,) of what is not zero, of values (rows, p, columns)."""
    row, place = np.nonzero(values.any(axis=1))
    return rows[row], columns[place], values[row, :, place]


def _by_colours(
    products: Products, rows: np.ndarray, large: np.ndarray, q: int, rng: np.random.Generator
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """Entries of some rows in large variables, and of which rows, by number, they are all."""
    colour, u = rng.integers(_COLOURS, size=len(large)), np.zeros(q)
    u[large] = rng.uniform(0.5, 1.0, len(large))
    vectors = np.zeros((2 * _COLOURS + 1, q))
    vectors[colour, large] = u[large]
    vectors[_COLOURS + colour, large] = u[large] * (1 + large)
    vectors[-1, large] = check = rng.normal(size=len(large))
    values = products(vectors, rows)
    first, second, whole = values[:_COLOURS], values[_COLOURS:-1], values[-1]
    strongest = np.abs(first).argmax(axis=2)[:, :, None]
    one, other = (np.take_along_axis(part, strongest, axis=2)[:, :, 0] for part in (first, second))
    with np.errstate(divide="ignore", invalid="ignore"):
        named = np.where(one != 0, np.rint(other / one) - 1, -1)
    touched, row = np.nonzero((named >= 0) & (named < q))
    columns = named[touched, row].astype(int)
    usable = u[columns] > 0
    touched, row, columns = touched[usable], row[usable], columns[usable]
    entries = first[touched, row] / u[columns][:, None]
    at_check = np.zeros(q)
    at_check[large] = check
    total = np.zeros_like(whole)
    np.add.at(total, row, entries * at_check[columns][:, None])
    scale = np.abs(first).sum(axis=0) + np.abs(whole)
    good = (np.abs(total - whole) <= _ROUNDING * (scale + 1e-300)).all(axis=1) & np.isfinite(whole).all(axis=1)
    resolved = np.zeros(int(rows.max()) + 1, dtype=bool)
    resolved[rows[good]] = True
    return (rows[row], columns, entries), resolved


def _packed(triples: list[tuple[np.ndarray, np.ndarray, np.ndarray]], n: int, q: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Entries as (n, W) parameters and (n, p, W) values."""
    row, column = (np.concatenate([each[part] for each in triples]) for part in (0, 1))
    values = np.concatenate([each[2] for each in triples])
    order = np.lexsort((column, row))
    row, column, values = row[order], column[order], values[order]
    counts = np.bincount(row, minlength=n)
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    columns, matrix = np.full((n, max(1, counts.max(initial=0))), q), np.zeros((n, max(1, counts.max(initial=0)), p))
    columns[row, place], matrix[row, place] = column, values
    return columns, np.ascontiguousarray(matrix.transpose(0, 2, 1))
