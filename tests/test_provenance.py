"""How a result was made is kept in it, in memory and in a file: versions, seed and sampler."""

import json
from importlib.metadata import version
from platform import python_version

import numpy as np
import pytest
import xarray as xr

import pymc_bpls as bpls

QUIET = {"progressbar": False}
PSIS = {"method": "psis", "draws": 200, "chains": 2}


def attrs_of(result, tmp_path):
    """Its attrs, as a file brings them back."""
    tree = result if isinstance(result, xr.DataTree) else xr.DataTree(result)
    bpls.save(tree, tmp_path / "result.nc")
    with xr.open_datatree(tmp_path / "result.nc", engine="h5netcdf") as read:
        return read.load().attrs


@pytest.mark.parametrize(
    ("make", "sampler"),
    [
        (lambda pls: pls.score("probability", random_seed=3), None),
        (lambda pls: pls.self_train("probability", rounds=1, random_seed=3, **QUIET), None),
        (lambda pls: pls.self_train(labels="sampled", replicates=2, rounds=1, random_seed=3, **QUIET), None),
        (lambda pls: pls.exact(**PSIS, random_seed=3, **QUIET), "method=psis, draws=200, tune=1000, chains=2"),
        (lambda pls: pls.audit(["ppp"], **PSIS, random_seed=3, **QUIET).tree, "method=psis, draws=200, chains=2"),
        (lambda pls: pls.audit(["ppp"], np.zeros(14), random_seed=3).tree, "values given by the user"),
        (lambda pls: pls.accept(0.2, random_seed=3, **QUIET), None),
        (lambda pls: pls.choose({"p": bpls.Train("probability", rounds=1)}, repeats=1, random_seed=3, **QUIET).losses, None),
        (lambda pls: bpls.compare(pls, ["probability"], 2, rounds=1, random_seed=3, **QUIET), None),
    ],
    ids=["score", "run", "replicates", "exact", "audit", "audit of given values", "accept", "choose", "compare"],
)
def test_every_result_says_its_versions_seed_and_sampler(small, tmp_path, make, sampler):
    attrs = attrs_of(make(small), tmp_path)
    said = dict(part.split(" ") for part in attrs["versions"].split(", "))
    assert said["python"] == python_version() and said["pymc"] == version("pymc") and said["jax"] == version("jax")
    assert attrs["random_seed"] == 3 and attrs.get("sampler") == sampler


def test_an_audit_of_exact_values_says_what_sampled_them(small):
    exact = small.exact(**PSIS, random_seed=1, **QUIET)
    assert small.audit(["ppp"], exact, **QUIET).tree.attrs["sampler"] == exact.attrs["sampler"]


def test_a_sample_says_its_sampler(small):
    posterior = small.sample(method="gaussian", draws=5, chains=2, random_seed=3, **QUIET)["posterior"]
    assert posterior.attrs["sampler"] == "method=gaussian, draws=5, tune=1000, chains=2"
    assert posterior.attrs["random_seed"] == 3 and "pymc " in posterior.attrs["versions"]


def test_a_run_that_goes_on_keeps_the_seed_that_it_began_with(small):
    run = small.self_train("probability", rounds=1, random_seed=3, **QUIET)
    run.attrs["versions"] = "python 3.0"
    again = small.resume(run, rounds=1, **QUIET)
    assert again.attrs["random_seed"] == 3 and again.attrs["versions"].startswith(f"python {python_version()}")
    assert small.resume(run, rounds=1, random_seed=4, **QUIET).attrs["random_seed"] == 4


def test_the_state_of_a_generator_makes_the_result_again(small):
    rng = np.random.default_rng(5)
    rng.random(7)
    scores = small.score("random", random_seed=rng)
    other = np.random.default_rng(0)
    other.bit_generator.state = json.loads(scores.attrs["random_seed"])
    np.testing.assert_array_equal(small.score("random", random_seed=other)["score"], scores["score"])
    assert small.score("probability").attrs["random_seed"] == "none"


def test_versions_are_printed_as_the_installer_knows_them(capsys):
    bpls.show_versions()
    said = dict(map(str.strip, line.split(":", 1)) for line in capsys.readouterr().out.splitlines())
    assert said["python"] == python_version() and said["numpy"] == np.__version__ == version("numpy")
    assert {"platform", "pymc-bpls", "pymc", "pytensor", "jax", "scipy", "xarray", "arviz", "bambi", "zarr"} <= set(said)
    assert said["blackjax"] == "not installed" or said["blackjax"][0].isdigit()
