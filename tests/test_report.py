"""The one report is made of the studies' reports, and nothing in it leads nowhere."""

import re
from pathlib import Path

import pytest

from validation.report import anchor, assemble, nested, title

VALIDATION = Path(__file__).parents[1] / "validation"


def test_the_report_is_what_the_studies_wrote():
    assert (VALIDATION / "REPORT.md").read_text() == assemble(VALIDATION / "reports")


def test_figures_and_contents_of_the_report_are_there():
    text = (VALIDATION / "REPORT.md").read_text()
    files = re.findall(r"\[[^\]]*\]\(([^)#]+)\)", text)
    assert files
    assert all((VALIDATION / file).is_file() for file in files)
    headings = {anchor(heading) for heading in re.findall(r"^## (.+)$", text, flags=re.MULTILINE)}
    links = re.findall(r"^- \[[^\]]+\]\(#([^)]+)\)$", text, flags=re.MULTILINE)
    assert len(links) == len(list((VALIDATION / "reports").glob("*.md")))
    assert set(links) <= headings


def test_a_report_becomes_a_part():
    text = "# A title, with (signs)\n\n## Part\n\n![x](a.png), ![y](https://host/b.png), [z](c.csv)\n"
    assert (
        nested(text)
        == "## A title, with (signs)\n\n### Part\n\n![x](reports/a.png), ![y](https://host/b.png), [z](reports/c.csv)\n"
    )
    assert (title(text), anchor(title(text))) == ("A title, with (signs)", "a-title-with-signs")
    with pytest.raises(ValueError, match="A report has no heading"):
        title("nothing")
