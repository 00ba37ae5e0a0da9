"""What users will throw at it: each refusal names the variable, what is wrong and the fix, in two short sentences."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from pytensor.graph.op import Op

import pymc_bpls as bpls
from pymc_bpls import BPLSError, BPLSWarning, CriterionError, LabelError, ModeError, ModelError, RowError, encode_labels

N, N_LABELED = 24, 16
COLUMNS = ["age", "dose"]


def table(seed=0):
    """X (24, 2) and labels, the last 8 unlabeled."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 2))
    y = (X[:, 0] + rng.logistic(size=N) > 0).astype(int)
    return X, np.where(np.arange(N) < N_LABELED, y, -1)


def logistic(X, y, **options):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=np.shape(X)[1])
        pm.Bernoulli("label", logit_p=X @ beta, observed=y, **options)
    return model


def flat_logistic(X, y):
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=np.shape(X)[1])
        pm.Bernoulli("label", logit_p=X @ beta, observed=y)
    return model


def softmax(y, prior=pm.Normal, **options):
    X, _ = table()
    with pm.Model() as model:
        beta = prior("beta", shape=(2, 3), **options)
        pm.Categorical("label", logit_p=X @ beta, observed=y)
    return model


def separated():
    """One column that separates the labeled rows, one that does not matter."""
    X, y = table()
    return X, np.where(y < 0, -1, (X[:, 0] > 0).astype(int))


def in_containers(X, y, n=N_LABELED):
    """A model declared on `n` rows, whose rows are in the container "X" with named columns."""
    with pm.Model(coords={"column": COLUMNS, "row": np.arange(n)}) as model:
        data = pm.Data("X", X[:n], dims=("row", "column"))
        beta = pm.Normal("beta", 0, 2, dims="column")
        pm.Bernoulli("label", logit_p=data @ beta, observed=y[:n], dims="row")
    return model


def refused(error, action, *words):
    """The action is refused in two short sentences that hold the words."""
    with pytest.raises(error) as caught:
        action()
    message = str(caught.value)
    assert isinstance(caught.value, BPLSError)
    assert len(re.findall(r"\.(?=\s|$)", message)) == 2, message
    assert len(message) < 320, message
    assert message.endswith("."), message
    for word in words:
        assert word in message, message
    assert "nan" not in re.findall(r"\w+", message), message


# 1: data of labeled rows only


def test_a_pool_for_a_baked_in_table_names_the_constants():
    X, y = table()
    with pm.Model() as model:
        z = pm.Data("z", X[:N_LABELED, 0])
        alpha, beta = pm.Normal("alpha"), pm.Normal("beta")
        pm.Bernoulli("label", logit_p=alpha * X[:N_LABELED, 1] + beta * z, observed=y[:N_LABELED])
    refused(RowError, lambda: bpls.BPLS(model, pool={"z": X[N_LABELED:, 0]}), "constants", "16 declared rows", "pm.Data")


def test_a_pool_for_a_container_that_the_likelihood_does_not_use_is_refused():
    X, y = table()
    with pm.Model() as model:
        pm.Data("unused", X[:N_LABELED, 0])
        alpha = pm.Normal("alpha", shape=2)
        pm.Bernoulli("label", logit_p=pm.Data("X", X[:N_LABELED]) @ alpha, observed=y[:N_LABELED])
    pool = {"X": X[N_LABELED:], "unused": X[N_LABELED:, 0]}
    refused(RowError, lambda: bpls.BPLS(model, pool=pool), '"unused"', "leave it out of pool=")


def test_a_pool_without_one_of_the_row_containers_is_refused():
    X, y = table()
    with pm.Model() as model:
        alpha, beta = pm.Normal("alpha"), pm.Normal("beta")
        a, b = pm.Data("a", X[:N_LABELED, 0]), pm.Data("b", X[:N_LABELED, 1])
        pm.Bernoulli("label", logit_p=alpha * a + beta * b, observed=y[:N_LABELED])
    refused(RowError, lambda: bpls.BPLS(model, pool={"a": X[N_LABELED:, 0]}), '"b"', "16 declared rows")


# 2: labels


def test_labels_1_to_k_are_refused_with_their_number():
    y = np.where(np.arange(N) < N_LABELED, np.arange(N) % 3 + 1, -1)
    refused(LabelError, lambda: bpls.BPLS(softmax(y)), '"label"', "5 labels", "[0, 1, 2]", "3 in row 2", "encode_labels")


def test_labels_minus_1_and_plus_1_are_refused_where_the_unlabeled_rows_are_given():
    X, y = table()
    signs = np.where(y > 0, 1, -1)
    with pytest.warns(BPLSWarning, match='"label" has no labeled row of class 0'):
        bpls.BPLS(logistic(X, signs))
    refused(LabelError, lambda: encode_labels(np.where(y < 0, 0, signs)), "-1 and 0", "None or NaN")


def test_labels_minus_1_and_plus_1_are_encoded_with_none_as_unlabeled():
    codes, classes, unlabeled = encode_labels([-1, 1, None, -1])
    assert codes.tolist() == [0, 1, -1, 0]
    assert classes.tolist() == [-1, 1]
    assert unlabeled.tolist() == [False, False, True, False]


def test_a_negative_label_that_is_not_the_sentinel_is_refused():
    X, y = table()
    y[3] = -2
    refused(LabelError, lambda: bpls.BPLS(logistic(X, y)), '"label"', "1 labels", "-2 in row 3", "with -1")


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes", None, "no"],
        pd.Series(["no", "yes", pd.NA, "no"], dtype="string"),
        pd.Categorical(["no", "yes", None, "no"]),
        pd.Series(["no", "yes", np.nan, "no"], dtype="category"),
        np.array(["no", "yes", None, "no"], dtype=object),
    ],
    ids=["list", "string", "Categorical", "category", "object"],
)
def test_string_labels_become_codes_and_come_back_as_classes(labels):
    codes, classes, unlabeled = encode_labels(labels)
    assert codes.tolist() == [0, 1, -1, 0]
    assert classes.tolist() == ["no", "yes"]
    assert unlabeled.tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series([False, True, pd.NA, False], dtype="boolean"),
        [False, True, None, False],
        pd.Series([0, 1, pd.NA, 0], dtype="Int64"),
        [0.0, 1.0, np.nan, 0.0],
        np.ma.masked_array([0, 1, 7, 0], mask=[0, 0, 1, 0]),
    ],
    ids=["nullable boolean", "bool", "nullable integer", "float", "masked"],
)
def test_missing_values_of_each_kind_are_unlabeled(labels):
    codes, classes, _ = encode_labels(labels)
    assert codes.tolist() == [0, 1, -1, 0]
    assert classes.tolist() == [0, 1]


def test_encoded_classes_are_the_pseudo_labels_of_the_result():
    X, y = table()
    codes, classes, unlabeled = encode_labels([None if label < 0 else ["ill", "well"][label] for label in y])
    pls = bpls.BPLS(logistic(X, codes), classes=classes)
    assert set(pls.score()["pseudo_label"].to_numpy()) <= {"ill", "well"}
    assert pls.score().sizes["candidate"] == unlabeled.sum()


def test_classes_of_another_number_are_refused():
    X, y = table()
    refused(LabelError, lambda: bpls.BPLS(logistic(X, y), classes=["a", "b", "c"]), '"label"', "3 entries", "2 classes")


def test_no_labeled_row_at_all_is_refused():
    X, y = table()
    refused(LabelError, lambda: bpls.BPLS(logistic(X, np.full_like(y, -1))), '"label"', "no labeled row")


# 3: soft labels


def test_soft_labels_are_refused_by_encode_labels():
    refused(LabelError, lambda: encode_labels([0.9, 0.1, None, 1.0]), "2 labels", "0.9", "one class")


def test_soft_labels_in_a_container_are_refused():
    X, y = table()
    soft = y.astype(float)
    soft[2:4] = 0.9
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=pm.Data("y", soft))
    refused(LabelError, lambda: bpls.BPLS(model), '"label"', "2 labels", "0.9 in row 2")


def test_whole_floats_in_a_container_are_labels():
    X, y = table()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=pm.Data("y", y.astype(float)))
    np.testing.assert_allclose(bpls.BPLS(model).score()["score"], bpls.BPLS(logistic(X, y)).score()["score"])


# 4: a class without a labeled row


def test_a_class_without_a_labeled_row_is_warned_of_and_never_predicted_but_scored():
    y = np.where(np.arange(N) < N_LABELED, np.arange(N) % 2, -1)
    with pytest.warns(BPLSWarning, match=r'"label" has no labeled row of class 2\.'):
        pls = bpls.BPLS(softmax(y, mu=np.array([0.0, 0.0, 5.0]), sigma=1))
    assert set(pls.score()["pseudo_label"].to_numpy()) <= {0, 1}
    everything = pls.score(labels="all")
    assert everything["label"].to_numpy().tolist() == [0, 1, 2]
    assert np.isfinite(everything["score"]).all()


# 5: a centered hierarchy


@pytest.mark.parametrize("method", ["fit", "predict_proba"])
def test_a_centered_hierarchy_ends_in_an_error_that_names_the_scale(method):
    _, y = table()
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1)
        group = pm.Normal("group", 0, tau, shape=4)
        pm.Bernoulli("label", logit_p=group[np.arange(N) % 4], observed=y)
    refused(ModeError, lambda: getattr(bpls.BPLS(model), method)(), '"tau', "no finite mode", "non-centered")


@pytest.mark.parametrize("scale", [pm.Exponential, pm.HalfCauchy])
def test_a_centered_hierarchy_with_slopes_names_the_scale_whatever_its_prior(scale):
    X, y = table()
    with pm.Model() as model:
        tau = scale("tau", 1)
        slope = pm.Normal("slope", pm.Normal("mu", 0, 1), tau, shape=6)
        pm.Bernoulli("label", logit_p=slope[np.arange(N) % 6] * X[:, 0], observed=y)
    refused(ModeError, bpls.BPLS(model).fit, '"tau', "no finite mode", "non-centered")


def test_a_criterion_without_the_prior_refuses_a_hierarchy():
    _, y = table()
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        group = pm.Normal("group", mu, 1, shape=4)
        pm.Bernoulli("label", logit_p=group[np.arange(N) % 4], observed=y)
    refused(CriterionError, lambda: bpls.BPLS(model).score("ubpls"), '"ubpls"', '"group"', '"mu"', '"ppp"')


# 6: separation


@pytest.mark.parametrize("method", ["fit", "score", "self_train"])
def test_separated_rows_with_a_flat_prior_are_refused_with_the_direction(method):
    refused(ModeError, lambda: getattr(bpls.BPLS(flat_logistic(*separated())), method)(), '"beta[0]"', "proper prior")


@pytest.mark.parametrize("criterion", ["reference", "likelihood", "ubpls"])
@pytest.mark.parametrize("declare", [logistic, flat_logistic])
def test_separated_rows_are_refused_by_criteria_without_the_prior(criterion, declare):
    refused(ModeError, lambda: bpls.BPLS(declare(*separated())).score(criterion), '"beta[0]"')


def test_separated_rows_are_refused_by_the_paper_s_expansion():
    refused(ModeError, lambda: bpls.BPLS(logistic(*separated())).score(expansion="mle"), '"beta[0]"', "separated")


def test_the_direction_of_separation_has_its_sign():
    X, y = separated()
    refused(ModeError, lambda: bpls.BPLS(logistic(X, np.where(y < 0, -1, 1 - y))).score("reference"), '-"beta[0]"')


def test_quasi_separation_is_refused_too():
    X, y = table()
    X = np.column_stack([X[:, 0], (np.arange(N) % 4 == 0).astype(float)])
    y = np.where((y >= 0) & (X[:, 1] > 0), 1, y)
    refused(ModeError, lambda: bpls.BPLS(logistic(X, y)).score("reference"), '"beta[1]"', "separated")


def test_separated_rows_with_a_proper_prior_have_a_value():
    scores = bpls.BPLS(logistic(*separated())).score(approximation="laplace")
    assert np.isfinite(scores["score"]).all()
    assert scores["converged"].all()


def test_one_class_only_has_no_maximum_likelihood():
    X, y = table()
    X = np.column_stack([np.ones(N), X[:, 0]])
    with pytest.warns(BPLSWarning, match="no labeled row of class 0"):
        pls = bpls.BPLS(logistic(X, np.where(y < 0, -1, 1)))
    refused(ModeError, lambda: pls.score("reference"), '"beta[0]"', "separated")
    assert np.isfinite(pls.score()["score"]).all()


# 7: singular Hessians and kinks


def test_a_duplicated_column_with_flat_priors_is_refused_with_both_names():
    X, y = table()
    model = flat_logistic(X[:, [0, 1, 0]], y)
    refused(ModeError, bpls.BPLS(model).fit, '"beta[0]"', '"beta[2]"', "not identified", "proper prior")


def test_a_duplicated_column_with_proper_priors_has_a_value():
    X, y = table()
    assert np.isfinite(bpls.BPLS(logistic(X[:, [0, 1, 0]], y)).score()["score"]).all()


@pytest.mark.parametrize("criterion", ["reference", "likelihood", "ubpls"])
def test_a_duplicated_column_is_refused_by_criteria_without_the_prior(criterion):
    X, y = table()
    pls = bpls.BPLS(logistic(X[:, [0, 1, 0]], y))
    refused(ModeError, lambda: pls.score(criterion), '"beta[0]"', '"beta[2]"', "do not identify")


def test_more_parameters_than_labeled_rows_are_refused_without_the_prior():
    X = np.random.default_rng(1).normal(size=(N, N_LABELED + 2))
    refused(ModeError, lambda: bpls.BPLS(logistic(X, table()[1])).score("reference"), '"beta[', "16 labeled rows")


def test_an_over_parametrised_softmax_with_flat_priors_is_refused():
    y = np.where(np.arange(N) < N_LABELED, np.arange(N) % 3, -1)
    refused(ModeError, bpls.BPLS(softmax(y, pm.Flat)).fit, '"beta[0, 0]"', "not identified", "proper prior")


def kinked():
    X, y = table()
    with pm.Model() as model:
        beta = pm.Laplace("beta", 0, 0.02, shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=y)
    return model


@pytest.mark.parametrize("method", ["fit", "score"])
def test_a_laplace_prior_with_its_mode_at_zero_is_refused_as_a_kink(method):
    by = {"approximation": "laplace"} if method == "score" else {}
    refused(ModeError, lambda: getattr(bpls.BPLS(kinked()), method)(**by), '"beta[', "kink", "Normal")


def test_a_laplace_prior_with_its_mode_at_zero_is_refused_from_another_start_too():
    pls = bpls.BPLS(kinked(), initvals={"beta": np.array([0.7, -0.4])})
    refused(ModeError, pls.fit, '"beta[', "kink", "Normal")


def test_a_laplace_prior_with_its_mode_off_zero_has_a_value():
    X, _ = table()
    y = np.where(np.arange(N) < N_LABELED, (X @ [3, -3] + np.sin(np.arange(N)) > 0).astype(int), -1)
    with pm.Model() as model:
        beta = pm.Laplace("beta", 0, 5, shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=y)
    assert np.isfinite(bpls.BPLS(model).score()["score"]).all()


def test_a_relu_network_is_refused():
    X, y = table()
    with pm.Model() as model:
        first, second = pm.Normal("first", 0, 1, shape=(2, 3)), pm.Normal("second", 0, 1, shape=3)
        pm.Bernoulli("label", logit_p=pt.maximum(X @ first, 0) @ second, observed=y)
    refused(ModeError, bpls.BPLS(model).fit, '"first[', "relu")


# 8: the mode's convention


def test_the_mode_is_that_of_the_unconstrained_density_with_jacobian():
    y = np.r_[np.repeat([1, 0], [9, 3]), [-1, -1]]
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1)
        pm.Bernoulli("label", p=p, observed=y, shape=len(y))
    # log p: 9 log p + 3 log(1 − p) + log p(1 − p), whose mode is 10/14; without the Jacobian it is 9/12
    np.testing.assert_allclose(bpls.BPLS(model).fit().mode["p"], 10 / 14, rtol=1e-8)


# 9: group indices


def test_a_pool_of_groups_gives_what_one_table_gives():
    _, y = table()

    def by_group(groups, labels):
        with pm.Model() as model:
            effect = pm.Normal("effect", 0, 1, shape=5)
            pm.Bernoulli("label", logit_p=effect[pm.Data("group", groups)], observed=labels)
        return model

    groups = np.arange(N) % 5
    found = bpls.BPLS(by_group(groups[:N_LABELED], y[:N_LABELED]), pool={"group": groups[N_LABELED:]}).score()
    np.testing.assert_allclose(found["score"], bpls.BPLS(by_group(groups, y)).score()["score"], rtol=1e-10)


@pytest.mark.parametrize("level", [-1, 5])
def test_a_group_index_outside_the_levels_is_refused_with_the_levels(level):
    _, y = table()
    group = np.arange(N) % 5
    group[20] = level
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, 1, shape=5)
        pm.Bernoulli("label", logit_p=effect[group], observed=y)
    refused(RowError, lambda: bpls.BPLS(model).score(), str(level), "20")


@pytest.mark.parametrize("level", [-1, 5])
def test_a_group_index_of_the_pool_outside_the_levels_is_refused_with_the_levels(level):
    _, y = table()
    with pm.Model(coords={"group": list("abcde")}) as model:
        group = pm.Data("group_of", np.arange(N_LABELED) % 5)
        effect = pm.Normal("effect", 0, 1, dims="group")
        pm.Bernoulli("label", logit_p=effect[group], observed=y[:N_LABELED])
    refused(RowError, lambda: bpls.BPLS(model, pool={"group_of": [0, level, 2]}).score(), '"group_of"', str(level))


# 10: rows that are not finite, columns in another order


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("row", [3, 20])
def test_a_constant_that_is_not_finite_is_refused_with_row_and_column(value, row):
    X, y = table()
    X[row, 1] = value
    refused(RowError, lambda: bpls.BPLS(logistic(X, y)), f"rows [{row}]", "columns [1]", "Impute")


def test_a_container_that_is_not_finite_is_refused_with_its_name_rows_and_columns():
    X, y = table()
    X[[3, 20], 1] = np.inf  # pm.Data itself refuses NaN
    refused(RowError, lambda: bpls.BPLS(in_containers(X, y, N)), '"X"', "rows [3, 20]", "columns ['dose']", "Impute")


def test_a_pool_row_that_is_not_finite_is_refused_with_its_row_and_column():
    X, y = table()
    X[20, 0] = np.inf
    model = in_containers(X, y)
    refused(RowError, lambda: bpls.BPLS(model, pool={"X": X[N_LABELED:]}), '"X"', "rows [20]", "columns ['age']", "Impute")


def test_a_row_that_is_held_out_may_be_anything():
    X, y = table()
    X[23] = np.nan
    scores = bpls.BPLS(logistic(X, y), unlabeled=np.arange(N_LABELED, 23)).score()
    expected = bpls.BPLS(logistic(X[:23], y[:23])).score()
    np.testing.assert_allclose(scores["score"], expected["score"], rtol=1e-9)


def test_a_pool_of_objects_is_refused():
    X, y = table()
    frame = pd.DataFrame(X[N_LABELED:], columns=COLUMNS).astype(object)
    frame.iloc[0, 0] = "12 years"
    refused(RowError, lambda: bpls.BPLS(in_containers(X, y), pool={"X": frame}), '"X"', "object", "numbers")


def test_columns_of_a_frame_are_matched_by_name():
    X, y = table()
    frame = pd.DataFrame(X[N_LABELED:], columns=COLUMNS, index=pd.Index(list("abcdefgh"), name="patient"))
    in_order = bpls.BPLS(in_containers(X, y), pool={"X": frame}).score()
    turned = bpls.BPLS(in_containers(X, y), pool={"X": frame[COLUMNS[::-1]]}).score()
    np.testing.assert_array_equal(turned["score"], in_order["score"])
    one_table = bpls.BPLS(logistic(X, y)).score()
    np.testing.assert_allclose(in_order["score"], one_table["score"], rtol=1e-10)


def test_columns_of_other_names_are_refused():
    X, y = table()
    frame = pd.DataFrame(X[N_LABELED:], columns=["age", "weight"])
    refused(RowError, lambda: bpls.BPLS(in_containers(X, y), pool={"X": frame}), '"X"', '"dose"', '"weight"')


def test_a_pool_of_another_width_is_refused():
    X, y = table()
    refused(RowError, lambda: bpls.BPLS(in_containers(X, y), pool={"X": X[N_LABELED:, :1]}), '"X"', "(8, 1)")


def test_data_is_captured_at_construction_even_from_a_constant():
    X, y = table()
    pls = bpls.BPLS(logistic(X, y))
    before = pls.score()["score"].copy()
    X[:] = 7
    np.testing.assert_array_equal(pls.score()["score"], before)


# 11: masked labels


@pytest.mark.parametrize("missing", [np.nan, None])
def test_missing_labels_in_the_model_are_refused(missing):
    X, y = table()
    labels = pd.Series(y.astype(float)).mask(y < 0) if missing is not None else np.ma.masked_array(y, mask=y < 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = logistic(X, labels)
    refused(ModelError, lambda: bpls.BPLS(model), '"label"', "missing values", "-1")


# 12: no gradient


def test_a_discrete_free_variable_is_refused_by_name():
    X, y = table()
    with pm.Model() as model:
        flip = pm.Bernoulli("flip", 0.5)
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Bernoulli("label", logit_p=(1 - 2 * flip) * (X @ beta), observed=y)
    refused(ModelError, lambda: bpls.BPLS(model), '"flip"', "discrete", "Marginalise")


def test_an_operation_without_a_gradient_is_refused_by_name():
    class BlackBox(Op):
        itypes, otypes = (pt.dvector,), (pt.dvector,)

        def perform(self, node, inputs, outputs):
            outputs[0][0] = np.tanh(inputs[0])

    X, y = table()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Bernoulli("label", logit_p=BlackBox()(pt.dot(X, beta)), observed=y)
    refused(ModelError, lambda: bpls.BPLS(model).score(), "BlackBox", "JAX")


def test_a_model_without_free_variables_is_refused():
    X, y = table()
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=X[:, 0], observed=y)
    refused(ModelError, lambda: bpls.BPLS(model), "no free variable")


# 13: which observed variable


def test_a_likelihood_in_a_potential_is_refused_by_name():
    X, y = table()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Potential("loglik", pm.logp(pm.Bernoulli.dist(logit_p=X @ beta), y).sum())
    refused(ModelError, lambda: bpls.BPLS(model), '"loglik"', "observed=")


def two_observed(y):
    X, _ = table()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=y)
        pm.Normal("score", beta, 1, observed=[1.0, -1.0])
    return model


def test_several_observed_variables_ask_for_a_target():
    _, y = table()
    refused(ModelError, lambda: bpls.BPLS(two_observed(y)), '"label", "score"', "target=")
    refused(ModelError, lambda: bpls.BPLS(two_observed(y), target="labels"), '"labels"', '"label", "score"')


def test_the_other_observed_variables_stay_part_of_the_density():
    X, y = table()
    with pm.Model() as model:
        # N(0, 2²) times N(±1 | β, 1) is N(±0.8, 0.8) up to a constant
        beta = pm.Normal("beta", np.array([0.8, -0.8]), np.sqrt(0.8), shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=y)
    found, expected = bpls.BPLS(two_observed(y), target="label").score(), bpls.BPLS(model).score()
    np.testing.assert_allclose(found["score"] - found["score"][0], expected["score"] - expected["score"][0], atol=1e-8)


# 14: total_size


def test_total_size_is_refused():
    X, y = table()
    refused(ModelError, lambda: bpls.BPLS(logistic(X, y, total_size=1000)), '"label"', "total_size=")


# 15: the user's index


def test_the_index_comes_from_coords_the_frame_of_the_pool_or_the_argument():
    X, y = table()
    frame = pd.DataFrame(X[N_LABELED:], columns=COLUMNS, index=pd.Index(list("abcdefgh")))
    scores = bpls.BPLS(in_containers(X, y), pool={"X": frame}).score()
    assert scores["index"].to_numpy().tolist() == list("abcdefgh")
    named = bpls.BPLS(logistic(X, y), index=pd.Index([f"p{i}" for i in range(N)], name="patient")).score()
    assert named["patient"].to_numpy().tolist() == [f"p{i}" for i in range(N_LABELED, N)]


@pytest.mark.parametrize("wrap", [pd.DataFrame, lambda X: xr.DataArray(X, dims=("row", "column"))])
def test_a_frame_or_an_xarray_is_a_table(wrap):
    X, y = table()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("label", logit_p=pm.Data("X", wrap(X)) @ beta, observed=y)
    np.testing.assert_allclose(bpls.BPLS(model).score()["score"], bpls.BPLS(logistic(X, y)).score()["score"])


# 16: a start outside the support


def ordinal(**options):
    X, _ = table()
    y = np.where(np.arange(N) < N_LABELED, np.digitize(X[:, 0] + np.sin(5 * np.arange(N)), [-0.5, 0.5]), -1)
    with pm.Model() as model:
        cut = pm.Normal("cut", 0, 2, shape=2, transform=pm.distributions.transforms.ordered, **options)
        pm.OrderedLogistic("label", eta=X @ pm.Normal("beta", 0, 1, shape=2), cutpoints=cut, observed=y)
    return model


def test_ordered_cutpoints_without_a_start_are_fitted_as_from_a_start():
    expected = bpls.BPLS(ordinal(initval=np.array([-1.0, 1.0]))).fit().unconstrained
    np.testing.assert_allclose(bpls.BPLS(ordinal()).fit().unconstrained, expected, atol=1e-6)
    started = bpls.BPLS(ordinal(), initvals={"cut": [-1.0, 1.0]}).fit().unconstrained
    np.testing.assert_allclose(started, expected, atol=1e-6)


def test_a_start_for_an_unknown_variable_is_refused():
    X, y = table()
    refused(ModelError, lambda: bpls.BPLS(logistic(X, y), initvals={"gamma": 1.0}), "'gamma'", "Use names")


# 17: many trials a row


def test_a_binomial_of_many_trials_is_refused():
    X, y = table()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Binomial("label", n=5, logit_p=X @ beta, observed=y)
    refused(LabelError, lambda: bpls.BPLS(model), '"label"', "5 trials", "n=1")


@pytest.mark.parametrize("n", [3, np.where(np.arange(N) == 2, 3, 1)], ids=["all rows", "one row"])
def test_a_multinomial_of_many_trials_is_refused(n):
    X, _ = table()
    counts = np.eye(3, dtype=int)[np.arange(N) % 3] * np.reshape(n, (-1, 1))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=(2, 3))
        pm.Multinomial("label", n=n, p=pm.math.softmax(X @ beta, axis=-1), observed=counts)
    unlabeled = np.arange(N) >= N_LABELED
    refused(LabelError, lambda: bpls.BPLS(model, unlabeled=unlabeled), '"label"', "3 trials", "n=1")


# 18: probabilities of exactly 0 or 1

LINKS = {
    "probit": pm.math.invprobit,
    "cloglog": lambda eta: 1 - pt.exp(-pt.exp(eta)),
    "sigmoid": pm.math.sigmoid,
}


def far_away(link, distance=1e4):
    """A model whose row 20 is far away."""
    X, y = table()
    X[20, 0] = distance
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("label", p=LINKS[link](X @ beta), observed=y)
    return model


# row 20 has η near −20,000 or 20,000, where these links are 0 or 1 in double precision: its classes without a score
WITHOUT_SCORE = {
    ("probit", "predicted"): [],
    ("probit", "all"): [0],
    ("cloglog", "predicted"): ["predicted"],
    ("cloglog", "all"): [0, 1],
    ("sigmoid", "predicted"): [],
    ("sigmoid", "all"): [],
}


@pytest.mark.parametrize(("link", "labels"), WITHOUT_SCORE)
def test_a_far_away_row_is_scored_on_the_log_scale_or_reported_and_never_made_up(link, labels):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = bpls.BPLS(far_away(link)).score(approximation="laplace", labels=labels)["score"]
    of_row = np.atleast_1d(scores.sel(candidate=20))
    classes = np.array(["predicted"] if labels == "predicted" else [0, 1], dtype=object)
    lost = WITHOUT_SCORE[link, labels]
    assert classes[np.isnan(of_row)].tolist() == lost
    assert np.isfinite(of_row[~np.isnan(of_row)]).all()
    assert [warning.category for warning in caught] == [BPLSWarning] * bool(lost)
    assert all("row 20" in str(warning.message) for warning in caught)
    assert np.isfinite(scores.drop_sel(candidate=20)).all()


def test_a_far_away_row_under_a_sigmoid_has_the_score_of_its_logit():
    X, y = table()
    X[20, 0] = 1e4
    expected = bpls.BPLS(logistic(X, y)).score(approximation="laplace", labels="all")["score"]
    np.testing.assert_allclose(
        bpls.BPLS(far_away("sigmoid")).score(approximation="laplace", labels="all")["score"], expected, rtol=1e-10
    )


@pytest.mark.parametrize("link", LINKS)
def test_a_far_away_row_is_selected_where_it_has_a_score(link):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BPLSWarning)
        run = bpls.BPLS(far_away(link)).self_train(approximation="laplace", progressbar=False)
    assert (20 in run["history"]["candidate"].to_numpy()) == (not WITHOUT_SCORE[link, "predicted"])
    assert np.isfinite(run["history"]["score"]).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_logit_of_800_has_its_exact_value(sign):
    X, y = table()
    model = logistic(X, y)
    slope = float(bpls.BPLS(model).fit().mode["beta"][0])
    X[20] = sign * 800 / slope, 0.0
    pls = bpls.BPLS(logistic(X, y))
    scores = pls.score(approximation="laplace", labels="all").sel(candidate=20)
    right = int(sign > 0)
    # the far row agrees with the labeled ones: at the mode of the doubled likelihood it costs nothing
    np.testing.assert_allclose(scores["log_lik_pseudo"].sel(label=right), 0.0, atol=1e-12)
    assert np.isfinite(scores["score"]).all()
    assert pls.predict_proba([20]).sel({"class": right}) == 1.0
    assert np.isfinite(pls.score("variance")["score"]).all()
    assert np.isfinite(pls.score("entropy")["score"]).all()
    assert np.isfinite(pls.score("predictive")["score"]).all()


# 19: runs that end


def test_an_empty_pool_returns_at_once_and_says_so():
    X, y = table()
    pls = bpls.BPLS(logistic(X[:N_LABELED], y[:N_LABELED]))
    run = pls.self_train(progressbar=False)
    assert run.attrs["stop_reason"] == "the pool is empty"
    assert run["history"].sizes["step"] == 0


def test_an_empty_pool_has_empty_scores_under_every_criterion():
    X, y = table()
    pls = bpls.BPLS(logistic(X[:N_LABELED], y[:N_LABELED]))
    for criterion in ("ppp", "reference", "probability", "variance", "predictive", "entropy", "random"):
        for labels in ("predicted", "all"):
            assert pls.score(criterion, labels=labels).sizes["candidate"] == 0


def test_a_run_until_the_end_says_that_the_pool_is_empty():
    run = bpls.BPLS(logistic(*table())).self_train(progressbar=False)
    assert run.attrs["stop_reason"] == "the pool is empty"
    assert sorted(run["history"]["candidate"].to_numpy()) == list(range(N_LABELED, N))


def test_a_stop_rule_ends_the_run_in_its_own_words():
    def three(history):
        return "three is enough" if history.sizes["step"] >= 3 else None

    run = bpls.BPLS(logistic(*table())).self_train(stop=three, progressbar=False)
    assert run.attrs["stop_reason"] == "three is enough"
    assert run["history"].sizes["step"] == 3


def test_a_run_in_which_no_candidate_has_a_score_says_so():
    never = bpls.Criterion("never", lambda terms: terms.log_det * np.nan)
    with pytest.warns(BPLSWarning, match="8 of 8 candidates have no finite score"):
        run = bpls.BPLS(logistic(*table())).self_train(never, progressbar=False)
    assert run.attrs["stop_reason"] == "no candidate has a finite score"
    assert run["history"].sizes["step"] == 0


def test_no_rounds_are_a_run_that_keeps_the_supervised_model():
    run = bpls.BPLS(logistic(*table())).self_train(rounds=0, progressbar=False)
    assert run.attrs["stop_reason"] == "0 rounds are done"


# 21: memory


@pytest.mark.parametrize("criterion", ["ppp", "reference"])
def test_scores_do_not_depend_on_the_memory_that_they_may_use(criterion):
    pls = bpls.BPLS(logistic(*table()))
    np.testing.assert_allclose(pls.score(criterion, chunk_bytes=1)["score"], pls.score(criterion)["score"], rtol=1e-12)


# 27: batches


def test_one_label_a_round_is_the_default_and_a_batch_adds_no_row_twice():
    pls = bpls.BPLS(logistic(*table()))
    assert pls.self_train(rounds=2, progressbar=False)["history"]["round"].to_numpy().tolist() == [1, 2]
    run = pls.self_train(rounds=2, batch_size=3, labels="all", progressbar=False)
    assert run["history"]["round"].to_numpy().tolist() == [1, 1, 1, 2, 2, 2]
    assert len(set(run["history"]["candidate"].to_numpy())) == 6


# Beyond the list


def test_classes_that_are_named_twice_are_refused():
    X, y = table()
    refused(LabelError, lambda: bpls.BPLS(logistic(X, y), classes=["a", "a"]), '"label"', "a")


def test_test_rows_with_an_unknown_group_are_refused():
    _, y = table()
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, 1, shape=4)
        pm.Bernoulli("label", logit_p=effect[pm.Data("group", np.arange(N) % 4)], observed=y)
    pls = bpls.BPLS(model)
    for level in (9, -1):
        test = ({"group": [0, level]}, [0, 1])
        refused(RowError, lambda t=test: pls.self_train(rounds=1, test=t, progressbar=False), '"group"', str(level))


def test_fractions_in_the_pool_of_an_integer_container_are_refused_or_kept():
    _, y = table()
    with pm.Model() as model:
        alpha, beta = pm.Normal("alpha"), pm.Normal("beta")
        pm.Bernoulli("label", logit_p=alpha + beta * pm.Data("dose", np.arange(N) % 3), observed=pm.Data("y", y))
    with pytest.raises(RowError, match='"dose"'):
        bpls.BPLS(model, pool={"dose": [0.5, 1.7]})


@pytest.mark.parametrize("options", [{"rounds": 2.5}, {"batch_size": 1.5}])
def test_a_number_of_rounds_or_rows_that_is_not_whole_is_refused(options):
    pls = bpls.BPLS(logistic(*table()))
    refused(CriterionError, lambda: pls.self_train(progressbar=False, **options), next(iter(options)))


@pytest.mark.parametrize("start", [[1.0, 2.0, 3.0], [np.nan, 1.0]], ids=["three entries", "nan"])
def test_a_start_of_the_wrong_shape_or_not_finite_is_refused_by_name(start):
    refused(ModelError, lambda: bpls.BPLS(logistic(*table()), initvals={"beta": start}), '"beta"', "initvals=")


def test_a_start_outside_the_support_is_refused_by_name():
    X, y = table()
    with pm.Model() as model:
        scale, z = pm.HalfNormal("scale", 1), pm.Normal("z", 0, 1, shape=2)
        pm.Bernoulli("label", logit_p=X @ (scale * z), observed=y)
    refused(ModelError, lambda: bpls.BPLS(model, initvals={"scale": -1.0}), '"scale"', "initvals=")


@pytest.mark.parametrize("name", ["row", "parameter", "labels", "weights", "unconstrained"])
def test_a_variable_may_have_any_name(name):
    X, y = table()
    with pm.Model() as model:
        pm.Bernoulli("label", logit_p=pm.Normal(name, 0, 1) * X[:, 0], observed=y)
    run = bpls.BPLS(model).self_train(rounds=1, progressbar=False)
    assert run["history"].sizes["step"] == 1


def test_labels_of_shape_n_by_1_beside_n_logits_are_refused():
    X, y = table()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("label", logit_p=X @ beta, observed=y[:, None])
    with pytest.raises(BPLSError, match='"label"'):
        bpls.BPLS(model)


def test_labels_of_shape_n_by_1_beside_a_column_of_logits_are_labels():
    X, y = table()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=(2, 1))
        pm.Bernoulli("label", logit_p=X @ beta, observed=y[:, None])
    np.testing.assert_allclose(bpls.BPLS(model).score()["score"], bpls.BPLS(logistic(X, y)).score()["score"])


def test_as_many_features_as_rows_are_not_taken_for_rows():
    rng = np.random.default_rng(3)
    square, y = rng.normal(size=(8, 8)), np.array([0, 1, 0, 1, 1, 0, -1, -1])
    found = bpls.BPLS(logistic(square, y)).score()["score"]
    tall = bpls.BPLS(logistic(np.r_[square, square[:1]], np.r_[y, -1])).score()["score"][:2]
    np.testing.assert_allclose(found, tall, rtol=1e-12)


def test_as_many_groups_as_rows_are_not_taken_for_rows():
    X, y = table()

    def by_group(groups, rows):
        with pm.Model() as model:
            effect = pm.Normal("effect", np.linspace(-1, 1, groups), 1, shape=groups)
            pm.Bernoulli("label", logit_p=effect[(np.arange(N) * 5 % 7)[rows]] + X[rows, 0], observed=y[rows])
        return bpls.BPLS(model)

    # 24 groups of which 7 have rows; 23 rows of the same table leave no doubt
    rows = np.arange(N - 1)
    np.testing.assert_allclose(
        by_group(24, np.arange(N)).score()["score"][:-1], by_group(24, rows).score()["score"], rtol=1e-10
    )
