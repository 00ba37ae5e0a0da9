"""The documentation: it builds without a warning, has every public name, leads somewhere, and its examples run."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pymc_bpls as bpls
import pymc_bpls.sklearn
from pymc_bpls.scoring.criteria import CRITERIA

SITE = Path(__file__).parents[1] / "notebooks"
PAGES = sorted(path for path in (SITE / "guide").glob("*.md") if "```python" in path.read_text(encoding="utf-8"))
MOST_LINES = 16


def examples(path):
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def run(path, names):
    for code in examples(path):
        assert len(code.strip().splitlines()) <= MOST_LINES
        exec(compile(code, path.name, "exec"), names)


def test_the_reference_has_every_public_name():
    listed = re.findall(r"^   (\w+)$", (SITE / "api.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(listed) == sorted([*bpls.__all__, *pymc_bpls.sklearn.__all__])


def test_the_guide_names_every_criterion():
    table = (SITE / "guide" / "criteria.md").read_text(encoding="utf-8")
    assert set(re.findall(r'^\| `"(\w+)"`', table, flags=re.MULTILINE)) == set(CRITERIA)


def test_the_links_of_the_readme_lead_somewhere():
    readme = SITE.parent / "README.md"
    links = re.findall(r"\]\(([^)#]+)\)", readme.read_text(encoding="utf-8"))
    assert links
    assert not [link for link in links if not (readme.parent / link).exists()]


@pytest.fixture(scope="module")
def start():
    """What the start's examples leave behind, and what they printed."""
    names, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        run(SITE / "start.md", names)
    return names, " ".join(printed.getvalue().split())


def check_what_is_shown(path, printed):
    """Every piece of output on the page was printed, in this order."""
    shown = re.findall(r"```text\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    pieces = [" ".join(piece.split()) for text in shown for piece in text.split("…") if piece.strip()]
    places = [printed.find(piece) for piece in pieces]
    assert -1 not in places, pieces[places.index(-1)]
    assert places == sorted(places)


@pytest.mark.slow
def test_the_start_shows_what_its_examples_print(start):
    check_what_is_shown(SITE / "start.md", start[1])


# Bambi selects columns in a way that pandas will change
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_examples_of_a_page_run(path, start, capsys):
    run(path, dict(start[0]))
    printed = capsys.readouterr().out
    assert "nan" not in printed
    check_what_is_shown(path, " ".join(printed.split()))


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("sphinx", reason="the site needs the extra [docs]")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(SITE), str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
