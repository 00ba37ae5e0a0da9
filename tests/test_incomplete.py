"""Results that lost a part, of their file or by hand: every door that takes them says the same sentence."""

import numpy as np
import pytest
import xarray as xr
from refusing import refused

import pymc_bpls as bpls
from pymc_bpls.selftraining.saved_run import REPLICATES
from pymc_bpls.trained.result import group

QUIET = {"progressbar": False}


@pytest.fixture(scope="module")
def run(small):
    return small.self_train("probability", rounds=2, **QUIET)


def without(tree, lost):
    """The tree without a group, a variable of a group, an attribute, or all of them."""
    groups = {node.path: node.to_dataset(inherit=False) for node in tree.subtree}
    if lost.startswith("/"):
        group, _, name = lost.partition(":")
        groups[group] = groups[group].drop_vars(name) if name else xr.Dataset()
        if not name:
            del groups[group]
    else:
        groups["/"].attrs = {name: value for name, value in groups["/"].attrs.items() if lost not in ("attrs", name)}
    return xr.DataTree.from_dict(groups)


LOST_BY_ALL = ["/labeled", "/labeled:label", "/unconstrained", "/history", "/history:gap", "/curve", "attrs", "criterion"]


@pytest.mark.parametrize("lost", LOST_BY_ALL)
def test_a_run_that_lost_a_part_is_named_by_every_door(small, run, lost):
    part = without(run, lost)
    doors = [
        bpls.summary,
        bpls.plot_self_training,
        lambda run: small.resume(run, rounds=1, **QUIET),
        lambda run: small.predict_proba([1], result=run),
        lambda run: small.labels(run),
        lambda run: small.sample(run, method="gaussian", **QUIET),
        lambda run: small.audit_along(run, **QUIET),
        lambda run: bpls.plot_decision(small, np.arange(26.0), np.arange(26.0), run=run),
    ]
    for door in doors:
        refused(bpls.CriterionError, lambda door=door: door(part), "run= is not as self_train left it")


def test_a_run_without_a_verdict_is_gone_on_with_and_not_summarised(small, run):
    part = without(run, "verdict")
    assert small.resume(part, rounds=1, **QUIET).attrs["verdict"]
    for door in (bpls.summary, bpls.plot_self_training):
        refused(bpls.CriterionError, lambda door=door: door(part), "run= is not as self_train left it (KeyError: verdict)")


def test_replicates_of_which_one_is_lost_are_not_taken_for_fewer(small):
    whole = small.self_train(labels="sampled", replicates=3, rounds=1, random_seed=0, **QUIET)
    lost = f"/{REPLICATES}/2"
    part = xr.DataTree.from_dict(
        {node.path: node.to_dataset(inherit=False) for node in whole.subtree if not node.path.startswith(lost)}
    )
    doors = [bpls.summary, lambda run: small.predict_proba([1], result=run), lambda run: small.resume(run, rounds=1, **QUIET)]
    for door in doors:
        refused(bpls.CriterionError, lambda door=door: door(part), "run= is not as self_train left it")


def test_scores_and_exact_values_that_lost_a_part_are_named(small):
    scores, exact = small.score("probability"), small.exact(method="psis", random_seed=0, **QUIET)
    refused(bpls.CriterionError, lambda: bpls.summary(scores.drop_attrs()), "result= is not as score left it")
    bare = without(exact, "attrs")
    refused(bpls.CriterionError, lambda: bpls.summary(bare), "result= is not as exact left it")
    unsure = without(exact, "reasons")
    refused(bpls.CriterionError, lambda: small.audit(["ppp"], unsure, **QUIET), "exact= is not as exact left it")


def test_a_sample_that_lost_a_variable_is_named(small):
    sample = small.sample(method="gaussian", draws=4, chains=2, random_seed=0, **QUIET)
    draws, rows = (group(sample, name) for name in ("unconstrained_posterior", "labeled"))
    part = xr.DataTree.from_dict({"unconstrained_posterior": draws, "labeled": rows.drop_vars("weight")})
    refused(bpls.CriterionError, lambda: small.predict_proba([1], result=part), "result= is not as sample left it")
