"""How the code is laid out: import arrows, functions, parameters, decisions. One worker runs these tests, and
parses every module once."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("schemas", "planner", "providers", "reconciler", "bai")
MAY_IMPORT = {
    "schemas": set[str](),
    "planner": {"schemas"},
    "providers": {"schemas"},
    "reconciler": {"schemas", "planner", "providers"},
    "bai": {"schemas", "planner", "providers", "reconciler"},
}


@pytest.fixture(scope="module")
def trees() -> Iterator[Mapping[str, ast.Module]]:
    """By dotted name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        import structure  # type: ignore[import-not-found]

        yield structure.modules(ROOT)
        structure.modules.cache_clear()
        structure.nodes.cache_clear()


def imported(tree: ast.Module) -> set[str]:
    """Top-level names of all absolute imports, those inside functions and `if TYPE_CHECKING` too."""
    from structure import nodes

    found = set()
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_arrows_point_one_way(package: str, trees: Mapping[str, ast.Module]) -> None:
    inside = {name: tree for name, tree in trees.items() if name.partition(".")[0] == package}
    assert len(inside) == len(list((ROOT / package).rglob("*.py"))) > 0
    forbidden = set(PACKAGES) - MAY_IMPORT[package] - {package}
    wrong = {name: imported(tree) & forbidden for name, tree in inside.items()}
    assert {name: names for name, names in wrong.items() if names} == {}


def test_no_function_needs_much_scrolling(trees: Mapping[str, ast.Module]) -> None:
    from structure import nodes

    long = []
    for name, tree in trees.items():
        for node in nodes(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > 60:
                    long.append(f"{name}:{node.lineno} {node.name} ({length} lines)")
    assert long == []


def test_no_text_for_people_decides_anything(trees: Mapping[str, ast.Module]) -> None:
    """A cause has a code beside its text (`reconciler.values.changes.cause`), a change a kind beside its
    path, an issue its type."""
    from structure import decisions_by_text

    assert decisions_by_text(trees) == []
    found = ("if action.why.startswith('moved'): pass", "x = 'new' == action.cause", "y = 'gone' in seen.why")
    assert decisions_by_text({f"m{at}": ast.parse(one) for at, one in enumerate(found)}) == [
        "m0:1",
        "m1:1",
        "m2:1",
    ]
    assert decisions_by_text({"m": ast.parse("if not seen.why or seen.why == other.why: pass")}) == []


def test_no_list_of_parameters_is_long(trees: Mapping[str, ast.Module]) -> None:
    """What travels together is a value (`PlanOptions`, `LoopOptions`, `Replica`); options of commands are
    their command line."""
    from structure import parameters

    assert [one for one in parameters(trees) if one[0] > 7] == []
