"""The documentation: `python -m sphinx -W --keep-going -b html notebooks site`, after `pip install -e ".[docs]"`."""

import base64
import json
import re
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

project = "pymc-bpls"
author = "pymc_bpls contributors"
copyright = author
release = installed("pymc-bpls")

extensions = [
    "myst_nb",
    "sphinx_design",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["**.ipynb_checkpoints"]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks as they were committed; the tests run them

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "pydata_sphinx_theme"
html_title = "pymc-bpls"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
}
templates_path = ["_templates"]


def as_they_are_written(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Names in docstrings are code, and each numbers its references from 1."""
    for place, line in enumerate(lines):
        code = re.sub(r"(?<![`:\w])`([^`<>]+)`(?![`_])", r"``\1``", line)
        lines[place] = re.sub(r"^\.\. \[(\d+)\] ", r"\1. ", re.sub(r"\[(\d+)\]_", r"[\1]", code))


def with_their_underscores(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Attributes as scikit-learn names them, `classes_`, are no references."""
    lines[:] = [re.sub(r"^:(ivar|vartype) (\w+)_:", r":\1 \2\\_:", line) for line in lines]


def studies_of_the_site(app: Any, name: str, source: list[str]) -> None:
    """Notebooks link to the reports of the repository, which are pages here."""
    source[0] = re.sub(r"\]\(\.\./validation/reports/(\w+)\.md", r"](studies/\1.md", source[0])
    source[0] = source[0].replace("](../validation/REPORT.md", "](studies/index.md")


def is_left_out(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """scikit-learn's own methods for metadata, whose docstrings refer to its glossary."""
    return True if name in ("set_fit_request", "set_score_request", "set_split_request") else None


def thumbnails(app: Any) -> None:
    """The last figure of each notebook, for the gallery."""
    folder = HERE / "_thumbnails"
    folder.mkdir(exist_ok=True)
    for notebook in HERE.glob("*.ipynb"):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
        figures = [data["image/png"] for data in outputs if "image/png" in data]
        (folder / f"{notebook.stem}.png").write_bytes(base64.b64decode(figures[-1]))


def setup(app: Any) -> None:
    """Docstrings and links as they are written."""
    app.connect("builder-inited", thumbnails)
    app.connect("autodoc-process-docstring", as_they_are_written, priority=400)
    app.connect("autodoc-process-docstring", with_their_underscores, priority=600)
    app.connect("autodoc-skip-member", is_left_out)
    app.connect("source-read", studies_of_the_site)
