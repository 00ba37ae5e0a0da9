"""Every notebook runs again, cell by cell, and was committed with outputs that a run gave."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks need the extra [notebooks]")
nbclient = pytest.importorskip("nbclient", reason="notebooks need the extra [notebooks]")

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
SECONDS_A_CELL = 90


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=SECONDS_A_CELL, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_was_committed_as_it_ran(path):
    cells = code_cells(nbformat.read(path, as_version=4))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    printed = [output for cell in cells for output in cell.outputs]
    assert any(output.output_type == "display_data" for output in printed), "no figure"
    assert not [output for output in printed if output.output_type == "error"]
    assert not [output for output in printed if output.get("name") == "stderr"], "warnings or progress left in the outputs"
