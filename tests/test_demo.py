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
from pymc_bpls.comparison.differences import bonferroni
from pymc_bpls.demo.command import check_output, run_demo
from pymc_bpls.demo.results import collect, differences
from pymc_bpls.demo.runs import Setting, draw_split, shared_compilations
from pymc_bpls.demo.words import report, verdict
from pymc_bpls.errors import BPLSError
from pymc_bpls.plots.accuracy import plot_accuracy

README = Path(__file__).parents[1] / "README.md"
SMALL = Setting(dataset="banknote", n_labeled=12, n_unlabeled=30, rounds=3, seeds=1, criteria=("probability", "random"))


def recorder():
    return Console(record=True, width=80, color_system=None, file=StringIO())


def made_up(finals):
    """What `compare` would find under one prior, in runs that start at 0.5: `finals` by criterion, one a split."""
    accuracy = [[[0.5, 0.5, 0.5, value] for value in values] for values in finals.values()]
    shape = np.shape(accuracy)[:2]
    same = {"seconds": 1.0, "compiling": 0.0, "stop_reason": "all done", "stop_kind": "rounds"}
    return xr.Dataset(
        {
            "accuracy": (("criterion", "split", "n_pseudo"), accuracy),
            **{name: (("criterion", "split"), np.full(shape, value)) for name, value in same.items()},
        },
        coords={"criterion": list(finals), "split": range(shape[1]), "n_pseudo": range(4)},
    )


def results_of(informative, weak):
    """Made-up results in which `probability` ends so, and `random` at 0.5, nearly."""
    near = 0.5 + 0.001 * np.sin(np.arange(len(informative)))
    return collect(SMALL, [made_up({"probability": finals, "random": near}) for finals in (informative, weak)])


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


def test_the_demo_prints_a_table_a_prior_and_writes_the_figure(tmp_path):
    console, output = recorder(), tmp_path / "demo.png"
    assert run_demo(SMALL, output, console) == 0
    text = console.export_text()
    assert output.read_bytes().startswith(b"\x89PNG")
    assert "Informative prior: coefficients ~ Normal(0, 0.5)" in text
    assert "Weak prior: coefficients ~ Normal(0, 2.5)" in text
    for first in ("supervised", "probability", "random"):
        assert len(re.findall(rf"^ {first} .* ±", text, flags=re.MULTILINE)) == 2
    assert "One split has no standard error" in text
    assert "1 of 1 splits" in text and str(output.name) in text.replace("\n", "")
    assert max(map(len, text.splitlines()[:-3])) <= 80


def test_runs_that_ended_before_their_rounds_are_told_by_their_code():
    done = results_of([0.6, 0.7], [0.6, 0.7])
    ends = {"stop_kind": np.array(["rounds", "pool"]), "stop_reason": np.array(["3 rounds are done", "nothing is left"])}
    console, console_of_all_done = recorder(), recorder()
    report(done.assign({name: (("split",), values) for name, values in ends.items()}), console)
    report(done, console_of_all_done)
    assert "Some runs ended early and keep their last accuracy: nothing is left" in console.export_text()
    assert "ended early" not in console_of_all_done.export_text()


def test_an_interrupted_demo_reports_the_splits_that_it_finished(tmp_path, monkeypatch):
    three = Setting(SMALL.dataset, SMALL.n_labeled, SMALL.n_unlabeled, SMALL.rounds, 3, SMALL.criteria)
    found = [made_up({"probability": [0.6] * n, "random": [0.5] * n}) for n in (3, 2)]

    def interrupted_after(some):
        left = iter(some)

        def compare(*arguments, **options):
            try:
                return next(left)
            except StopIteration:
                raise KeyboardInterrupt from None

        monkeypatch.setattr("pymc_bpls.demo.runs.compare", compare)
        console = recorder()
        assert run_demo(three, tmp_path / f"{len(some)}.svg", console) == 130
        return console.export_text()

    assert "Interrupted after 2 of 3 splits" in interrupted_after(found)
    text = interrupted_after(found[:1])
    assert "Interrupted after 3 of 3 splits" in text and "Weak prior" not in text
    assert "Interrupted after 2 of 3 splits" in interrupted_after(found[1:])
    assert "nothing to report" in interrupted_after([])
    assert not (tmp_path / "0.svg").exists()


def test_splits_are_disjoint_and_the_same_for_the_same_seed():
    split, again = draw_split(SMALL, 3), draw_split(SMALL, 3)
    everything = np.concatenate([split.labeled, split.candidates, split.test])
    assert sorted(everything.tolist()) == list(range(200))
    np.testing.assert_array_equal(split.labeled, again.labeled)


def test_differences_are_paired_by_split():
    results = results_of([0.6, 0.7], [0.5, 0.5])
    compared = differences(results)["supervised"]["informative", "probability"]
    assert compared.mean == pytest.approx(0.15)
    assert compared.error == pytest.approx(0.05)
    assert ("informative", "random") not in differences(results)["random"]


def test_a_clear_gain_is_said_to_be_one():
    text = verdict(results_of([0.7, 0.71, 0.69, 0.7, 0.705], [0.5, 0.51, 0.49, 0.5, 0.5]))
    assert text.startswith(
        "Gained beyond chance over the supervised model and over random selection: probability (informative prior)."
    )
    assert "Beyond chance means more than 4.9 standard errors (Student's t, 5 splits, Bonferroni over 6 differences" in text


def test_few_splits_are_said_to_tell_little():
    text = verdict(results_of([0.6, 0.62, 0.61], [0.5, 0.51, 0.49]))
    assert "So few splits tell only very large differences from chance (Student's t, 3 splits," in text
    assert "more than 7" not in text


def test_no_gain_and_harm_are_said_plainly():
    text = verdict(results_of([0.3, 0.31, 0.29, 0.3, 0.305], [0.5, 0.51, 0.49, 0.5, 0.5]))
    assert text.startswith("Nothing was gained beyond chance")
    assert "Worse than the supervised model beyond chance: probability (informative prior)." in text


def test_the_bound_is_student_s_and_grows_with_the_comparisons():
    assert bonferroni(10_000, 1) == pytest.approx(1.96, abs=0.01)
    assert bonferroni(5, 1) == pytest.approx(2.776, abs=0.001)
    assert bonferroni(5, 26) > bonferroni(5, 1)
    assert bonferroni(1, 1) == np.inf


def test_the_figure_has_a_panel_a_prior_a_line_a_criterion_and_labels():
    results = results_of([0.6, 0.7], [0.5, 0.5])
    figure = plot_accuracy(results)
    assert [panel.get_title() for panel in figure.axes] == ["Informative prior: Normal(0, 0.5)", "Weak prior: Normal(0, 2.5)"]
    for panel in figure.axes:
        assert panel.get_xlabel() == "pseudo-labels (pool of 30 rows)"
        supervised, probability, _ = panel.lines
        assert set(supervised.get_ydata()) == {0.5}
        np.testing.assert_array_equal(probability.get_xdata(), np.arange(4))
        assert len(panel.collections) == 2
    assert figure.axes[0].get_ylabel() == "accuracy on 158 held-out rows\n(share right)"
    assert "n = 12 labeled, mean of 2 splits" in figure.get_suptitle()
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["supervised", "probability", "random"]


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
