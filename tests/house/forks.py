"""Tests that choose between representations of a posterior or of its rows: `python tests/house/forks.py` lists and counts them.

A fork is a call of `isinstance` (or a `case`) on a class that is a representation, an `is None` (or `is not None`) on what only
some representations have, or a use of a flag that names one. `forks.txt` holds the list as it was before rooms were merged:
`python tests/house/forks.py > tests/house/forks.txt`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "pymc_bpls"
#: Classes that represent θ, rows, curvatures, Gaussians, proposals, or a pool.
CLASSES = {
    "AffineRows", "ReducedRows", "SparseRows", "ConditionalRows", "MarginalRows", "Marginal", "Whole",
    "SparseCurvature", "SparseMaximum", "LocalGaussian", "SparseGaussian", "Gaussian", "SparsePart", "Mixture",
    "Proposal", "SparseProposal", "HierarchyProposal", "RowTarget", "Collapsed", "Engine", "ModelFit", "ModelScorer",
}  # fmt: skip
#: Names of what only some representations have.
PARTS = {
    "affine_rows", "sparse_rows", "hierarchy", "_row_spaces", "joint", "_lazy", "lazy", "space", "rows", "marginal",
    "gaussian_prior", "separable_prior", "affine_map", "pool", "sparse",
}  # fmt: skip
FLAGS = {"conditional", "padded", "one_class"}


def forks(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and code of each fork."""
    asserted = {id(node) for held in ast.walk(tree) if isinstance(held, ast.Assert) for node in ast.walk(held)}
    for node in ast.walk(tree):
        if id(node) in asserted:
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            if CLASSES & set(_names(node.args[1])):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.MatchClass) and CLASSES & set(_names(node.cls)):
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            none = isinstance(node.comparators[0], ast.Constant) and node.comparators[0].value is None
            if none and isinstance(node.left, ast.Attribute) and node.left.attr in PARTS:
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.If | ast.IfExp):
            used = [each.attr for each in ast.walk(node.test) if isinstance(each, ast.Attribute) and each.attr in FLAGS]
            if used:
                yield node.lineno, f"if {ast.unparse(node.test)}"


def _names(node: ast.AST) -> Iterator[str]:
    yield from (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def main() -> None:
    """Print every fork, then their number by file and in all."""
    total = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        found = sorted(forks(ast.parse(path.read_text())))
        total += len(found)
        for _, code in found:
            print(f"{path.relative_to(PACKAGE.parent)}: {code}")
    print(f"{total} forks")


if __name__ == "__main__":
    main()
