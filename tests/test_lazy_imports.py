"""What a worker needs of the package is imported without PyMC."""

import subprocess
import sys

import pymc_bpls as bpls

SCRIPT = """
import sys
import pymc_bpls
import pymc_bpls.approximations.predictions.predictive
import pymc_bpls.scoring.criteria
import pymc_bpls.lazy.part_scorer
import pymc_bpls.lazy.part_sums
import pymc_bpls.pool.scores
print(sorted({"pymc", "pytensor", "arviz", "matplotlib"} & set(sys.modules)))
"""


def test_rows_are_scored_without_pymc():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_public_name_is_found():
    assert set(bpls.__all__) == set(bpls._MODULES)
    assert all(getattr(bpls, name).__name__ for name in bpls.__all__)
