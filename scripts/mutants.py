"""Changes modules, one small change at a time, and says which changes no test notices.

    make mutants AREA=planner SAMPLE=200
    .venv/bin/python scripts/mutants.py reconciler/apply/graph_walk.py --tests tests/reconciler --all

An area is a part of bai with the quick tests that stand beside it, or any module or folder. Each mutant is
tried with the tests that come by its line, the fastest first, and is killed by the first that fails or takes
far too long. Property tests draw the same examples for each mutant. No file of the working tree is changed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import importlib
import os
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from mutation.changes import Mutant, mutants
from mutation.reach import Reach, measured
from mutation.trials import Changed, Log, Outcome, collected, free_names, functions, run, swap, trial

CACHE = ".coverage-mutants"
HEAVY = ("cryptography", "git", "jinja2", "jsonschema", "numpy", "paramiko", "pydantic", "sqlalchemy", "yaml")
"""Packages of others that nearly every test needs, imported once for all forks."""


@dataclass(frozen=True, slots=True)
class Area:
    """Modules, and the tests that are meant for them."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


_RECONCILER_TESTS = ("tests/reconciler",)
AREAS = {
    "planner": Area(("planner",), ("tests/planner",)),
    "plan": Area(
        ("reconciler/plan", "reconciler/values/documents"),
        _RECONCILER_TESTS,
    ),
    "guards": Area(("reconciler/guards",), ("tests/reconciler/guards",)),
    "apply": Area(
        (
            *(
                f"reconciler/apply/{name}.py"
                for name in (
                    "action_graph", "apply", "effect_runner", "effects", "executor", "graph_walk",
                    "journal_writer", "progress", "steps",
                )
            ),
            "reconciler/observe/observe.py", "reconciler/values/encoding/fingerprint.py",
            "reconciler/values/results.py", "reconciler/values/session_phase.py",
        ),
        _RECONCILER_TESTS,
    ),
    "leases": Area(
        (
            "reconciler/controller/leader.py", "reconciler/store/database/process_identity.py",
            "reconciler/store/database/upsert.py", "reconciler/store/leases.py", "reconciler/store/rows.py",
            "reconciler/store/store.py", "reconciler/store/usage_and_contact.py",
            "reconciler/store/writes.py",
        ),
        _RECONCILER_TESTS,
    ),
    "loader": Area(
        tuple(
            f"schemas/{name}.py"
            for name in (
                "files/git_source", "files/sources", "files/yaml_layout", "files/yaml_reader",
                "files/yaml_scalars", "loading/documents", "loading/loader", "problems/issues",
                "problems/positions", "repository/node_ranges", "repository/repository",
                "rules/document_rules", "rules/membership", "rules/references", "templates/expansion",
                "templates/rendering", "values/envelope", "values/names", "values/quantities",
            )
        ),
        ("tests/schemas",),
    ),
}  # fmt: skip


class Campaign:
    """Mutants of modules, tried one after the other."""

    def __init__(self, root: Path, reach: Reach, tests: Sequence[str], scratch: Path, *, first_only: bool):
        self._root = root
        self._reach = reach
        self._tests = tests
        self._scratch = scratch
        self._first_only = first_only
        self.outcomes: dict[Mutant, Outcome] = {}
        self._out = os.fdopen(os.dup(2), "w", buffering=1)

    def run(self, chosen: Sequence[Mutant]) -> None:
        """Try them all: first those for which modules have to be imported anew."""
        for name in HEAVY:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        cold = [mutant for mutant in chosen if self._reach.when_imported(mutant) or _takes_more(mutant)]
        for mutant in cold:
            self._try(mutant, functools.partial(self._import_changed, mutant))
        warm = [mutant for mutant in chosen if mutant not in self.outcomes]
        if warm:
            collected(self._tests, self._scratch, lambda session, items: self._warm(warm, session, items))
        if len(self.outcomes) != len(chosen):
            raise RuntimeError("the tests could not be collected; run pytest")

    def _import_changed(self, mutant: Mutant, log: Log, left: Sequence[str]) -> None:
        Changed(mutant.path, mutant.compiled()).install()
        files = sorted({test.partition("::")[0] for test in left})
        collected(files, self._scratch, lambda session, items: self._run(session, items, log, left))

    def _warm(
        self, chosen: Sequence[Mutant], session: pytest.Session, items: Mapping[str, pytest.Item]
    ) -> None:
        known = functions()
        loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        gc.freeze()
        for mutant in chosen:

            def start(log: Log, left: Sequence[str], mutant: Mutant = mutant) -> None:
                if str(mutant.path) in loaded:
                    swap(mutant.compiled(), known)
                else:
                    Changed(mutant.path, mutant.compiled()).install()
                self._run(session, items, log, left)

            self._try(mutant, start)

    def _run(
        self, session: pytest.Session, items: Mapping[str, pytest.Item], log: Log, left: Sequence[str]
    ) -> None:
        there = [items[name] for name in left if name in items]
        run(session, there, log, self._reach.seconds, first_only=self._first_only)

    def _try(self, mutant: Mutant, start: Callable[[Log, Sequence[str]], None]) -> None:
        tests = self._reach.tests(mutant)
        outcome = trial(tests, start, self._scratch, first_only=self._first_only)
        self.outcomes[mutant] = outcome
        says = f"killed by {outcome.killers[0]}" if outcome.killers else f"SURVIVED {len(tests)} tests"
        print(f"{len(self.outcomes):5d} {_place(self._root, mutant)}: {mutant.what}: {says}", file=self._out)


def _takes_more(mutant: Mutant) -> bool:
    """Whether a changed function takes other names from around it: it cannot have the old one's place."""
    old = compile(mutant.path.read_bytes(), str(mutant.path), "exec", dont_inherit=True)
    return free_names(old) != free_names(mutant.compiled())


def _place(root: Path, mutant: Mutant) -> str:
    return f"{mutant.path.relative_to(root)}:{mutant.line}"


def chosen_mutants(root: Path, modules: Sequence[str], sample: int, seed: int) -> list[Mutant]:
    """All of them, or as many as asked for: the same ones for the same sources and seed."""
    paths = [root / each for each in modules]
    files = [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    found = [mutant for file in files for mutant in mutants(file)]
    if not 0 < sample < len(found):
        return found
    return [found[at] for at in sorted(random.Random(seed).sample(range(len(found)), sample))]


def report(root: Path, area: str, outcomes: Mapping[Mutant, Outcome]) -> Iterator[str]:
    """Survivors with their lines; then how many of each module were killed, and of all."""
    tried: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    for mutant, outcome in sorted(outcomes.items(), key=lambda each: (each[0].path, each[0].line)):
        for name in {str(mutant.path.relative_to(root)), area}:
            tried[name] += 1
            killed[name] += bool(outcome.killers)
        if not outcome.killers:
            source = mutant.path.read_text(encoding="utf-8").splitlines()[mutant.line - 1].strip()
            yield f"{_place(root, mutant)}: {mutant.what}\n    {source}"
    for name in sorted(tried, key=lambda name: (name == area, name)):
        yield f"{killed[name]:5d} of {tried[name]:5d} killed ({killed[name] / tried[name]:4.0%})  {name}"


def spare(reach: Reach, outcomes: Mapping[Mutant, Outcome]) -> Iterator[str]:
    """Tests that kill nothing that others do not kill, and run no line that others do not run."""
    killers: dict[str, list[int]] = defaultdict(list)
    for outcome in outcomes.values():
        names = set(outcome.killers)
        for test in names:
            killers[test].append(len(names))
    lines = reach.lines({mutant.path for mutant in outcomes})
    for test in reach.failing:
        lines.pop(test, None)
    runners = Counter(line for of_test in lines.values() for line in of_test)
    for test, of_test in sorted(lines.items()):
        alone = sum(count == 1 for count in killers[test])
        if of_test and not alone and all(runners[line] > 1 for line in of_test):
            yield f"spare: {test}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("areas", nargs="+", help=f"{', '.join(AREAS)}, or modules and folders")
    parser.add_argument("--sample", type=int, default=0, help="so many mutants of each, by chance (all)")
    parser.add_argument("--seed", type=int, default=0, help="of that chance")
    parser.add_argument("--tests", nargs="+", help="in place of those of the area")
    parser.add_argument("--all", action="store_true", help="try every test, and name those that add nothing")
    parser.add_argument("--least", type=float, default=0.0, metavar="SHARE", help="1 when fewer are killed")
    chosen = parser.parse_args()
    root = Path.cwd()
    os.environ["BAI_LAB"] = "off"  # a server that each fork starts anew takes longer than all other tests
    sys.path.insert(0, str(root))
    shares = []
    for name in chosen.areas:
        area = AREAS.get(name) or Area((name,), ("tests",))
        sources = sorted({each.partition("/")[0] for each in area.modules})
        tests = chosen.tests or area.tests
        with tempfile.TemporaryDirectory(prefix="bai-mutants-", ignore_cleanup_errors=True) as folder:
            scratch = Path(folder)
            reach = measured(root, sources, tests, root / CACHE, scratch)
            for test in sorted(reach.failing):
                print(f"left out, for it fails by itself: {test}")
            campaign = Campaign(root, reach, tests, scratch, first_only=not chosen.all)
            campaign.run(chosen_mutants(root, area.modules, chosen.sample, chosen.seed))
        for line in report(root, name, campaign.outcomes):
            print(line)
        if chosen.all:
            for line in spare(reach, campaign.outcomes):
                print(line)
        killed = sum(bool(each.killers) for each in campaign.outcomes.values())
        shares.append(killed / max(1, len(campaign.outcomes)))
    return 1 if min(shares) < chosen.least else 0


if __name__ == "__main__":
    sys.exit(main())
