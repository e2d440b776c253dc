"""The import statements of a program, for tests that say what may be imported where."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")


def import_statements(tree: ast.Module) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Yield each import statement, wherever it stands, and whether it is under `if TYPE_CHECKING`.

    Expressions hold no imports and are nine tenths of a tree: they are not looked at.
    """
    todo: list[tuple[ast.AST, bool]] = [(tree, False)]
    while todo:
        node, for_types = todo.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, for_types
            continue
        guards = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for block in _BLOCKS:
            inside = for_types or (guards and block == "body")
            todo += [(inner, inside) for inner in getattr(node, block, ())]
