"""Which tests run which lines, and how long each takes: measured once, and kept until a file changes."""

from __future__ import annotations

import ast
import functools
import gc
import hashlib
import itertools
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import coverage
import pytest

from mutation.changes import Mutant
from mutation.trials import EXAMPLES, Failures, Log, collected, forked

PATIENCE = 8.0
"""Seconds of processor time, as measured, for the tests of one mutant."""
_LEFT_OUT = frozenset({"docs", "scripts", "site", "build", "dist", "__pycache__"})


class Reach:
    """The lines that each test of `folder` runs in modules below `root`."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._data = coverage.CoverageData(str(folder / "lines"))
        self._data.read()
        figures = json.loads((folder / "tests.json").read_text())
        self.seconds: Mapping[str, float] = figures["seconds"]
        self.failing: frozenset[str] = frozenset(figures["failing"])
        """Tests that fail with nothing changed: they say nothing of mutants."""

    def tests(self, mutant: Mutant) -> list[str]:
        """Those that come by, the fastest first: as many as take no longer than PATIENCE in all."""
        by_line = self._by_line(mutant.path)
        found = {test for line in mutant.lines for test in by_line.get(line, ())} - {""}
        if not found and (not mutant.function or self.when_imported(mutant)):
            found = self._through(mutant.path)
        fastest = sorted(found - self.failing, key=lambda test: (self.seconds[test], test))
        spent = itertools.accumulate(self.seconds[test] for test in fastest)
        return [test for test, so_far in zip(fastest, spent, strict=True) if so_far <= PATIENCE]

    def when_imported(self, mutant: Mutant) -> bool:
        """Whether it runs while the tests are collected, and not only in them."""
        by_line = self._by_line(mutant.path)
        return not mutant.function or any("" in by_line.get(line, ()) for line in mutant.lines)

    def lines(self, paths: Iterable[Path]) -> dict[str, set[tuple[Path, int]]]:
        """What each test runs of these modules."""
        found: dict[str, set[tuple[Path, int]]] = {test: set() for test in self.seconds}
        for path in paths:
            for line, tests in self._by_line(path).items():
                for test in tests:
                    found.setdefault(test, set()).add((path, line))
        found.pop("", None)
        return found

    @functools.cache  # noqa: B019
    def _by_line(self, path: Path) -> Mapping[int, list[str]]:
        return self._data.contexts_by_lineno(str(path))

    def _through(self, path: Path) -> set[str]:
        """Tests that run functions of a module or of those that import it; where none does, of those that
        import these, and so on."""
        found: set[str] = set()
        seen: set[Path] = set()
        near = {path}
        while near and not found:
            near |= {each for one in near for each in self._importers.get(_module(self._root, one), ())}
            near -= seen
            seen |= near
            found = {test for one in near for tests in self._by_line(one).values() for test in tests} - {""}
        return found

    @functools.cached_property
    def _importers(self) -> dict[str, set[Path]]:
        """Modules by the name of what they import."""
        found: dict[str, set[Path]] = {}
        for path in map(Path, self._data.measured_files()):
            for name in _imported(path):
                found.setdefault(name, set()).add(path)
        return found


def measured(root: Path, sources: Sequence[str], tests: Sequence[str], cache: Path, scratch: Path) -> Reach:
    """What is kept for these files as they are, or measured now, in processes of its own."""
    folder = cache / _fingerprint(root, sources, tests)
    if not (folder / "tests.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        seconds: dict[str, float] = {}
        log, _ = forked(lambda log: _measure(root, sources, tests, folder, log, scratch), scratch)
        for line in log.said("took"):
            spent, _, test = line.partition(" ")
            seconds[test] = float(spent)
        (folder / "tests.json").write_text(json.dumps({"seconds": seconds, "failing": log.said("failed")}))
    return Reach(root, folder)


def _measure(
    root: Path, sources: Sequence[str], tests: Sequence[str], folder: Path, log: Log, scratch: Path
) -> None:
    include = [f"{root / each}" if each.endswith(".py") else f"{root / each}/*" for each in sources]
    lines = coverage.Coverage(str(folder / "lines"), config_file=False, include=include, messages=False)
    lines.start()

    def work(session: pytest.Session, items: Mapping[str, pytest.Item]) -> None:
        session.config.pluginmanager.register(Failures(log, first_only=False))
        caches = _caches()
        for item, after in zip(items.values(), [*list(items.values())[1:], None], strict=True):
            for each in caches:  # else only the first test would be seen to come by
                each.cache_clear()
            lines.switch_context(item.nodeid)
            began = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            log.say("took", f"{time.process_time() - began:.4f} {item.nodeid}")

    collected(tests, scratch, work)
    lines.stop()
    lines.save()


def _caches() -> list[functools._lru_cache_wrapper[object]]:
    return [each for each in gc.get_objects() if isinstance(each, functools._lru_cache_wrapper)]


def _fingerprint(root: Path, sources: Sequence[str], tests: Sequence[str]) -> str:
    """Of what is measured, and of every file that may make a difference: tests of other parts make none."""
    digest = hashlib.sha256(repr((EXAMPLES, sorted(sources), sorted(tests))).encode())
    for path in _files(root):
        name = str(path.relative_to(root))
        if not path.name.startswith("test_") or name.startswith(tuple(tests)):
            digest.update(f"{name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(each for each in folders if each not in _LEFT_OUT and not each.startswith("."))
        yield from (Path(folder, name) for name in sorted(names) if Path(folder, name).is_file())


def _module(root: Path, path: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
