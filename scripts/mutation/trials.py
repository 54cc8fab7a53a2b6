"""Tests run on one mutant, in a forked process with limits.

A mutant inside a function is tried in a fork of a process that has collected the tests: the functions that
were made of the old code get the new one. What runs while modules are imported is tried in a fork of a
process that has imported nothing of the project yet, and imports the changed module in place of the other.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest
from hypothesis import Phase, settings

EXAMPLES = 10
"""Examples of each property test: the same ones for each mutant."""
_MEMORY = 8 << 30
_LEAST_SECONDS, _LEAST_WAIT = 1.0, 60.0
"""Processor time, and time, that each test has at least; both grow with what it took unchanged."""
_SLOWER = 5.0
_STOPPED = (signal.SIGPROF, signal.SIGALRM)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The tests that failed, or were stopped (`late`), in the order they ran."""

    failed: tuple[str, ...]
    late: tuple[str, ...] = ()

    @property
    def killers(self) -> tuple[str, ...]:
        """All that noticed; none when the mutant survived."""
        return (*self.failed, *self.late)


class Tests:
    """A plugin of pytest: does `work` with the collected tests by name, and runs none by itself."""

    def __init__(self, work: Callable[[pytest.Session, Mapping[str, pytest.Item]], None]) -> None:
        self._work = work

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile(
            "mutants", deadline=None, derandomize=True, database=None, max_examples=EXAMPLES, phases=phases
        )
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        from tests.harness.examples import change_examples  # It is among the plugins of the tests.

        for item in session.items:
            # One that names its number of examples itself has no more of them either.
            change_examples(getattr(item, "obj", None), partial(min, EXAMPLES))
        gc.unfreeze()  # Tests freeze all that was collected, and what is frozen is not listed to `_work`.
        self._work(session, {item.nodeid: item for item in session.items})
        return True


def collected(
    paths: Iterable[str], scratch: Path, work: Callable[[pytest.Session, Mapping[str, pytest.Item]], None]
) -> None:
    """Collect the quick tests below `paths`, and do `work` with them; pytest says nothing."""
    options = ["-q", "-m", "not real", "-p", "no:cacheprovider", f"--basetemp={scratch / 'tests'}"]
    with silent():
        pytest.main([*options, *paths], plugins=[Tests(work)])


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Nothing that is written to standard output or error comes through."""
    sys.stdout.flush()
    kept = [os.dup(number) for number in (1, 2)]
    nothing = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nothing, number)
    os.close(nothing)
    try:
        yield
    finally:
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
            os.close(old)


class Log:
    """What a fork says of its tests, in a file: a process that is killed has still said it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("")

    def say(self, word: str, test: str) -> None:
        with self.path.open("a") as file:
            file.write(f"{word} {test}\n")

    def said(self, word: str) -> list[str]:
        lines = (line.partition(" ") for line in self.path.read_text().splitlines())
        return [test for first, _, test in lines if first == word]


class Failures:
    """A plugin of pytest: logs each failure; the first one ends the process where nothing more counts."""

    def __init__(self, log: Log, *, first_only: bool) -> None:
        self._log = log
        self._first_only = first_only

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._log.say("failed", report.nodeid)
            if self._first_only:
                os._exit(0)


def run(
    session: pytest.Session,
    items: Sequence[pytest.Item],
    log: Log,
    seconds: Mapping[str, float],
    *,
    first_only: bool,
) -> None:
    """Run these tests in this order, each with its limits. What is above a limit kills this process."""
    session.config.pluginmanager.register(Failures(log, first_only=first_only))
    if session.testsfailed:  # a file that cannot be imported with this change
        log.say("failed", "(import)")
        return
    for item, after in zip(items, [*items[1:], None], strict=True):
        log.say("began", item.nodeid)
        longer = _SLOWER * seconds.get(item.nodeid, 0.0)
        signal.setitimer(signal.ITIMER_PROF, _LEAST_SECONDS + longer)
        signal.setitimer(signal.ITIMER_REAL, _LEAST_WAIT + 4 * longer)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)


def forked(work: Callable[[Log], None], scratch: Path) -> tuple[Log, int]:
    """What `work` logged in a process of its own, and the signal that ended it; nothing of it is left."""
    log = Log(scratch / "log")
    child = os.fork()
    if child == 0:
        os.setsid()
        for each in _STOPPED:
            signal.signal(each, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(BaseException):
            work(log)
            os._exit(0)
        log.say("failed", "(crash)")
        os._exit(1)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return log, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def trial(
    tests: Sequence[str], start: Callable[[Log, Sequence[str]], None], scratch: Path, *, first_only: bool
) -> Outcome:
    """The outcome of these tests; `start` runs them in a fork. A test that is killed ends its fork: those
    after it get another one."""
    failed: list[str] = []
    late: list[str] = []
    left = list(tests)
    while left:
        log, ended_by = forked(lambda log, left=left: start(log, left), scratch)  # type: ignore[misc]
        failed += log.said("failed")
        began = log.said("began")
        if not ended_by or not began:
            failed += ["(import)"] if ended_by else []
            break
        (late if ended_by in _STOPPED else failed).append(began[-1])
        left = [] if first_only else left[left.index(began[-1]) + 1 :]
    return Outcome(tuple(dict.fromkeys(failed)), tuple(late))


# Changed code in a process


def functions() -> dict[tuple[str, str, int], list[FunctionType]]:
    """All functions that there are, by file, qualified name and first line."""
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            found.setdefault(_key(each.__code__), []).append(each)
    return found


def swap(code: CodeType, known: Mapping[tuple[str, str, int], list[FunctionType]]) -> None:
    """Give every function of a module its code from the changed module."""
    for part in _parts(code):
        if not part.co_name.startswith("<"):
            for function in known.get(_key(part), ()):
                function.__code__ = part


def free_names(code: CodeType) -> dict[tuple[str, str, int], tuple[str, ...]]:
    """What functions take from those around them: code that takes something else cannot be swapped in."""
    return {_key(part): part.co_freevars for part in _parts(code) if not part.co_name.startswith("<")}


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _parts(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _parts(constant)


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from changed code."""

    def __init__(self, path: Path, code: CodeType) -> None:
        self._path = path
        self._code = code

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        found = importlib.machinery.PathFinder.find_spec(name, path)
        if found is None or found.origin != str(self._path):
            return None
        return importlib.util.spec_from_file_location(
            name, self._path, loader=self, submodule_search_locations=found.submodule_search_locations
        )

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)

    def install(self) -> None:
        sys.meta_path.insert(0, self)
