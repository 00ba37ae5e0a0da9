"""The space of the labeled rows against dense algebra in all parameters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_bpls.engine.priors.gaussian_priors import GaussianPrior, find_gaussian_prior, find_precision
from pymc_bpls.engine.priors.precisions import Dense, Diagonal, Precision
from pymc_bpls.engine.rows.row_space import RowSpace, residuals

PRECISIONS = ("diagonal", "dense", "bordered", "two blocks", "flat intercept", "flat in a border")
DESIGNS = ("plain", "duplicates", "zero columns", "zero row")


def precision_of(kind, q, rng):
    """P (q, q) and how its variables are cut."""
    root = rng.normal(size=(q, q + 2))
    scale = np.exp(rng.normal(size=q))
    matrix, sizes = np.diag(scale), [q]
    if kind == "dense":
        matrix = root @ root.T
    elif kind == "two blocks":
        half = q // 2
        matrix = np.zeros((q, q))
        matrix[:half, :half] = root[:half] @ root[:half].T
        matrix[half:, half:] = np.diag(scale[half:])
        sizes = [half, q - half]
    elif kind in ("bordered", "flat in a border"):
        slopes = rng.normal(size=q - 1)
        matrix[0, 0] = 1 + slopes**2 @ (1 / scale[1:])
        matrix[0, 1:] = matrix[1:, 0] = slopes
        sizes = [1, q - 1]
        if kind == "flat in a border":
            matrix[0] = matrix[:, 0] = 0.0
    elif kind == "flat intercept":
        matrix[q // 2, q // 2] = 0.0
    return matrix, [size for size in sizes if size]


def as_found(matrix, sizes, largest, monkeypatch=None):
    """The same precision from products alone, with a border of at most `largest` coordinates."""
    if monkeypatch is not None:
        monkeypatch.setattr("pymc_bpls.engine.priors.gaussian_priors._LARGEST_BORDER", largest)
    return find_precision(lambda vectors: vectors @ matrix, sizes)


@pytest.mark.parametrize("kind", PRECISIONS)
@pytest.mark.parametrize("border", [0, 1, 64])
def test_a_precision_is_found_by_products_in_the_parts_that_it_is_made_of(kind, border, monkeypatch):
    matrix, sizes = precision_of(kind, 12, np.random.default_rng(3))
    found = as_found(matrix, sizes, border, monkeypatch)
    np.testing.assert_allclose(found.matrix, matrix, rtol=0, atol=1e-12 * np.abs(matrix).max())
    rows = np.random.default_rng(1).normal(size=(3, 12))
    np.testing.assert_allclose(found.times(rows), rows @ matrix, rtol=0, atol=1e-11)
    if kind == "diagonal":
        assert all(isinstance(part, Diagonal) for part in found.parts)
    if kind == "bordered" and border == 1:
        assert isinstance(found.parts[0], Diagonal)
    if kind == "two blocks" and border == 0:
        assert sorted(type(part).__name__ for part in found.parts) == ["Dense", "Diagonal"]


def test_variables_that_depend_on_each_other_share_a_block_and_others_do_not(monkeypatch):
    matrix = np.diag(np.arange(1.0, 11.0))
    matrix[:6, :6] += 0.1
    matrix[8, 9] = matrix[9, 8] = 0.5
    found = as_found(matrix, [3, 3, 2, 2], 0, monkeypatch)
    np.testing.assert_allclose(found.matrix, matrix, atol=1e-13)
    assert sorted(len(part.coordinates) for part in found.parts if isinstance(part, Dense)) == [2, 6]


def test_a_prior_that_is_not_quadratic_is_none():
    def student(theta):
        return -2.0 * np.log1p(theta**2).sum(axis=1), -4.0 * theta / (1 + theta**2)

    assert find_gaussian_prior(np.zeros(3), [3], student, lambda theta, v: v) is None


@st.composite
def cases(draw):
    kind = draw(st.sampled_from(PRECISIONS))
    q = draw(st.integers(4, 9))
    n, p = draw(st.integers(1, 12)), draw(st.sampled_from([1, 1, 2, 3]))
    return (
        kind,
        q,
        n,
        p,
        draw(st.integers(0, 2**31)),
        draw(st.sampled_from(["plain", "duplicates", "zero columns", "zero row"])),
    )


@given(cases())
@settings(max_examples=60, deadline=None)
def test_the_space_of_the_rows_is_dense_algebra(case):
    kind, q, n, p, seed, design = case
    rng = np.random.default_rng(seed)
    matrix, sizes = precision_of(kind, q, rng)
    structure = Precision.of_matrix(matrix) if seed % 2 else find_precision(lambda vectors: vectors @ matrix, sizes)
    prior = GaussianPrior(rng.normal(size=q), rng.normal(), rng.normal(size=q) * (np.diag(matrix) > 0), structure)
    A, offset = rng.normal(size=(n + 3, p, q)), rng.normal(size=(n + 3, p))
    if design == "duplicates":
        A[n - 1] = A[0]
        A[:, :, -1] = A[:, :, 0]
        A[n] = A[0]
    elif design == "zero columns":
        A[:, :, 1] = 0.0
    elif design == "zero row":
        A[n - 1] = 0.0
    if n > 1 and seed % 3 == 0:
        space = RowSpace.spanned_by(prior, A[: n - n // 2]).grown(A[n - n // 2 : n])
    else:
        space = RowSpace.spanned_by(prior, A[:n])
    flat = np.flatnonzero(np.diag(matrix) == 0)
    bound = np.setdiff1d(np.arange(q), flat)
    assert space.dimension <= min(n * p, len(bound)) + len(flat)
    np.testing.assert_allclose(space.basis @ space.basis.T, np.eye(len(space.basis)), atol=1e-12)

    # predictors and prior at any coordinates are those of their θ
    C, R = space.loadings(A), residuals(space.spread(A), space.loadings(A), len(flat))
    points = rng.normal(size=(4, space.dimension))
    theta = space.theta(points)
    eta = np.einsum("npd,sd->snp", C, points) + space.offset(A, offset)
    np.testing.assert_allclose(eta[:, :n], np.einsum("npq,sq->snp", A[:n], theta) + offset[:n], atol=1e-10)
    np.testing.assert_allclose(space.prior.at(points)[0], prior.at(theta)[0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(C[:, :, 1:], space.loadings(A, 1), atol=1e-12)

    # curvature, log det, means and variances of every entry and of rows beside D
    W = np.array([root @ root.T for root in rng.normal(size=(n, p, p))])
    H = matrix + np.einsum("npi,npr,nrj->ij", A[:n], W, A[:n])
    if np.linalg.cond(H) > 1e8:
        return
    reduced = space.prior.precision + np.einsum("npi,npr,nrj->ij", C[:n], W, C[:n])
    np.testing.assert_allclose(space.hessian(reduced), H, atol=1e-10 * np.abs(H).max())
    np.testing.assert_allclose(
        np.linalg.slogdet(reduced)[1] + space.log_det_prior, np.linalg.slogdet(H)[1], rtol=1e-10, atol=1e-9
    )
    S, inverse = np.linalg.inv(reduced), np.linalg.inv(H)
    np.testing.assert_allclose(space.variances(S), np.diag(inverse), rtol=1e-9, atol=1e-10 * np.abs(inverse).max())
    of_rows = C @ S @ C.transpose(0, 2, 1) + R @ R.transpose(0, 2, 1)
    np.testing.assert_allclose(of_rows, A @ inverse @ A.transpose(0, 2, 1), rtol=1e-8, atol=1e-10 * np.abs(of_rows).max())
    np.testing.assert_allclose(R[:n], 0, atol=1e-6 * np.abs(R).max(initial=1.0))


def test_draws_have_the_mean_and_covariance_of_all_parameters():
    rng = np.random.default_rng(5)
    q, n = 6, 2
    matrix, _ = precision_of("dense", q, rng)
    prior = GaussianPrior(np.zeros(q), 0.0, rng.normal(size=q), Precision.of_matrix(matrix))
    A = rng.normal(size=(n, 1, q))
    space = RowSpace.spanned_by(prior, A)
    reduced = space.prior.precision + 2 * np.einsum("npi,npj->ij", space.loadings(A), space.loadings(A))
    inverse = np.linalg.inv(matrix + 2 * A[:, 0].T @ A[:, 0])
    count = 200_000
    points = rng.normal(size=(count, space.dimension)) @ np.linalg.cholesky(np.linalg.inv(reduced)).T
    draws = space.draws(points, rng.normal(size=(count, q)))
    scale = np.sqrt(np.diag(inverse))
    np.testing.assert_allclose(np.cov(draws.T) / np.outer(scale, scale), inverse / np.outer(scale, scale), atol=0.015)
    np.testing.assert_allclose((draws.mean(axis=0) - np.linalg.solve(matrix, prior.slope)) / scale, 0, atol=0.015)
