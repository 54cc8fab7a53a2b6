"""Small changes to a module, one at a time: what a test that means something should notice.

Left alone are annotations, decorators, assertions, `__repr__`, texts and what is logged: they say something
to people, or to a type checker, and few of their changes are mistakes.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.Pow: ast.Mult,
}  # fmt: skip
_LOGGING = ("debug", "info", "warning", "error", "exception")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one change."""

    path: Path
    line: int
    what: str
    lines: frozenset[int]
    """Where tests come by that may notice."""
    function: str
    """Qualified name of the outermost function with the change; empty for what runs when it is imported."""
    compiled: Callable[[], CodeType]
    """The whole module with this change."""


@dataclass(frozen=True, slots=True)
class _Edit:
    """`owner.field`, or its part at `index`, becomes `new`."""

    owner: ast.AST
    field: str
    index: int | None
    new: ast.AST
    line: int
    what: str
    lines: frozenset[int]
    function: str


def mutants(path: Path) -> Iterator[Mutant]:
    """Every change to a module, in the order of its lines."""
    tree = ast.parse(path.read_bytes())
    for edit in sorted(_Finder().edits(tree), key=lambda each: each.line):
        compiled = functools.partial(_compiled, tree, edit, path)
        yield Mutant(path, edit.line, edit.what, edit.lines, edit.function, compiled)


def _compiled(tree: ast.Module, edit: _Edit, path: Path) -> CodeType:
    old = _put(edit, edit.new)
    try:
        return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)
    finally:
        _put(edit, old)


def _put(edit: _Edit, new: ast.AST) -> ast.AST:
    """Gives what stood there."""
    if edit.index is None:
        old: ast.AST = getattr(edit.owner, edit.field)
        setattr(edit.owner, edit.field, new)
    else:
        place = getattr(edit.owner, edit.field)
        old, place[edit.index] = place[edit.index], new
    return old


class _Finder:
    """Walks a module; knows in which function and statement it is."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._function = ""
        self._statement: ast.stmt | None = None
        self._body: frozenset[int] = frozenset()
        """Lines of the function whose defaults are looked at."""

    def edits(self, node: ast.AST) -> Iterator[_Edit]:
        for field, value in ast.iter_fields(node):
            parts = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
            for index, part in parts:
                if isinstance(part, ast.AST) and not _is_left_alone(node, field, part):
                    yield from self._of_part(node, field, index, part)

    def _of_part(self, owner: ast.AST, field: str, index: int | None, part: ast.AST) -> Iterator[_Edit]:
        before = self._function, self._statement, self._body
        if isinstance(part, ast.stmt):
            self._statement = part
        for new, what in _replacements(part, owner, field, inside=bool(self._function)):
            at = part.test if isinstance(part, ast.If) else part
            lines = self._body or self._lines(at)
            line = getattr(at, "lineno", 0)
            yield _Edit(owner, field, index, new, line, what, lines, self._function)
        if isinstance(part, (*_FUNCTIONS, ast.ClassDef)):
            yield from self._of_definition(part)
        else:
            yield from self.edits(part)
        self._function, self._statement, self._body = before

    def _of_definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[_Edit]:
        self._names.append(node.name)
        body = ast.Module(node.body, [])
        if isinstance(node, _FUNCTIONS):
            self._body = frozenset(range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1))
            yield from self.edits(node.args)
            self._body = frozenset()
            self._function = self._function or ".".join(self._names)
        yield from self.edits(body)
        self._names.pop()

    def _lines(self, node: ast.AST) -> frozenset[int]:
        first: int = getattr(node, "lineno", 0)
        last: int = getattr(node, "end_lineno", None) or first
        start = self._statement.lineno if self._statement is not None else first
        return frozenset({start, *range(first, last + 1)})


def _is_left_alone(owner: ast.AST, field: str, part: ast.AST) -> bool:
    match part:
        case ast.Assert() | ast.JoinedStr():
            return True
        case ast.FunctionDef(name="__repr__"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Subscript(value=ast.Name(id="Literal")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=verb))):
            return name in ("log", "logger", "_log") and verb in _LOGGING
    return field in ("annotation", "returns", "decorator_list", "ops", "op", "ctx", "type_comment")


def _replacements(
    node: ast.AST, owner: ast.AST, field: str, *, inside: bool
) -> Iterator[tuple[ast.AST, str]]:
    """What may stand in its place, located where it stood."""
    for new, what in _statements(node) if isinstance(node, ast.stmt) else _expressions(node, owner, field):
        removed_name = isinstance(node, ast.Assign | ast.AnnAssign) and not inside
        type_union = isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and not inside
        if not removed_name and not type_union:
            yield (new if new is getattr(node, "operand", None) else ast.copy_location(new, node)), what


def _statements(node: ast.stmt) -> Iterator[tuple[ast.AST, str]]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Assign() | ast.AugAssign() | ast.Raise():
            yield ast.Pass(), f"removed: {_text(node)}"
        case ast.Continue() | ast.Break() | ast.Delete():
            yield ast.Pass(), f"removed: {_text(node)}"
        case ast.AnnAssign(value=ast.expr()):
            yield ast.Pass(), f"removed: {_text(node)}"
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            yield ast.Return(ast.Constant(None)), f"returns None in place of {_text(value)}"
        case ast.If(test=test, body=body, orelse=orelse):
            for constant in (True, False):
                new = ast.If(ast.copy_location(ast.Constant(constant), test), body, orelse)
                yield new, f"if {_text(test)} -> if {constant}"
    if isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        other = ast.AugAssign(node.target, _ARITHMETIC[type(node.op)](), node.value)
        yield other, f"{_text(node)} -> {_text(other)}"


def _expressions(node: ast.AST, owner: ast.AST, field: str) -> Iterator[tuple[ast.AST, str]]:
    if not isinstance(node, ast.expr):
        return
    for new in _other_expressions(node, owner):
        yield new, f"{_text(node)} -> {_text(new)}"
    if isinstance(node, ast.IfExp) or (isinstance(owner, ast.comprehension) and field == "ifs"):
        test = node.test if isinstance(node, ast.IfExp) else node
        for constant in (True, False) if isinstance(node, ast.IfExp) else (True,):
            new = ast.Constant(constant)
            if isinstance(node, ast.IfExp):
                new = ast.IfExp(ast.copy_location(new, test), node.body, node.orelse)
            yield new, f"if {_text(test)} -> if {constant}"


def _other_expressions(node: ast.expr, owner: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for at, op in enumerate(ops):
                for other in _COMPARISONS[type(op)]:
                    yield ast.Compare(left, [*ops[:at], other(), *ops[at + 1 :]], comparators)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) in _ARITHMETIC and not (_is_sequence(left) or _is_sequence(right)):
                yield ast.BinOp(left, _ARITHMETIC[type(op)](), right)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Constant(value=str() as value) if isinstance(owner, ast.Compare | ast.MatchValue):
            yield ast.Constant(value + "?")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_sequence(node: ast.expr) -> bool:
    """Whether only `+` makes sense of it: any other operator fails wherever it is tried."""
    literal = ast.List | ast.Tuple | ast.ListComp | ast.JoinedStr
    return isinstance(node, literal) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
