"""A log prior that is one quadratic function of θ: whether it is, and its precision in the parts that it is made of.

All that is asked of the prior are values, gradients and products of its Hessian with vectors, at a few points. A diagonal
matrix times a random vector is that vector times what the matrix makes of ones; off-diagonal entries show in the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_bpls.engine.priors.precisions import Dense, Diagonal, Part, Precision

_FAR = 10.0
_LARGEST_BORDER = 64
_PRODUCTS_AT_ONCE = 64
_ROUNDING = 1e-12

#: log π (sets,) and its gradient (sets, q) at θ (sets, q).
ValueAndGradient = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
#: ∇² log π at θ (q,) times each of the vectors (V, q).
HessianProducts = Callable[[np.ndarray, np.ndarray], np.ndarray]
#: P times each of the vectors (V, q).
Times = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class GaussianPrior:
    """log π(θ) = value + slope'(θ − θ₀) − ½ (θ − θ₀)' P (θ − θ₀): normal, flat, or a sum of such terms."""

    start: np.ndarray
    value: float
    slope: np.ndarray
    structure: Precision

    @property
    def precision(self) -> np.ndarray:
        """P (q, q) as one matrix."""
        return self.structure.matrix

    def at(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π (sets,) and its gradient (sets, q) at θ (sets, q)."""
        move = theta - self.start
        bend = self.structure.times(move)
        return self.value + move @ self.slope - 0.5 * (move * bend).sum(axis=1), self.slope - bend


def find_gaussian_prior(
    start: np.ndarray,
    sizes: Sequence[int],
    value_and_gradient: ValueAndGradient,
    products: HessianProducts,
    *,
    curvature: bool = True,
) -> GaussianPrior | None:
    """The prior, where value, gradient and Hessian are those of one quadratic function at points near and far.

    `sizes` are those of the variables that θ consists of, in their order. Without `curvature` the Hessian is asked for at the
    start alone, and values and gradients have to do at the other points.
    """
    rng = np.random.default_rng(0)
    draws, scale = rng.normal(size=(3, len(start))), spreads(start, products)
    # of both signs in every coordinate: a kink at the start has a straight side
    steps = np.vstack([draws[0], draws[1], _FAR * draws[0], _FAR**2 * draws[2]]) * scale
    points = start + np.vstack([np.zeros_like(start), steps, -steps])
    values, slopes = value_and_gradient(points)
    with np.errstate(invalid="ignore"):
        if not np.allclose(scale * (slopes[3] - slopes[0]), _FAR * scale * (slopes[1] - slopes[0]), rtol=1e-7, atol=1e-7):
            return None

    def times(vectors: np.ndarray) -> np.ndarray:
        return -scale * products(start, scale * vectors)

    gaussian = GaussianPrior(start, float(values[0]), slopes[0], find_precision(times, sizes).over(scale))
    along = scale * rng.normal(size=(1, len(start)))
    bends = np.concatenate([-products(point, along) for point in (points if curvature else points[:0])] or [along[:0]])
    expected_values, expected_slopes = gaussian.at(points)
    expected_bends = np.broadcast_to(gaussian.structure.times(along), bends.shape)
    pairs = (values, expected_values), (scale * slopes, scale * expected_slopes), (scale * bends, scale * expected_bends)
    with np.errstate(invalid="ignore"):
        same = all(np.allclose(found, expected, rtol=1e-11, atol=1e-13) for found, expected in pairs)
    return gaussian if same else None


def spreads(start: np.ndarray, products: HessianProducts) -> np.ndarray:
    """How far each entry of θ goes from the start until a normal density with the curvature there has fallen by ½ (q,).

    Rows of the Hessian with entries beside the diagonal are told to within a factor by one product. It is 1 where there is no
    curvature, as in a flat prior and at the kink of a Laplace one.
    """
    signs = np.random.default_rng(0).choice([-1.0, 1.0], len(start))
    curvature = np.abs(products(start, signs[None])[0])
    usable = np.isfinite(curvature) & (curvature > 0)
    return 1 / np.sqrt(np.where(usable, curvature, 1.0))


def find_precision(times: Times, sizes: Sequence[int]) -> Precision:
    """P from its products with vectors `times` (V, q) → (V, q).

    The smallest variables are the border, since what others depend on is small. Of the rest, variables whose entries are
    independent of all else are diagonal, others dense, each by itself or, where they depend on each other, together.
    """
    variables = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    by_size = sorted(variables, key=len)
    small = np.cumsum([len(variable) for variable in by_size]) <= _LARGEST_BORDER
    border = np.sort(np.concatenate([np.empty(0, dtype=int), *by_size[: small.sum()]]))
    rest = [variable for variable in variables if not np.isin(variable, border).any()]
    beside = times(_units(border, sum(sizes))) if border.size else np.empty((0, sum(sizes)))
    return Precision(tuple(_parts(times, rest, sum(sizes))), border, beside)


def _units(coordinates: np.ndarray, q: int) -> np.ndarray:
    vectors = np.zeros((len(coordinates), q))
    vectors[np.arange(len(coordinates)), coordinates] = 1.0
    return vectors


def _parts(times: Times, variables: list[np.ndarray], q: int) -> Iterator[Part]:
    """The blocks of P at some variables, which together have all coordinates but the border's."""
    if not variables:
        return
    every = np.concatenate(variables)
    diagonal = _diagonal(times, every, every, q)
    if diagonal is not None:
        yield Diagonal(every, diagonal)
        return
    together: list[np.ndarray] = []
    for variable in variables:
        diagonal = _diagonal(times, variable, every, q)
        if diagonal is None:
            together.append(variable)
        else:
            yield Diagonal(variable, diagonal)
    apart = [variable for variable in together if not _reaches(times, variable, np.setdiff1d(every, variable), q)]
    joined = [variable for variable in together if not any(variable is other for other in apart)]
    for coordinates in (*apart, *([np.concatenate(joined)] if joined else [])):
        yield Dense(coordinates, _block(times, coordinates, q))


def _block(times: Times, coordinates: np.ndarray, q: int) -> np.ndarray:
    """P at some coordinates, a few rows at a time."""
    pieces = np.array_split(coordinates, -(-len(coordinates) // _PRODUCTS_AT_ONCE))
    rows = np.concatenate([times(_units(piece, q))[:, coordinates] for piece in pieces])
    return 0.5 * (rows + rows.T)


def _products(times: Times, coordinates: np.ndarray, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (2, q) that are 1, and random, at the coordinates, and 0 elsewhere, and P times them."""
    vectors = np.zeros((2, q))
    vectors[0, coordinates] = 1.0
    vectors[1, coordinates] = np.random.default_rng(0).uniform(-1, 1, len(coordinates))
    return vectors, times(vectors)


def _diagonal(times: Times, coordinates: np.ndarray, every: np.ndarray, q: int) -> np.ndarray | None:
    """The diagonal of P at some coordinates, where they are independent of each other and of all of `every`."""
    vectors, products = _products(times, coordinates, q)
    expected = vectors[1] * products[0]
    beside = np.setdiff1d(every, coordinates)
    scale = np.abs(products[0, coordinates]).max()
    same = np.abs(products[1] - expected)[coordinates] <= _ROUNDING * scale
    return products[0, coordinates] if same.all() and not (np.abs(products[1, beside]) > _ROUNDING * scale).any() else None


def _reaches(times: Times, coordinates: np.ndarray, others: np.ndarray, q: int) -> bool:
    """Whether P has entries between some coordinates and the others."""
    _, products = _products(times, coordinates, q)
    return bool((np.abs(products[1, others]) > _ROUNDING * np.abs(products[1]).max()).any())
