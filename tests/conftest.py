"""Models that are built and compiled once a session."""

import io
from functools import cache

import jax
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import reference
from hypothesis import settings
from rich.console import Console

import pymc_bpls as bpls
from pymc_bpls.text import progress as text_progress

#: Scripts that make values of packages that are no dependencies.
collect_ignore = ["data/marginal_by_pymc_extras.py", "data/conformal_selection.py"]

settings.register_profile("suite", deadline=None, derandomize=True, database=None)
settings.load_profile("suite")


@pytest.fixture(scope="session", autouse=True)
def _what_other_workers_compiled(tmp_path_factory, worker_id):
    """JAX's persistent cache in a folder of the session, which workers share, or in the one that the environment names."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "compiled"
    jax.config.update("jax_compilation_cache_dir", jax.config.jax_compilation_cache_dir or str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@pytest.fixture
def nothing_remembered(monkeypatch):
    """Models fit anew at every call: for tests that change how, on models that are shared."""
    monkeypatch.setattr("pymc_bpls.scoring.remembered.Remembered.of", lambda *_: None)


@pytest.fixture
def screen(monkeypatch):
    """What a terminal would show, without the wait of three seconds."""
    shown = io.StringIO()
    monkeypatch.setattr(text_progress, "make_console", lambda: Console(file=shown, force_terminal=True, width=120))
    monkeypatch.setattr(text_progress, "DELAY", 0.0)
    return shown


@pytest.fixture
def no_style_is_changed():
    """Figures are closed after a test, and global settings are what they were."""
    before = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == before


@cache
def _split(name):
    return reference.read(name)


@cache
def _pls(name, flat):
    split = _split(name)
    return bpls.BPLS(reference.logistic(split.X, split.y, flat=flat), unlabeled=split.pool, predictor="map")


@pytest.fixture(scope="session", params=reference.NAMES)
def split(request):
    """Each reference split in turn."""
    return _split(request.param)


@pytest.fixture(scope="session")
def flat(split):
    """The split under a flat prior."""
    return _pls(split.name, True)


@pytest.fixture(scope="session")
def informed(split):
    """The split under Normal(0, 2.5)."""
    return _pls(split.name, False)


@pytest.fixture(scope="session", params=("sim1_q2", "banknote_q3"))
def few(request):
    """Splits with q ≤ 3, under Normal(0, 2.5)."""
    return _split(request.param), _pls(request.param, False)


@pytest.fixture(scope="session")
def sim1():
    """The smallest reference split: one feature, q = 2."""
    return _split("sim1_q2")


@pytest.fixture(scope="session")
def sim1_flat():
    """The smallest reference split under a flat prior."""
    return _pls("sim1_q2", True)


@pytest.fixture(scope="session")
def sim1_informed():
    """The smallest reference split under Normal(0, 2.5)."""
    return _pls("sim1_q2", False)


@pytest.fixture(scope="session")
def table():
    """A small table that is not separated: X (26, 2), y with 12 labeled rows, 8 candidates, 6 test rows; the truth."""
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(26), rng.normal(size=26)])
    truth = (X[:, 1] + rng.logistic(size=26) > 0).astype(int)
    y = np.where(np.arange(26) < 12, truth, -1)
    return X, y, truth


@pytest.fixture(scope="session")
def small(table):
    """The small table under Normal(0, 2.5); its last 6 rows are candidates too, unless a test holds them out."""
    X, y, _ = table
    return bpls.BPLS(reference.logistic(X, y))


@pytest.fixture(scope="session")
def at_mode(small):
    """The same, which predicts at the mode, as the paper does."""
    return bpls.BPLS(small.problem.model, predictor="map")


@pytest.fixture(scope="session")
def test_rows(table):
    """The last 6 rows of the small table with their labels, as `test=` takes them."""
    rows = np.arange(20, 26)
    return rows, table[2][rows]


@pytest.fixture(scope="session")
def whole(at_mode, test_rows):
    """The small table's run by probability at the mode until the pool is empty."""
    return at_mode.self_train("probability", test=test_rows, progressbar=False)
