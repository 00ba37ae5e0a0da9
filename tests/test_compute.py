"""Work in pieces, whatever runs them, and compiled code that is known by what it is and keeps no table alive."""

import gc
import weakref
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import jax
import numpy as np
import pymc as pm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pymc_bpls as bpls
from pymc_bpls.compute.chunks import map_rows
from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.compute.library import LIBRARY
from pymc_bpls.compute.store import Store
from pymc_bpls.compute.threads import IN_TURN, side_by_side

sizes = st.integers(0, 6).flatmap(lambda low: st.tuples(st.just(1 << low), st.integers(low, 7).map(lambda high: 1 << high)))


class Recorder:
    """An executor that notes what it is given, and runs it when its result is asked for."""

    def __init__(self):
        self.submitted = []

    def submit(self, function, *arguments):
        self.submitted.append(arguments)
        return Later(function, arguments)


class Later:
    def __init__(self, function, arguments):
        self.function, self.arguments = function, arguments

    def result(self):
        return self.function(*self.arguments)

    def cancel(self):
        pass


@given(st.integers(0, 300), sizes, st.booleans(), st.sampled_from([None, IN_TURN, "record"]))
@settings(max_examples=60)
def test_pieces_change_nothing(n, size, padded, executor):
    x = np.random.default_rng(n).normal(size=(n, 3))
    lengths = []

    def some(rows):
        lengths.append(len(rows))
        return {"sum": x[rows].sum(axis=1), "all": (x[rows], rows)}

    found = map_rows(some, n, size, Recorder() if executor == "record" else executor, padded=padded)
    np.testing.assert_array_equal(found["sum"], x.sum(axis=1))
    np.testing.assert_array_equal(found["all"][0], x)
    np.testing.assert_array_equal(found["all"][1], np.arange(n))
    assert max(lengths) <= size[1]
    if padded and n:
        assert set(lengths) == {lengths[0]}
        assert size[0] <= lengths[0]
        assert np.log2(lengths[0]) % 1 == 0
        assert len(lengths) == -(-n // lengths[0])


def test_the_first_piece_is_run_at_once_and_the_others_are_submitted():
    recorder, seen = Recorder(), []
    map_rows(lambda rows: seen.append(rows[0]) or rows, 20, (4, 4), recorder)
    assert [task.piece[0] for _, task in recorder.submitted] == [4, 8, 12, 16]
    assert seen == [0, 4, 8, 12, 16]


@pytest.mark.parametrize("threads", (1, 2))
def test_work_in_pieces_inside_a_piece_never_waits_for_a_worker(threads):
    with ThreadPoolExecutor(threads) as pool:

        def inner(rows):
            return map_rows(lambda some: rows[some] * 2, len(rows), (2, 2), pool)

        np.testing.assert_array_equal(map_rows(inner, 64, (8, 8), pool), 2 * np.arange(64))
    np.testing.assert_array_equal(
        map_rows(lambda rows: map_rows(lambda some: rows[some], 8, (1, 1)), 64, (8, 8)), np.arange(64)
    )


def test_pieces_run_in_the_context_of_the_caller():
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        map_rows(lambda rows: 1.0 / (rows.astype(float) - 5), 8, (2, 2))


@pytest.mark.parametrize("executor", (None, IN_TURN))
def test_what_a_piece_raises_is_raised(executor):
    def fails(rows):
        if 13 in rows:
            raise KeyError("thirteen")
        return rows

    with pytest.raises(KeyError, match="thirteen"):
        map_rows(fails, 20, (4, 4), executor)
    with pytest.raises(KeyError, match="thirteen"):
        list(side_by_side(fails, [[1], [13], [2]], executor))


def doubled(rows):
    return 2 * rows


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_pieces_go_to_other_processes():
    with ProcessPoolExecutor(1) as pool:
        np.testing.assert_array_equal(map_rows(doubled, 10, (4, 4), pool), 2 * np.arange(10))


class Plain:
    """A structure of its own, with `scale`."""

    shared = ()

    def __init__(self, scale):
        self.scale, self.store = scale, Store()

    def sharing(self, shared):
        return self


def first(structure, x, *, power=1):
    """The same words."""
    return structure.scale * x**power


def second(structure, x, *, power=1):
    """The same words."""
    return -structure.scale * x**power


def holding(table):
    def kernel(structure, x):
        return x + table

    return kernel


def test_kernels_with_the_same_words_share_no_code():
    structure, compiler, x = Plain(3.0), Compiler(), np.array([1.0, 2.0])
    for _ in range(2):
        np.testing.assert_array_equal(compiler(first, structure, x), 3 * x)
        np.testing.assert_array_equal(compiler(second, structure, x), -3 * x)
        np.testing.assert_array_equal(compiler(first, structure, x, power=2), 3 * x**2)
    assert [entry.name for entry in compiler.log] == ["The same words", "The same words", "The same words (power = 2)"]
    np.testing.assert_array_equal(compiler(first, Plain(5.0), x), 5 * x)


@pytest.mark.parametrize(
    "kernel",
    (holding(np.ones(2)), lambda structure, x: x, jax.vmap(first), Plain(1.0).sharing, np.sin),
    ids=("closure", "lambda", "wrapped", "method", "builtin"),
)
def test_a_kernel_that_could_carry_data_is_refused(kernel):
    with pytest.raises(TypeError, match="is no function of a module"):
        Compiler()(kernel, Plain(1.0), np.ones(2))


@pytest.mark.parametrize(
    "static", (np.ones(2), [1], Plain(1.0), (1, np.ones(1)), first), ids=lambda value: type(value).__name__
)
def test_a_static_argument_is_a_number_or_a_name(static):
    with pytest.raises(TypeError):
        Compiler()(first, Plain(1.0), np.ones(2), power=static)


def logistic(X, y):
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1, shape=X.shape[1])
        pm.Bernoulli("y", logit_p=X @ b, observed=y)
    return bpls.BPLS(model)


def walk(X, y):
    """Rows that depend on each other: a label leans towards the one before."""
    with pm.Model() as model:
        b, data = pm.Normal("b", 0, 1), pm.Data("labels", y.astype(float))
        lag = pm.math.concatenate([np.zeros(1), data[:-1]])
        pm.Normal("y", X[:, 0] * b + 0.5 * lag, 1.0, observed=data)
    return bpls.BPLS(model, classes=[0, 1])


def by_refits(pls):
    pls.score(labels="all", approximation="laplace")


def at_the_mode(pls):
    pls.score("variance")
    pls.score("predictive", labels="all", approximation="laplace")


def over_draws(pls):
    pls.score(approximation="vi")
    pls.exact(method="psis", draws=100, random_seed=0)


@pytest.mark.filterwarnings("ignore::pymc_bpls.BPLSWarning")
@pytest.mark.parametrize(
    ("declare", "use"), ((logistic, by_refits), (logistic, at_the_mode), (logistic, over_draws), (walk, by_refits))
)
def test_compiled_code_keeps_no_table_alive(declare, use):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(14, 2))
    pls = declare(X, np.where(np.arange(14) < 8, rng.integers(0, 2, 14), -1))
    use(pls)
    density = pls.scorer.problem.density
    held = [weakref.ref(array) for array in (*density.data, X)]
    if declare is logistic:
        assert any(made is density.structure for _, made in LIBRARY.shelf)
        assert density.structure.store.functions
    del pls, density, X
    gc.collect()
    assert [reference() for reference in held] == [None] * len(held)
