"""Proposals from sparse factors against those of dense matrices, and importance sampling from them."""

from dataclasses import replace

import numpy as np
import pytest
import zoo
from scipy.stats import multivariate_t
from test_sparse import many_groups

import pymc_bpls as bpls
from pymc_bpls.approximations.gaussians.mixture import Mixture
from pymc_bpls.approximations.hierarchies.scales import fit
from pymc_bpls.engine.sparse.curvature import SparseCurvature
from pymc_bpls.montecarlo.bridge import Proposal
from pymc_bpls.montecarlo.psis import importance_draws
from pymc_bpls.montecarlo.references import importance_samples, proposals
from pymc_bpls.montecarlo.sparse_proposals import local_gaussian, proposal_around

COUNT = 40_000


def sparse_engine(pls):
    return replace(pls.engine, sparse=True)


@pytest.fixture(scope="module")
def hierarchy():
    kind = zoo.ACCEPTED["hierarchical_non_centered"]
    return bpls.BPLS(kind.table(), **kind.options)


def test_around_laplace_it_is_the_law_of_the_dense_matrix(hierarchy):
    mode = sparse_engine(hierarchy).fit(hierarchy.labeled, k=2)
    proposal, covariance = proposal_around(local_gaussian(mode)), np.linalg.inv(mode.hessian)
    dense = Proposal(mode.theta, covariance)
    draws = proposal.draws((1, COUNT), np.random.default_rng(0))[0]
    np.testing.assert_allclose(proposal.log_density(draws), dense.log_density(draws), rtol=0, atol=1e-8)
    np.testing.assert_allclose(proposal.sd, dense.sd, rtol=1e-10)
    degrees = max(8, 2 * len(mode.theta))
    whitened = np.linalg.solve(np.linalg.cholesky(covariance * degrees / (degrees - 2)), (draws - mode.theta).T)
    np.testing.assert_allclose(whitened.mean(axis=1), 0, atol=5 / np.sqrt(COUNT))
    np.testing.assert_allclose(np.cov(whitened), np.eye(len(whitened)), atol=0.04)


def test_around_a_mixture_it_is_the_law_of_dense_matrices(hierarchy):
    engine = sparse_engine(hierarchy)
    q = fit(engine, hierarchy.labeled, 2, None, None)
    proposal, (outer, inner) = proposal_around(q), (q.hierarchy.outer, q.hierarchy.inner)
    shares, degrees = np.exp(q.log_shares), 2 * len(inner)
    draws = proposal.draws((1, COUNT), np.random.default_rng(1))[0]
    psi, x = draws[:, outer], draws[:, inner]
    moments = np.average(q.psi, axis=0, weights=shares), np.cov(q.psi.T, aweights=shares, ddof=0)
    of_psi = multivariate_t(*moments, df=8)
    np.testing.assert_allclose(np.cov(psi.T), moments[1] * 8 / 6, rtol=0.1)
    weights = np.exp(proposal.log_weights(psi))
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)
    some = slice(0, 200)
    of_x = [multivariate_t(part.mean, np.linalg.inv(part.precision.matrix), df=degrees).pdf(x[some]) for part in q.parts]
    expected = of_psi.logpdf(psi[some]) + np.log((weights[some] * np.transpose(of_x)).sum(axis=1))
    np.testing.assert_allclose(proposal.log_density(draws[some]), expected, rtol=0, atol=1e-8)
    left = x - weights @ np.stack([part.mean for part in q.parts])
    np.testing.assert_allclose(left.mean(axis=0) / left.std(axis=0), 0, atol=5 / np.sqrt(COUNT))


@pytest.mark.slow
def test_constants_are_those_of_dense_proposals():
    pls, rng = many_groups(30), np.random.default_rng(0)
    dense, sparse = (replace(pls.engine, sparse=flag) for flag in (False, True))
    [expected] = importance_samples(dense, pls.labeled, [1], 8000, rng, proposals)
    [by_groups] = importance_samples(sparse, pls.labeled, [1], 8000, rng, proposals)
    of_all = importance_draws(sparse, pls.labeled, 1, proposals(sparse, pls.labeled, 1), 8000, rng)
    assert expected.proposal == of_all.name == "ep"
    assert by_groups.proposal == "ep, effects of groups from their conditional densities"
    for found in (by_groups, of_all):
        assert found.draws.pareto_k < 0.7
        assert abs(found.log_z.value - expected.log_z.value) < 4 * np.hypot(found.log_z.error, expected.log_z.error)


@pytest.mark.slow
def test_an_audit_of_many_groups_forms_no_matrix_over_them(monkeypatch):
    def refuse(self):
        raise AssertionError("a matrix over all parameters")

    pls = many_groups(400)
    monkeypatch.setattr(SparseCurvature, "matrix", property(refuse))
    monkeypatch.setattr(Mixture, "in_theta", property(refuse))
    audit = pls.audit(["ppp", "ppp[ep]"], method="psis", random_seed=0)
    assert audit.candidates.sizes["candidate"] == 100
    assert audit.reliable
    by_refits, by_ep = audit.agreement["tau"].sel(criterion=["ppp", "ppp[ep]"]).values
    assert by_ep > 0.95
    assert by_ep > by_refits
