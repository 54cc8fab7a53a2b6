"""Where the time of a run goes: `make test-times`.

Waiting is told apart from computing. A lab that knows what it waits for says so:

    with labs.spent("boot"):
        ...

`sleep` is what is slept outside of such a block. Computing is the processor time of the test's own process
and of the commands that it waited for; what daemons computed meanwhile is not in it.
"""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from tests.harness import labs

SLOWEST = 50
LEAST = 0.05
"""Seconds below which a fixture is not worth a line."""
_PROPERTY = "spent"

_sleep = time.sleep


def _counted_sleep(seconds: float) -> None:
    with labs.spent("sleep"):
        _sleep(seconds)


def _computed() -> float:
    """Seconds of processor time, of this process and its children that ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


class InWorker:
    """Measures each test, and sends the result along with its last report."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        labs.seconds.clear()
        item.stash[_BEGAN] = _computed()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        began = time.monotonic()
        try:
            return (yield)
        finally:
            seconds = time.monotonic() - began
            if seconds >= LEAST:
                labs.seconds[f"fixture {fixturedef.argname}"] += seconds

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        if call.when == "teardown":
            figures = {**labs.seconds, "computing": _computed() - item.stash[_BEGAN]}
            item.user_properties.append((_PROPERTY, figures))
        return (yield)


_BEGAN = pytest.StashKey[float]()


class InController:
    """Adds up what the workers send, and prints it at the end."""

    def __init__(self) -> None:
        self._tests: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self._tests[report.nodeid]
        test["seconds"] += report.duration
        for name, value in report.user_properties:
            if name == _PROPERTY and isinstance(value, dict):
                test.update(value)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        say = terminalreporter.write_line
        kinds = sorted({kind for test in self._tests.values() for kind in test if _is_waiting(kind)})
        head = f"{'seconds':>9} {'computing':>9} " + " ".join(f"{kind:>12}" for kind in kinds)
        suites: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        fixtures: dict[str, float] = defaultdict(float)
        for name, test in self._tests.items():
            for kind, value in test.items():
                suites[_suite(name)][kind] += value
                suites["all"][kind] += value
                if kind.startswith("fixture "):
                    fixtures[kind.removeprefix("fixture ")] += value
        for title, rows in (("suites", suites), (f"the slowest {SLOWEST} tests", self._tests)):
            terminalreporter.section(f"time: {title}")
            say(head)
            for name, row in _longest(rows):
                figures = " ".join(f"{row.get(kind, 0.0):12.1f}" for kind in kinds)
                say(f"{row['seconds']:9.1f} {row.get('computing', 0.0):9.1f} {figures}  {name}")
        terminalreporter.section("time: fixtures")
        for name, seconds in sorted(fixtures.items(), key=lambda each: -each[1])[:SLOWEST]:
            say(f"{seconds:9.1f}  {name}")


def _longest(rows: Mapping[str, Mapping[str, float]]) -> list[tuple[str, Mapping[str, float]]]:
    return sorted(rows.items(), key=lambda each: -each[1]["seconds"])[:SLOWEST]


def _is_waiting(kind: str) -> bool:
    return kind not in ("seconds", "computing") and not kind.startswith("fixture ")


def _suite(nodeid: str) -> str:
    """The test's file."""
    return nodeid.partition("::")[0].removeprefix("tests/")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", action="store_true", help="say at the end where the time went")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--times"):
        return
    worker = hasattr(config, "workerinput")
    if worker or not config.getoption("numprocesses", None):
        time.sleep = _counted_sleep
        config.pluginmanager.register(InWorker())
    if not worker:
        config.pluginmanager.register(InController())
