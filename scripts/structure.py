"""Figures about how the code is laid out: modules per folder, circles of imports, long parameter lists, kinds
that are told by the beginning of a string, decisions that rest on what a text says to people.

    python scripts/structure.py            # of this working copy
    python scripts/structure.py FOLDER     # of another one
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

PACKAGES = ("schemas", "planner", "providers", "reconciler", "bai")
FLAT = {"bai/cli/commands", "reconciler/store/migrations/versions"}
"""One module for each command, and for each migration: nobody looks for anything else there."""
_BY_PREFIX = re.compile(r"""startswith\(\(?f?["'][A-Z][A-Za-z]+/""")


@functools.cache
def modules(root: Path) -> dict[str, ast.Module]:
    """By dotted name, packages included; read once."""
    found = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@functools.cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """What is looked for below; walked through once."""
    kinds = (ast.stmt, ast.Compare, ast.Call)
    return tuple(node for node in ast.walk(tree) if isinstance(node, kinds))


def per_folder(root: Path) -> Counter[str]:
    """How many modules each folder holds, subfolders and `__init__.py` apart."""
    paths = (path for package in PACKAGES for path in (root / package).rglob("*.py"))
    return Counter(str(path.parent.relative_to(root)) for path in paths if path.name != "__init__.py")


def imports(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Which modules each imports, those included that only types need and those inside of functions."""

    def named(node: ast.stmt) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in trees else node.module

    return {
        name: {to for node in nodes(tree) if isinstance(node, ast.stmt) for to in named(node)}
        & trees.keys() - {name}
        for name, tree in trees.items()
    }


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Strongly connected components of more than one module (Tarjan 1972, without recursion)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []
    for root in graph:
        if root in order:
            continue
        todo: list[tuple[str, Iterator[str]]] = []

        def enter(name: str, todo: list[tuple[str, Iterator[str]]] = todo) -> None:
            order[name] = low[name] = len(order)
            stack.append(name)
            todo.append((name, iter(sorted(graph.get(name, ())))))

        enter(root)
        while todo:
            name, rest = todo[-1]
            for to in rest:
                if to not in order:
                    enter(to)
                    break
                if to in stack:
                    low[name] = min(low[name], order[to])
            else:
                todo.pop()
                if todo:
                    low[todo[-1][0]] = min(low[todo[-1][0]], low[name])
                if low[name] == order[name]:
                    at = stack.index(name)
                    if len(stack) - at > 1:
                        found.append(sorted(stack[at:]))
                    del stack[at:]
    return found


def between_siblings(graph: Mapping[str, set[str]]) -> dict[str, list[list[str]]]:
    """For each package, circles among what lies directly in it, each subfolder taken as a whole."""
    parents = {name.rpartition(".")[0] for name in graph} - {""}
    found = {}
    for parent in sorted(parents):
        inside: dict[str, set[str]] = defaultdict(set)
        depth = parent.count(".") + 2
        for name, to in graph.items():
            if not name.startswith(f"{parent}."):
                continue
            here = ".".join(name.split(".")[:depth])
            inside[here] |= {
                there
                for one in to
                if one.startswith(f"{parent}.") and (there := ".".join(one.split(".")[:depth])) != here
            }
        if bad := circles(inside):
            found[parent] = bad
    return found


def parameters(trees: Mapping[str, ast.Module]) -> list[tuple[int, str]]:
    """Functions by how many parameters they have, the longest list first; commands apart, whose options they
    are."""
    found = []
    for name, tree in trees.items():
        if name.startswith("bai.cli.commands") or name == "bai.cli.main":
            continue
        for node in nodes(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = node.args
                count = len([*given.posonlyargs, *given.args, *given.kwonlyargs])
                found.append((count, f"{name}.{node.name}"))
    return sorted(found, key=lambda one: (-one[0], one[1]))


def kinds_by_prefix(root: Path) -> list[str]:
    """Where the kind of an identity is told by how the string begins."""
    return [
        f"{path.relative_to(root)}:{number}"
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if _BY_PREFIX.search(line)
    ]


_DISPLAYED = frozenset({"why", "message", "hint", "title", "cause", "summary"})
_PARTS = frozenset(
    {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split"}
)


def decisions_by_text(trees: Mapping[str, ast.Module]) -> list[str]:
    """Where a text for people is taken apart or compared with words. Providers apart: engines and programs
    often have nothing but words for what went wrong."""
    return [
        f"{name}:{node.lineno}"
        for name, tree in trees.items()
        if not name.startswith("providers")
        for node in nodes(tree)
        if (isinstance(node, ast.Compare) and _compares_text(node))
        or (isinstance(node, ast.Call) and _takes_text_apart(node))
    ]


def _compares_text(node: ast.Compare) -> bool:
    sides = (node.left, *node.comparators)
    words = (side.value for side in sides if isinstance(side, ast.Constant))
    return any(isinstance(word, str) and word for word in words) and any(map(_is_displayed, sides))


def _takes_text_apart(node: ast.Call) -> bool:
    function = node.func
    taken = isinstance(function, ast.Attribute) and function.attr in _PARTS and _is_displayed(function.value)
    return taken and bool(node.args)


def _is_displayed(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _DISPLAYED


def main(root: Path) -> None:
    trees = modules(root)
    graph = imports(trees)
    print("modules per folder, the fullest ten:")
    for folder, count in per_folder(root).most_common(10):
        print(f"  {count:4}  {folder}")
    print("circles of modules:")
    for circle in sorted(circles(graph), key=len, reverse=True):
        print(f"  {len(circle):4}  {' '.join(circle)}")
    print("circles between siblings:")
    for parent, found in between_siblings(graph).items():
        for circle in found:
            print(f"  {len(circle):4}  in {parent}: {' '.join(each.rpartition('.')[2] for each in circle)}")
    print("longest parameter lists:")
    for count, function in parameters(trees)[:10]:
        print(f"  {count:4}  {function}")
    print(f"kinds told by a prefix: {len(kinds_by_prefix(root))}")
    print(f"decisions by what a text says: {len(decisions_by_text(trees))}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]))
