"""The README's example and the demo, in a very small setting."""

import re
from io import StringIO
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr
from rich.console import Console

from pymc_bpls.__main__ import main
from pymc_bpls.audit.report import Audit
from pymc_bpls.comparison.differences import bonferroni
from pymc_bpls.demo import command
from pymc_bpls.demo.command import check_output, run_demo
from pymc_bpls.demo.figure import draw
from pymc_bpls.demo.questions import (
    BY_EP,
    BY_LAPLACE,
    SAFE,
    TO_THE_END,
    PoolAnswer,
    are_the_scores_right,
    can_the_pool_help,
    changes,
    does_a_run_help,
    shared_compilations,
)
from pymc_bpls.demo.setting import Setting
from pymc_bpls.demo.words import say_verdict
from pymc_bpls.errors import BPLSError
from pymc_bpls.pool.information import Information

README = Path(__file__).parents[1] / "README.md"
SMALL = Setting(dataset="banknote", n_labeled=16, n_unlabeled=30, batch_size=10, seeds=1)


def recorder():
    return Console(record=True, width=80, color_system=None, file=StringIO(), highlight=False)


def pool_answer(labels=97.0):
    rows = xr.Dataset()
    return PoolAnswer(Information(False, 0.0, 0.0, rows, rows, ""), Information(True, 60.0, labels, rows, rows, ""))


def audit_of(regrets, *, reliable=True):
    """An audit of three candidates over a range of one nat, in which Laplace's method and EP lose so much."""
    n = {"criterion": [BY_LAPLACE, BY_EP], "candidate": [7, 8, 9]}
    agreement = xr.Dataset(
        {
            **{name: ("criterion", np.array(regrets)) for name in ("regret", "regret_proven")},
            **{name: ("criterion", [0.5, 0.5]) for name in ("regret_mcse", "tau", "pareto_k", "pareto_k_mcse")},
            "choice": ("criterion", [7, 9]),
        },
        coords={"criterion": n["criterion"]},
        attrs={"range": 1.0},
    )
    centred = np.array([[-0.2, 0.0], [-0.1, 0.0], [0.3, 0.0]])
    candidates = xr.Dataset(
        {"log_ppp": ("candidate", [-1.0, -0.5, 0.0]), "centred": (("candidate", "criterion"), centred)}, coords=n
    )
    tree = xr.DataTree.from_dict({"agreement": agreement, "candidates": candidates})
    tree.attrs |= {"reliable": int(reliable), "reasons": [] if reliable else ["k-hat is 2"], "verdict": ""}
    return Audit(tree)


def outcomes_of(finals, chosen=None):
    """Runs that start at 0.5 and end so in accuracy and log score, and the safe choice, supervised unless it is said."""
    finals = np.asarray(finals)
    chosen = ["supervised"] * len(finals) if chosen is None else chosen
    run = np.stack([np.full(len(finals), 0.5), np.full(len(finals), 0.5), finals], axis=1)
    safe = np.where(np.array(chosen)[:, None] == TO_THE_END, run, 0.5)
    values = ("way", "split", "n_pseudo"), np.stack([run, safe])
    return xr.Dataset(
        dict.fromkeys(("accuracy", "log_score", "invented_information"), values) | {"chosen": ("split", chosen)},
        coords={"way": [TO_THE_END, SAFE], "n_pseudo": [0, 5, 10]},
    )


@pytest.mark.slow
def test_the_readme_s_example_prints_what_it_says(capsys):
    text = README.read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    [shown] = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    for line, said in zip(shown.splitlines(), printed, strict=True):
        assert said.startswith(line.removesuffix(" …"))


def test_the_readme_holds_the_two_command_lines():
    text = README.read_text(encoding="utf-8")
    assert "python3 -m venv .venv && .venv/bin/pip install -q -e . && .venv/bin/python -m pymc_bpls demo" in text
    assert 'python3 -m venv .venv && .venv/bin/pip install -q -e ".[test]" && .venv/bin/python -m pytest -q' in text


def test_the_readme_fits_on_two_screens():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.slow
def test_the_demo_answers_three_questions_and_writes_the_figure(tmp_path):
    console, output = recorder(), tmp_path / "demo.png"
    assert run_demo(SMALL, output, console) == 0
    text = console.export_text()
    assert output.read_bytes().startswith(b"\x89PNG")
    places = [text.index(question) for question in ("1. What can the pool", "2. Are the scores right", "3. Does a run help")]
    assert places == sorted(places)
    assert re.search(r"logistic regression: labels given features +0 +0", text)
    assert [re.search(rf"^ {way} +row \d+ ", text, flags=re.MULTILINE) for way in ("Laplace", "EP", "exact")].count(None) == 0
    assert "One split has no standard error" in text
    assert "Done in" in text and str(output.name) in text.replace("\n", "")
    assert max(map(len, text.splitlines()[:-3])) <= 80


@pytest.fixture(scope="module")
def split():
    return SMALL.split(3)


@pytest.mark.slow
def test_the_answers_are_those_of_the_public_methods(split):
    pool = can_the_pool_help(SMALL, split)
    assert pool.regression.nats == 0 < pool.class_conditional.nats
    audit = are_the_scores_right(SMALL, split)
    assert audit.agreement["criterion"].to_numpy().tolist() == [BY_LAPLACE, BY_EP]
    outcomes = does_a_run_help(SMALL, [split])
    assert outcomes["n_pseudo"].to_numpy().tolist() == [0, 10, 20, 30]
    accuracy = outcomes["accuracy"].isel(split=0)
    assert accuracy.sel(way=SAFE, n_pseudo=0) == accuracy.sel(way=TO_THE_END, n_pseudo=0)


def test_an_interrupted_demo_reports_the_splits_that_it_finished(tmp_path, monkeypatch):
    three = Setting(SMALL.dataset, SMALL.n_labeled, SMALL.n_unlabeled, seeds=3)

    def demo(outcomes, name):
        answers = {"can_the_pool_help": pool_answer(), "are_the_scores_right": audit_of([0.2, 0.0])}
        for question, answer in (answers | {"does_a_run_help": outcomes}).items():
            monkeypatch.setattr(command, question, lambda *_, answer=answer: answer)
        console = recorder()
        return run_demo(three, tmp_path / name, console), console.export_text()

    code, text = demo(outcomes_of([0.6, 0.7]), "two.svg")
    assert code == 130 and "Interrupted after 2 of 3 splits" in text and (tmp_path / "two.svg").exists()
    code, text = demo(outcomes_of([0.6, 0.7, 0.8]), "three.svg")
    assert code == 0 and "Done in" in text
    code, text = demo(xr.Dataset(coords={"split": np.arange(0)}), "none.svg")
    assert code == 130 and "nothing to report" in text and not (tmp_path / "none.svg").exists()

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "can_the_pool_help", stopped)
    assert run_demo(three, tmp_path / "none.svg", recorder()) == 130


def test_splits_that_ctrl_c_left_unfinished_are_left_out(monkeypatch, split):
    def interrupted_after(n):
        left = iter([outcomes_of([0.6]).isel(split=0)] * n)

        def two_ways(*_):
            try:
                return next(left)
            except StopIteration:
                raise KeyboardInterrupt from None

        monkeypatch.setattr("pymc_bpls.demo.questions._two_ways", two_ways)
        return does_a_run_help(SMALL, [split] * 3).sizes["split"]

    assert [interrupted_after(n) for n in (0, 1, 2, 3)] == [0, 1, 2, 3]


def test_splits_are_disjoint_and_the_same_for_the_same_seed(split):
    everything = np.concatenate([split.labeled, split.candidates, split.test])
    assert sorted(everything.tolist()) == list(range(200))
    assert len(split.test) == SMALL.n_held_out
    np.testing.assert_array_equal(split.labeled, SMALL.split(3).labeled)


def test_changes_are_paired_by_split():
    outcomes = outcomes_of([0.6, 0.2], ["supervised", TO_THE_END])
    np.testing.assert_allclose(changes(outcomes, TO_THE_END, "accuracy"), [[0, 0, 0.1], [0, 0, -0.3]])
    np.testing.assert_allclose(changes(outcomes, SAFE, "accuracy"), [[0, 0, 0], [0, 0, -0.3]])


@pytest.mark.parametrize(
    ("finals", "said"),
    [
        ([0.7, 0.71, 0.69, 0.7, 0.705], "A run to the end helps: accuracy +20.1 ± 0.3 points"),
        ([0.3, 0.31, 0.29, 0.3, 0.305], "A run to the end does harm: accuracy −19.9 ± 0.3 points"),
        ([0.6, 0.4, 0.51, 0.49, 0.5], "A run to the end gains nothing beyond chance: accuracy 0 ± 3.2 points"),
        ([0.6], "One split has no standard error"),
    ],
)
def test_the_verdict_says_plainly_whether_a_run_helps(finals, said):
    assert said in say_verdict(pool_answer(), audit_of([0.2, 0.0]), outcomes_of(finals))


def test_the_verdict_says_which_measure_is_within_chance():
    outcomes = outcomes_of([0.6, 0.4, 0.51, 0.49, 0.5])
    outcomes["log_score"] = outcomes_of([0.3, 0.31, 0.29, 0.3, 0.305])["log_score"]
    said = say_verdict(pool_answer(), audit_of([0.2, 0.0]), outcomes)
    assert "does harm: accuracy 0 ± 3.2 points (within chance), log score −0.20 ± 0.00 nats. choose()" in said


@pytest.mark.parametrize(
    ("regrets", "said"),
    [
        ([0.2, 0.0], "The choice by Laplace's method loses 20% of the range of log PPP: score by EP, whose choice loses"),
        ([0.0, 0.2], "The choice by EP loses 20% of the range of log PPP: score by Laplace's method"),
        ([0.2, 0.3], "by Laplace's method loses 20% and by EP loses 30% of the range of log PPP: only exact values will do."),
        ([0.005, 0.0], "Scores by Laplace's method and by EP choose well."),
    ],
)
def test_the_verdict_says_by_what_to_score(regrets, said):
    assert said in say_verdict(pool_answer(), audit_of(regrets), outcomes_of([0.6, 0.7]))


def test_scores_without_a_reliable_reference_are_not_judged():
    text = say_verdict(pool_answer(), audit_of([0.2, 0.0], reliable=False), outcomes_of([0.6, 0.7]))
    assert "How good the scores are is not known" in text and "score by" not in text


def test_the_verdict_says_what_the_safe_choice_did():
    kept = say_verdict(pool_answer(), audit_of([0.2, 0.0]), outcomes_of([0.6, 0.7]))
    assert "choose() loses nothing: it keeps the supervised model in 2 of 2 splits." in kept
    left = say_verdict(pool_answer(), audit_of([0.2, 0.0]), outcomes_of([0.6, 0.7], ["supervised", TO_THE_END]))
    assert "choose() changes accuracy by +10.0 ± 10.0 points: it keeps the supervised model in 1 of 2 splits." in left


def test_the_bound_is_student_s_and_grows_with_the_comparisons():
    assert bonferroni(10_000, 1) == pytest.approx(1.96, abs=0.01)
    assert bonferroni(5, 1) == pytest.approx(2.776, abs=0.001)
    assert bonferroni(5, 26) > bonferroni(5, 1)
    assert bonferroni(1, 1) == np.inf


def test_the_figure_has_a_panel_a_question():
    outcomes = outcomes_of([0.6, 0.7, 0.4], ["supervised", "supervised", TO_THE_END])
    pool, scores, runs = draw(SMALL, pool_answer(), audit_of([0.2, 0.0]), outcomes).axes
    titles = [panel.get_title() for panel in (pool, scores, runs)]
    assert titles == ["1. What can the pool tell?", "2. Are the scores right?", "3. Does a run help? (3 splits)"]
    np.testing.assert_allclose([bar.get_width() for bar in pool.patches], [0, np.mean([0.1, 0.2, -0.1]), 60])
    drawn = {line.get_label(): line for line in scores.lines}
    np.testing.assert_allclose(drawn["Laplace: τ = 0.50, k-hat 0.5"].get_ydata(), [-0.2, -0.1, 0.3])
    np.testing.assert_allclose(drawn["EP: τ = 0.50, k-hat 0.5"].get_ydata(), 0, atol=1e-15)
    np.testing.assert_allclose(drawn["its choice: loses 0.2 nats"].get_xydata(), [[-1, -0.2]])
    drawn = {line.get_label(): line for line in runs.lines}
    np.testing.assert_allclose(drawn["run to the end, mean ± 2 SE"].get_ydata(), [0, 0, 20 / 3])
    np.testing.assert_allclose(drawn["safe choice: supervised in 2 of 3"].get_ydata(), [0, 0, -10 / 3])
    assert runs.get_xlabel() == "pseudo-labels (pool of 30 rows)"


@pytest.mark.parametrize(
    ("output", "said"), [("missing/demo.png", "does not exist"), ("demo.xyz", "no ending of a figure"), ("demo", "no ending")]
)
def test_a_figure_that_cannot_be_written_is_refused_before_anything_runs(tmp_path, output, said, capsys):
    with pytest.raises(BPLSError, match=said):
        check_output(tmp_path / output)
    assert main(["demo", "--output", str(tmp_path / output)]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["demo", "--seeds", "0"], ["demo", "--seeds", "x"], ["other"]])
def test_a_wrong_command_line_is_refused(arguments):
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2


def test_jax_s_settings_are_as_before_after_the_demo():
    before = jax.config.jax_compilation_cache_dir
    with shared_compilations():
        assert jax.config.jax_compilation_cache_dir != before
    assert jax.config.jax_compilation_cache_dir == before
