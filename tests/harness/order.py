"""What runs first, and what side by side.

Tests that share a lab form a group (`pytest.mark.xdist_group`), which one worker runs in order; so do those
of a module that share a fixture of it, which each worker would make anew. Groups, and tests without one, run
side by side. A test says what it needs by the fixtures it asks for and by its marks; from these follows
whether it is `real`: whether it uses engines, nodes or processes. `-m "not real"` is the quick part.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadGroupScheduling

from tests.harness.labs import end_of

QUICK, REAL = "not real", "real and not campaign"
"""The expressions over marks that choose the two parts."""
LONGEST_FIRST = (
    "nspawn-provisioning", "kubernetes", "browser", "kubernetes-lost", "docker-clusters",
    "kubernetes-sessions", "nspawn-services", "nspawn-nvidia", "docker", "nspawn-machine", "nspawn-nodes",
    "sshd", "vm", "gitea", "machine", "tests/simulation/test_simulation.py",
    "tests/reconciler/test_growth.py", "tests/bai/web/test_growth.py",
    "tests/harness/test_fork_server.py", "tests/test_structure.py",
)  # fmt: skip
"""Groups that take minutes, and those that do in the quick part: whoever begins with the short ones waits for
a long one in the end."""
_MARKS = ("slow", "vm", "root", "xdist_group", "campaign")
_FIXTURES = frozenset({
    "chromium", "engines", "gitea", "keycloak", "kubernetes", "kubernetes_lab", "nodes", "postgres",
    "postgres_lab", "registry", "sshd_nodes", "vm",
})  # fmt: skip
_FOLDERS = (
    "tests/integration/", "tests/examples/", "tests/roles/", "tests/test_labs.py", "tests/test_wheel.py",
    "tests/providers/process/", "tests/providers/docker/", "tests/providers/kubernetes/",
    "tests/providers/gpu/", "tests/providers/ansible/", "tests/providers/ssh/", "tests/providers/storage/",
    "tests/providers/health/", "tests/hardware/", "tests/bai/web/browser/",
    "tests/bai/web/apps/proxy/", "tests/bai/web/apps/test_serve_apps.py",
    "tests/security/test_app_clients.py", "tests/security/test_session_",
    "tests/security/test_as_an_ordinary_user.py",
)  # fmt: skip
_SHOWN = re.compile(
    rf"\bmark\.(?:{'|'.join(_MARKS)})\b|\b(?:{'|'.join(sorted(_FIXTURES))})\b *:|[\"']postgresql\b"
)
"""In the text of a file outside of these folders that has real tests, or of a `conftest.py` beside it. To
read costs less than to import, in each worker, only to find that none of the tests is of this part."""
_WHOLLY = re.compile(rf"^pytestmark = .*\bmark\.(?:{'|'.join(_MARKS)})\b", re.MULTILINE)
"""In the text of a file outside of these folders that has only real tests."""
_ON_A_SERVER = re.compile(r"[\[-]postgresql[\]-]")
"""Of a test over several stores, the one that needs a database server."""


def is_real(item: pytest.Item) -> bool:
    """Whether it uses more than Python and files."""
    fixtures = getattr(item, "fixturenames", ())
    return (
        item.nodeid.startswith(_FOLDERS)
        or _ON_A_SERVER.search(item.nodeid) is not None
        or any(item.get_closest_marker(name) for name in _MARKS)
        or not _FIXTURES.isdisjoint(fixtures)
    )


def group_of(item: pytest.Item) -> str:
    """Its group; empty when it has none."""
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0] if mark.args else mark.kwargs["name"]) if mark is not None else ""


def _shares_a_fixture(item: pytest.Item) -> bool:
    """Whether it asks for something that is made once for all tests of its module."""
    known = getattr(item, "_fixtureinfo", None)
    return known is not None and any(
        definitions[-1].scope == "module" for definitions in known.name2fixturedefs.values()
    )


def _rank(item: pytest.Item) -> int:
    group = group_of(item)
    if group in LONGEST_FIRST:
        return LONGEST_FIRST.index(group)
    return len(LONGEST_FIRST) + (0 if item.get_closest_marker("slow") else 1)


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The longest first; otherwise as they stand."""
    return sorted(items, key=_rank)


@functools.cache
def _shows_real_tests(path: Path) -> bool:
    return any(
        each.exists() and _SHOWN.search(each.read_text()) for each in (path, path.with_name("conftest.py"))
    )


@functools.cache
def _is_wholly_real(path: Path) -> bool:
    return _WHOLLY.search(path.read_text()) is not None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The quick part does not import what is real as a whole, nor the real part what has nothing real."""
    part = config.getoption("markexpr", "")
    name = collection_path.relative_to(config.rootpath).as_posix()
    in_folder = f"{name}/".startswith(_FOLDERS)
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    other = (part == QUICK and (in_folder or (is_test and _is_wholly_real(collection_path)))) or (
        part == REAL and is_test and not in_folder and not _shows_real_tests(collection_path)
    )
    return True if other else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if is_real(item):
            item.add_marker(pytest.mark.real)
            if not (item.nodeid.startswith(_FOLDERS) or _shows_real_tests(item.path)):
                raise pytest.UsageError(f"{item.nodeid}: the real part would not import this file (_SHOWN)")
    if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        for item in items:
            if not group_of(item) and _shares_a_fixture(item):
                item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
        items[:] = in_order(items)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """A lab whose group is over in this worker has no more to do here, and would go on computing."""
    group = group_of(item)
    if group and (nextitem is None or group_of(nextitem) != group) and not _comes_again(item, group):
        end_of(group)


def _comes_again(item: pytest.Item, group: str) -> bool:
    """Whether tests of the group are still to come: without workers, they are not brought together."""
    if hasattr(item.config, "workerinput"):
        return False
    rest = item.session.items[item.session.items.index(item) + 1 :]
    return any(group_of(each) == group for each in rest)


def pytest_configure(config: pytest.Config) -> None:
    # pytest-xdist would order the groups by the number of their tests.
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


class _Groups(LoadGroupScheduling):  # type: ignore[misc]
    """After each test pytest-xdist goes through all that a worker was given: what is done is left out."""

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        for group in [name for name, tests in workload.items() if all(tests.values())]:
            del workload[group]
        return sum(not done for tests in workload.values() for done in tests.values())


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadGroupScheduling | None:
    return _Groups(config, log) if config.getoption("dist") == "loadgroup" else None
