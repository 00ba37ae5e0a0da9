"""The package is a ladder of sub-packages, as `pyproject.toml` has it."""

from pathlib import Path

from importlinter import cli

ROOT = Path(__file__).parent.parent


def test_nothing_imports_upwards(capsys):
    assert cli.lint_imports(str(ROOT / "pyproject.toml"), no_cache=True) == cli.EXIT_STATUS_SUCCESS, capsys.readouterr().out
