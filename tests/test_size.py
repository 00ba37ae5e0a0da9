"""Size and time: the design of the rows in use, arrays that would not fit, and the line that says what takes long."""

import io
import time
from importlib.util import find_spec

import jax.numpy as jnp
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from rich.console import Console
from rich.live import Live

import pymc_bpls as bpls
from pymc_bpls.compute import memory
from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.compute.store import Store
from pymc_bpls.text import progress as text_progress
from pymc_bpls.text.progress import progress, stage

N, LABELED = 3000, 20
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 2))
GROUP = rng.integers(0, 4, N)
Y = (X[:, 0] + rng.logistic(size=N) > 0).astype(int)
CANDIDATES = np.arange(100, 130)


def grouped(n_groups=4, n=N, labeled=LABELED, candidates=CANDIDATES):
    """Groups of free scale: three predictors a row; rows that are neither labeled nor candidates are held out."""
    g = np.random.default_rng(1).integers(0, n_groups, n)
    x = np.random.default_rng(2).normal(size=n)
    y = np.where(np.arange(n) < labeled, np.arange(n) % 2, -1)
    with pm.Model() as model:
        a, b, s = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2), pm.HalfNormal("s", 1)
        z = pm.Normal("z", 0, 1, shape=n_groups)
        pm.Bernoulli("label", logit_p=a + b * x + (s * z)[g], observed=y)
    return bpls.BPLS(model, unlabeled=candidates)


@pytest.fixture(scope="module")
def logistic():
    y = np.where(np.arange(N) < LABELED, Y, -1)
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=X @ pm.Normal("b", 0, 2, shape=2), observed=y)
    return bpls.BPLS(model, unlabeled=CANDIDATES)


def test_the_design_is_made_for_the_rows_in_use_and_is_that_of_the_model(logistic):
    logistic.score(progressbar=False, approximation="laplace")
    design = logistic.engine.affine_rows.design
    assert len(design.matrix) == LABELED + len(CANDIDATES)
    in_use = np.r_[0:LABELED, CANDIDATES]
    matrix, offset = design.take(in_use)
    np.testing.assert_allclose(matrix[:, 0], X[in_use], rtol=0, atol=1e-14)
    np.testing.assert_allclose(offset, 0, atol=1e-14)
    logistic.predict_proba([5, 2999])
    design.take(np.array([2999, 2999, 7]))
    assert len(design.matrix) == LABELED + len(CANDIDATES) + 1


@pytest.fixture(scope="module")
def curved():
    """Rows without a linear predictor, and so without a design."""
    with pm.Model() as model:
        b = pm.Normal("b", 1, 0.5, shape=2)
        pm.Bernoulli("label", logit_p=b[0] * b[1] * X[:, 0], observed=np.where(np.arange(N) < LABELED, Y, -1))
    return bpls.BPLS(model, unlabeled=CANDIDATES)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("curved", "The Hessian of 2 parameters"),
        ("logistic", "The design of 20 rows with 1 linear predictor in 2 parameters"),
    ],
)
def test_what_would_not_fit_is_refused_with_its_size(name, what, request, monkeypatch):
    held = request.getfixturevalue(name)
    monkeypatch.setattr(memory, "_SMALL", 0)
    monkeypatch.setattr(memory, "free_bytes", lambda: 10)
    engine = bpls.BPLS.__new__(bpls.BPLS)  # the same model, nothing of it being made yet
    engine.__dict__.update(held.__dict__)
    engine._scorer = held._scorer.with_memory(2**20)
    with pytest.raises(bpls.SizeError, match=what) as refused:
        engine.fit(progressbar=False)
    text = str(refused.value)
    assert "GiB" in text and "Take fewer parameters" in text and len(text) < 320 and text.count(". ") == 1


def test_a_candidate_whose_refit_would_not_fit_is_refused(logistic, monkeypatch):
    monkeypatch.setattr(memory, "_SMALL", 400)
    logistic.score(progressbar=False, approximation="laplace")
    monkeypatch.setattr(memory, "free_bytes", lambda: 401)
    with pytest.raises(bpls.SizeError, match=f"refit of a candidate with 2 parameters and {LABELED} rows of D"):
        logistic.score(progressbar=False, approximation="laplace")


@pytest.mark.slow
def test_forty_thousand_groups_are_fitted_without_a_matrix_over_them(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: 2 * memory.GIB)
    pls = grouped(40_000, 60_000, 1000, np.arange(1000, 6000))
    fit = pls.fit(progressbar=False)
    seen = set(np.random.default_rng(1).integers(0, 40_000, 60_000)[:1000].tolist())
    unseen = next(group for group in range(40_000) if group not in seen)
    assert fit.sd.sel(parameter=f"z[{unseen}]").item() == pytest.approx(1)
    assert fit.sd.sel(parameter=f"z[{min(seen)}]").item() < 1


def test_a_matrix_over_more_rows_than_fit_is_refused(monkeypatch):
    n = 24
    distance = np.abs(np.subtract.outer(np.linspace(0, 3, n), np.linspace(0, 3, n)))
    y = np.where(np.arange(n) < 16, np.arange(n) % 2, -1).astype(float)
    with pm.Model() as model:
        K = pt.exp(-distance / pm.LogNormal("length", 0, 0.5)) + 0.3 * pt.eye(n)
        pm.MvNormal("label", mu=0.5, cov=K, observed=y)
    pls = bpls.BPLS(model, classes=[0.0, 1.0])
    monkeypatch.setattr(memory, "_SMALL", 0)
    monkeypatch.setattr(memory, "free_bytes", lambda: 4 * 8 * 17**2 - 1)
    with pytest.raises(bpls.SizeError, match=r"A matrix over 16 rows of D, .* Label fewer rows"):
        pls.fit(progressbar=False)


def huge(structure, x):
    """Something huge."""
    return jnp.sum(jnp.sort(jnp.sin(jnp.arange(10**13, dtype=float) + x)))


class Alone:
    """A structure of nothing."""

    store, shared = Store(), ()

    def sharing(self, shared):
        return self


def test_what_jax_or_numpy_cannot_allocate_is_refused_in_words():
    with pytest.raises(bpls.SizeError, match='"Something huge" ran out of memory'):
        Compiler()(huge, Alone(), np.ones(1))
    words = r"Fit ran out of memory when it asked for [\d.]+ [TP]iB more\. Take fewer"
    with pytest.raises(bpls.SizeError, match=words), memory.refused_when_exhausted("Fit"):
        np.empty(10**15)
    with pytest.raises(ZeroDivisionError), memory.refused_when_exhausted("Fit"):
        1 / 0  # noqa: B018


def test_free_memory_heeds_limits_and_is_assumed_where_nothing_is_known(monkeypatch):
    assert 0 < memory.free_bytes() <= memory._machine()
    if memory.resource is not None:
        monkeypatch.setattr(memory.resource, "getrlimit", lambda which: (memory._held()[0] + 12345, -1))
        assert memory.free_bytes() <= 12345 + 2**26
    monkeypatch.setattr(memory, "resource", None)
    monkeypatch.setattr(memory, "_read", lambda path: ["4096"] if path == memory._CONTAINER[0] else [])
    assert memory.free_bytes() == 4096
    monkeypatch.setattr(memory, "_read", lambda path: [])
    monkeypatch.delattr(memory.os, "sysconf")
    assert memory.free_bytes() == memory._UNKNOWN


@pytest.fixture
def named(screen, monkeypatch):
    """The parts of the work that were named."""
    parts, name = [], text_progress._Display.name
    monkeypatch.setattr(text_progress._Display, "name", lambda self, part: (parts.append(part), name(self, part)))
    return parts


def test_a_line_says_what_is_going_on_and_how_much_is_done(screen):
    with progress("fit", True, 7) as tell, stage("refits", 10) as refits:
        tell(3)
        refits(4)
        time.sleep(0.4)
    assert "3/7 fit: refits, 4 of 10" in screen.getvalue()
    assert "s left" in screen.getvalue()


def test_a_file_is_told_now_and_then_how_long_work_of_minutes_takes(monkeypatch):
    clock, file = [1000.0], io.StringIO()
    monkeypatch.setattr(text_progress, "monotonic", lambda: clock[0])
    monkeypatch.setattr(text_progress, "make_console", lambda: Console(file=file))
    with progress("choosing", True, 20) as tell:
        for _ in range(20):
            clock[0] += 30
            tell(1)
    # at 30 s 19 parts of 30 s are left, then a line each minute while a minute or more is left
    left = {done: 30 * (20 - done) for done in range(1, 19, 2)}
    expected = [f"{done}/20 choosing, about {seconds / 60:.0f} min left" for done, seconds in left.items() if seconds >= 90]
    lines = file.getvalue().splitlines()
    assert lines[: len(expected)] == expected and lines[0] == "1/20 choosing, about 10 min left"
    with progress("a moment", True, 2) as tell:
        clock[0] += 30
        tell(1)
    assert "a moment" not in file.getvalue()


def test_nothing_is_shown_before_three_seconds_have_passed_nor_unasked_nor_to_a_file(screen, monkeypatch, capsys):
    with progress("fit", False), stage("refits"):
        time.sleep(0.2)
    assert screen.getvalue() == ""
    monkeypatch.setattr(text_progress, "DELAY", 3.0)
    with progress("fit", True), stage("refits"):
        time.sleep(0.2)
    assert screen.getvalue() == ""
    monkeypatch.setattr(text_progress, "DELAY", 0.0)
    assert text_progress.can_show(Console(force_jupyter=True)) == (find_spec("ipywidgets") is not None)
    monkeypatch.setattr(text_progress, "make_console", Console)
    with progress("fit", True), stage("refits"):
        time.sleep(0.2)
    assert capsys.readouterr().out == ""


def test_a_line_within_another_is_a_part_of_it_and_a_display_of_the_users_own_is_left_alone(screen, named):
    with progress("audit", True), progress("exact", True, 5) as tell, stage("sampling", 2) as sampled:
        sampled(1)
        tell(2)
    assert named == ["exact", "sampling", "sampling, 1 of 2", "exact, 2 of 5", "exact", "", ""]
    own = Console(file=io.StringIO(), force_terminal=True)
    with Live("mine", console=own), progress("fit", True):
        time.sleep(0.2)


def test_a_score_names_its_refits(logistic, named):
    logistic.score(approximation="laplace")
    assert f"refits, {len(CANDIDATES)} of {len(CANDIDATES)}" in named
    named.clear()
    logistic.score(progressbar=False, approximation="laplace")
    assert named == []


@pytest.mark.slow
def test_each_long_method_names_its_parts(named):
    pls = grouped()
    pls.fit()
    assert "the mode of D (20 rows)" in named and "looking for other modes, 6 of 6" in named
    assert any(part.startswith("compiling ") for part in named)
    named.clear()
    pls.score(approximation="laplace")
    assert "the mode that refits start from" in named and f"refits, {len(CANDIDATES)} of {len(CANDIDATES)}" in named
    named.clear()
    pls.audit(["ppp", "probability"], np.zeros(len(CANDIDATES)))
    assert "scores by ppp" in named and "scores by probability" in named
    named.clear()
    pls.fit(progressbar=False)
    pls.score(progressbar=False, approximation="laplace")
    assert named == []


@pytest.mark.slow
def test_nuts_is_told_in_the_same_line(named, capsys):
    pls = grouped()
    options = {"draws": 60, "tune": 60, "chains": 2, "cores": 1, "absolute": False, "random_seed": 0}
    with pytest.warns(bpls.BPLSWarning, match="not reliable"):
        pls.exact(**options)
    assert "sampling p(D | θ)² π(θ) by NUTS, 240 of 240" in named
    assert capsys.readouterr().out == ""


@pytest.mark.filterwarnings("ignore:.*does not allow us to add an extra error message:UserWarning")
def test_what_is_computed_from_data_alone_is_refused_where_it_does_not_fit():
    with pm.Model() as model:
        level = pt.eye(10**7)[:30, 0]  # 800 TB
        pm.Bernoulli("y", logit_p=pm.Normal("a", 0, 1) + level, observed=np.arange(30) % 3 - 1)
    with pytest.raises(
        bpls.SizeError, match=r"What the model computes from data alone ran out of memory when it asked for 728\. TiB"
    ):
        bpls.BPLS(model)
