"""Mutants of a module: its source with one small mistake each, as somebody might make it.

What is changed is what a function does, and numbers elsewhere: never docstrings, annotations, decorators or assertions.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

_SWAPS: dict[type, tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"),
    ast.BitOr: (r"\|", "&"),
    ast.BitAnd: ("&", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
"""How an operator is written (a pattern), and what is written in its place."""
_SIGN = "~"
"""What is added to a text."""


@dataclass(frozen=True)
class Mutant:
    """One mistake: the line where it is, what it is, and the whole source with it."""

    line: int
    what: str
    source: str

    def diff(self, original: str, path: str) -> str:
        """Return what is different from the source without it."""
        lines = difflib.unified_diff(original.splitlines(), self.source.splitlines(), path, path, lineterm="", n=2)
        return "\n".join(lines)


def mutants_of(source: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its lines. Raises SyntaxError for what is no source."""
    found = {each.source: each for each in _Finder(source).find() if _is_another(each.source, source)}
    return sorted(found.values(), key=lambda each: (each.line, each.what))


def _is_another(mutated: str, source: str) -> bool:
    """Return whether it is source at all, and means something else."""
    try:
        return ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


class _Finder:
    """Goes through the syntax tree; what it changes it changes in the text, so that all else stays as it is."""

    def __init__(self, source: str) -> None:
        self._data = source.encode()
        self._tree = ast.parse(source)
        self._starts = [0]
        for line in self._data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def find(self) -> Iterator[Mutant]:
        for statement in self._tree.body:
            yield from self._outside(statement)

    # -- which parts are looked at ---------------------------------------------------------------------------------

    def _outside(self, statement: ast.stmt) -> Iterator[Mutant]:
        """Look at what is in no function: numbers and truth values there are settings."""
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from self._function(statement)
        elif isinstance(statement, ast.ClassDef):
            for each in statement.body:
                yield from self._outside(each)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            for node in ast.walk(statement.value):
                if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
                    yield from self._constant(node)

    def _function(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Mutant]:
        for default in (*function.args.defaults, *function.args.kw_defaults):
            if default is not None:
                yield from self._inside(default)
        for statement in function.body:
            yield from self._inside(statement)

    def _inside(self, node: ast.AST) -> Iterator[Mutant]:
        """Look at a statement or an expression of a function, and at all that is in it."""
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from self._function(node)
            return
        yield from self._changes(node)
        if isinstance(node, ast.JoinedStr):
            return  # the places of what is inside are not known before Python 3.12
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "decorator_list", "returns"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._inside(child)

    # -- what is changed -------------------------------------------------------------------------------------------

    def _changes(self, node: ast.AST) -> Iterator[Mutant]:
        if isinstance(node, ast.Constant):
            yield from self._constant(node)
        elif isinstance(node, ast.JoinedStr):
            yield self._replaced(node, re.sub(r"^(\w+)('''|\"\"\"|'|\")", rf"\1\2{_SIGN}", self._text(node)), "text")
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for left, operator, right in zip(sides, node.ops, node.comparators, strict=False):
                yield from self._swapped(left, operator, right)
        elif isinstance(node, ast.BoolOp):
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from self._swapped(left, node.op, right)
        elif isinstance(node, ast.BinOp):
            yield from self._swapped(node.left, node.op, node.right)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield self._replaced(node, f"({self._text(node.operand)})", "dropped not")
        elif isinstance(node, ast.Return) and node.value is not None:
            yield self._replaced(node.value, "None", "returned None")
        elif isinstance(node, ast.comprehension):
            yield from map(self._negated, node.ifs)
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            yield self._negated(node.test)
        if isinstance(node, ast.stmt) and _may_be_dropped(node):
            yield self._replaced(node, "pass", f"dropped {self._text(node).splitlines()[0]}")

    def _constant(self, node: ast.Constant) -> Iterator[Mutant]:
        value = node.value
        if isinstance(value, bool):
            yield self._replaced(node, repr(not value), f"{value} is {not value}")
        elif isinstance(value, (int, float)):
            yield self._replaced(node, repr(value + 1), f"{value} is {value + 1}")
        elif isinstance(value, str):
            yield self._replaced(node, repr(value + _SIGN), "text")
        elif isinstance(value, bytes):
            yield self._replaced(node, repr(value + _SIGN.encode()), "bytes")

    def _negated(self, test: ast.expr) -> Mutant:
        return self._replaced(test, f"not ({self._text(test)})", "negated")

    def _swapped(self, left: ast.expr, operator: ast.AST, right: ast.expr) -> Iterator[Mutant]:
        if type(operator) not in _SWAPS:
            return
        written, instead = _SWAPS[type(operator)]
        start, end = self._span(left)[1], self._span(right)[0]
        between = self._data[start:end].decode()
        text = re.sub(written, instead, between, count=1)
        yield self._made(left.end_lineno or left.lineno, start, end, text, f"{between.strip(' ()')} is {instead}")

    # -- the text --------------------------------------------------------------------------------------------------

    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._data[start:end].decode()

    def _replaced(self, node: ast.AST, text: str, what: str) -> Mutant:
        start, end = self._span(node)
        return self._made(node.lineno, start, end, text, what)  # type: ignore[attr-defined]

    def _made(self, line: int, start: int, end: int, text: str, what: str) -> Mutant:
        return Mutant(line, what, (self._data[:start] + text.encode() + self._data[end:]).decode())


def _may_be_dropped(statement: ast.stmt) -> bool:
    """Return whether a function may do without a statement and still be one: what is left names nothing unknown."""
    if isinstance(statement, (ast.AugAssign, ast.Delete, ast.Raise, ast.Continue, ast.Break)):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, (ast.Call, ast.Await, ast.Yield, ast.YieldFrom))
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in statement.targets)
    return isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Attribute)
