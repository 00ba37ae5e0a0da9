"""The remainder's order: exact integrals against SciPy and plain grids, slopes of power laws, and the figure."""

import json

import numpy as np
import pytest
import scipy.integrate
import xarray as xr
from scipy.special import log_expit, log_softmax, logsumexp

from pymc_bpls.model.data.table import Labeled
from validation.remainder import measure as measurements
from validation.remainder.__main__ import REPORT, RESULTS
from validation.remainder.cases import SIZES, cases
from validation.remainder.figure import plot_remainder
from validation.remainder.measure import terms
from validation.remainder.quadrature import Hierarchy, Rows, Softmax, exact
from validation.remainder.report import report
from validation.remainder.slopes import slopes, to_dataset

QUANTITIES = ("dropped", "ppp_minus_exact", "ibpls_minus_exact")
ORDERS = xr.DataArray([-1.0, -2.0, -1.0], coords={"quantity": list(QUANTITIES)})


def rows(n, seed, n_classes=2, n_groups=1):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    return Rows(X, rng.integers(n_classes, size=n), np.arange(n) % n_groups)


def centred(values):
    return values - values.mean()


def test_logistic_quadrature_agrees_with_nquad():
    """One candidate's log PPP relative to another's, with each integrand written out in full."""
    labeled, pool = rows(14, 0), rows(2, 1)
    signs = 2 * labeled.codes - 1

    def integral(row):
        def integrand(a, b):
            log_p = 2 * log_expit(signs * (a + b * labeled.X[:, 1])).sum() - 0.5 * (a**2 + b**2) / 1.5**2
            return np.exp(log_p + log_expit((2 * pool.codes[row] - 1) * (a + b * pool.X[row, 1])) + 16)

        return scipy.integrate.nquad(integrand, [(-8, 8)] * 2, opts={"epsabs": 0, "epsrel": 1e-7})[0]

    found = Softmax(2, 1.5, ()).with_nodes(labeled, pool, 50)
    assert found[0] - found[1] == pytest.approx(np.log(integral(0) / integral(1)), abs=1e-7)


def test_softmax_quadrature_agrees_with_a_plain_grid():
    """Four parameters, three classes, on a grid of equal steps along the parameters themselves."""
    labeled, pool = rows(10, 2, 3), rows(3, 3, 3)
    model = Softmax(3, 1.0, (10, 14, 20))
    mode, hessian = model.mode(labeled)
    reach = 7 * np.sqrt(np.diag(np.linalg.inv(hessian)))
    first, *others = (np.linspace(-1, 1, 23) * reach[k] + mode[k] for k in range(4))

    def log_p(theta, some):
        logits = np.concatenate([np.zeros((len(theta), 1, len(some.X))), theta.reshape(-1, 2, 2) @ some.X.T], axis=1)
        return log_softmax(logits, axis=1)[:, some.codes, np.arange(len(some.X))]

    slabs = []
    for value in first:
        theta = np.stack([part.ravel() for part in np.meshgrid([value], *others)], axis=1)
        log_density = 2 * log_p(theta, labeled).sum(axis=1) - 0.5 * (theta**2).sum(axis=1)
        slabs.append(logsumexp(log_density[:, None] + log_p(theta, pool), axis=0))
    found = exact(model, labeled, pool, lambda value: 1e-7)
    assert found.change < 1e-5
    assert centred(found.log_ppp) == pytest.approx(centred(logsumexp(slabs, axis=0)), abs=1e-6)


@pytest.mark.parametrize("spread", [None, 0.7])
def test_nested_quadrature_agrees_with_a_plain_grid(spread):
    """Slope, log spread with its Jacobian, and both groups' z on one grid of equal steps."""
    labeled, pool = rows(8, 4, n_groups=2), rows(3, 5, n_groups=2)
    labeled, pool = (some._replace(X=some.X[:, 1:]) for some in (labeled, pool))
    slope, z = np.linspace(-6, 6, 41), np.linspace(-6, 6, 41)
    log_spread = np.linspace(-14, 2, 49) if spread is None else np.array([np.log(spread)])
    b, t, z0, z1 = np.meshgrid(slope, log_spread, z, z, indexing="ij", sparse=True)

    def log_lik(some, row):
        effect = np.exp(t) * (z0, z1)[some.groups[row]]
        return log_expit((2 * some.codes[row] - 1) * (effect + b * some.X[row, 0]))

    log_prior = -0.5 * (b**2 / 1.5**2 + z0**2 + z1**2) + (t - 0.5 * np.exp(2 * t) if spread is None else 0.0)
    density = log_prior + 2 * sum(log_lik(labeled, row) for row in range(len(labeled.codes)))
    plain = np.array([logsumexp(density + log_lik(pool, row)) for row in range(len(pool.codes))])
    found = Hierarchy(2, 1.5, (), spread).with_nodes(labeled, pool, 22)
    assert centred(found) == pytest.approx(centred(plain), abs=1e-6)


def test_more_nodes_are_taken_until_the_change_is_tolerated():
    """A loose tolerance ends early, a strict one goes on to the last number of nodes."""
    labeled, pool = rows(15, 6), rows(6, 7)
    model = Softmax(2, 2.5, (8, 12, 18, 27, 40))
    loose, strict = (exact(model, labeled, pool, lambda value, at=at: at) for at in (1e-3, 0.0))
    assert loose.nodes < strict.nodes == 40
    assert loose.change < 1e-3
    assert np.std(loose.log_ppp - strict.log_ppp) < loose.change


def power_laws(n, replicates=4, noise=0.0):
    """Exact power laws, their levels differing between replicates, and slopes noisy by `noise`."""
    rng = np.random.default_rng(0)
    levels = xr.DataArray(np.exp(rng.normal(size=replicates)), dims="replicate")
    orders = ORDERS + noise * xr.DataArray(rng.normal(size=replicates), dims="replicate")
    return levels * xr.DataArray(n, coords={"n": n}, dims="n").astype(float) ** orders


def test_slopes_of_power_laws():
    """Exact laws have no error; missing n are left out; replicates with fewer than three do not count."""
    n = 25 * 2 ** np.arange(5)
    spread = power_laws(n)
    slope, error = slopes(spread)
    assert slope.to_numpy() == pytest.approx(ORDERS.to_numpy())
    assert error.to_numpy() == pytest.approx(np.zeros(3), abs=1e-12)
    some = spread.where((spread["n"] > 25) | (spread["replicate"] > 0))
    assert slopes(some)[0].to_numpy() == pytest.approx(ORDERS.to_numpy())
    assert np.isnan(slopes(spread.where(spread["n"] < 100))[0]).all()


def test_errors_of_slopes_are_those_of_the_mean():
    """The standard error over replicates of slopes that differ."""
    slope, error = slopes(power_laws(25 * 2 ** np.arange(4), 50, noise=0.1))
    deviates = np.random.default_rng(0).normal(size=100)[50:]
    assert slope.sel(quantity="dropped").item() == pytest.approx(-1 + 0.1 * deviates.mean())
    assert error.to_numpy() == pytest.approx(0.1 * deviates.std(ddof=1) / np.sqrt(50))


def test_criteria_are_those_of_a_score(small, table):
    """Refits by the engine, with the pseudo-labels of a score, at the MAP."""
    scores = {name: small.score(name, approximation="laplace") for name in ("ppp", "ibpls")}
    candidates, codes = (scores["ppp"][name].to_numpy() for name in ("candidate", "pseudo_label"))
    found = terms(small.engine, Labeled(np.arange(12), table[2][:12], np.ones(12)), candidates, codes, "map")
    for name, score in scores.items():
        np.testing.assert_allclose(getattr(found, name), score["score"], rtol=1e-12)


@pytest.mark.slow
def test_what_is_stored_is_found_again(monkeypatch):
    """The first data set of the logistic model, at its smallest n, to the digits that are stored."""
    monkeypatch.setattr(measurements, "SIZES", SIZES[[0, -1]])
    case = cases()[0]
    rows = case.rows()
    found = measurements.measure(case, case.engine(rows), rows, 0)
    stored = json.loads(RESULTS.read_text())[f"{case.name} 0"]
    for expansion in ("map", "mle"):
        for quantity, spread in found[expansion].items():
            assert spread[25] == pytest.approx(stored[expansion][quantity]["25"], rel=1e-4)
    assert len(found["map"]) == len(stored["map"]) == 6


def test_the_report_is_that_of_the_stored_results():
    stored = json.loads(RESULTS.read_text())
    records = {key: record for key, record in stored.items() if key != "check"}
    assert report(to_dataset(records), records, stored["check"]) == REPORT.read_text()


@pytest.fixture(scope="module")
def data():
    """Two models; the second has no MLE."""
    n = 25 * 2 ** np.arange(4)
    measured = xr.DataArray(
        [[1.0, 2.0], [1.0, np.nan]], coords={"model": ["logistic", "hierarchy"], "expansion": ["map", "mle"]}
    )
    spread = measured * power_laws(n)
    slope, error = slopes(spread)
    return xr.Dataset({"spread": spread, "slope": slope, "slope_error": error})


def test_the_figure_has_a_line_for_each_series(data):
    """Log axes, labels, a line a series and two of reference, slopes in the legend."""
    panels = plot_remainder(data)
    assert [panel.get_title() for panel in panels] == ["logistic", "hierarchy"]
    for panel, series in zip(panels, (6, 3), strict=True):
        assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
        assert panel.get_xlabel() and panel.get_ylabel()
        assert len(panel.lines) == series + 2
        texts = [text.get_text() for text in panel.get_legend().get_texts()]
        assert "ppp − exact −2.00 ± 0.00" in texts
        assert len(texts) == series + series // 3
    panels[0].figure.draw_without_rendering()


def test_lines_are_geometric_means(data):
    """The first line of the first panel."""
    line = plot_remainder(data)[0].lines[0]
    expected = np.exp(np.log(data["spread"].sel(model="logistic", expansion="map", quantity="dropped")).mean("replicate"))
    assert line.get_ydata() == pytest.approx(expected.to_numpy())


def test_legends_are_inside_the_figure_and_apart(data):
    """Nothing is clipped: each legend lies in the figure, below its panel."""
    panels = plot_remainder(data)
    figure = panels[0].figure
    figure.draw_without_rendering()
    frames = [panel.get_legend().get_window_extent() for panel in panels]
    assert all(figure.bbox.x0 <= frame.x0 and frame.x1 <= figure.bbox.x1 and frame.y0 >= figure.bbox.y0 for frame in frames)
    assert frames[0].x1 <= frames[1].x0
