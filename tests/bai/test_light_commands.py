"""Commands that look load what their answer rests on: neither the planner nor the store's way of writing nor
what starts sessions, and of documents only those that count. Nor do they try what the machine can enforce."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bai.conftest import TOP, Repo, new_repo, tidy

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="starts a native session")]

CODE = """\
import contextlib, io, json, subprocess, sys
import schemas.files.yaml_reader as reader
programs = []
class Popen(subprocess.Popen):
    def __init__(self, words, *more, **options):
        programs.append(words[0])
        super().__init__(words, *more, **options)
subprocess.Popen = Popen
parsed, read = [], reader.read_documents
def read_documents(data, file):
    parsed.append(file)
    return read(data, file)
reader.read_documents = read_documents
from bai.cli.main import run
with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), write_through=True)) as out:
    code = run(sys.argv[1:])
print(json.dumps({"code": code, "parsed": parsed, "programs": programs, "modules": sorted(sys.modules)}))
"""
HEAVY = frozenset(
    {"numpy", "sqlalchemy", "alembic", "rich", "jsonschema", "jinja2", "lark", "paramiko", "cryptography"}
)
DOCUMENTS = frozenset({"schemas.loading.loader", "schemas.kinds.session", "schemas.repository.repository"})
PLANNER = frozenset({"planner.place", "planner.nodes.node_table", "reconciler.plan"})
STARTING = frozenset(
    {"providers.process.launch", "providers.process.sandbox.bubblewrap", "pyseccomp", "ctypes"}
)
LIGHT = (
    ("get",),
    ("get", "--phase", "RUNNING", "--format", "json"),
    ("history",),
    ("events",),
    ("events", "talker"),
    ("audit",),
    ("logs", "talker"),
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repo]:
    """A session runs, and there are more documents than those of the cluster."""
    repo = new_repo(tmp_path_factory.mktemp("light"))
    repo.session("talker", "sh", "-c", "echo hello; exec sleep 1000")
    repo.env["XDG_CACHE_HOME"] = str(repo.root.parent / "cache")
    try:
        repo.ok("apply", "--yes")
        repo.ok("get")
        yield repo
    finally:
        tidy(repo)


class Loaded:
    """What one command, in a process of its own, loads and parses."""

    def __init__(self, repo: Repo, words: tuple[str, ...]) -> None:
        done = subprocess.run(
            [sys.executable, "-c", CODE, *words],
            cwd=repo.root, env={**os.environ, **repo.env, "PYTHONPATH": str(TOP)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["code"] == 0, done.stderr
        self.modules, self.parsed = frozenset(found["modules"]), [Path(each).name for each in found["parsed"]]
        self.programs = {Path(each).name for each in found["programs"]}


@pytest.mark.parametrize("words", LIGHT, ids=" ".join)
def test_it_loads_what_its_answer_rests_on(running: Repo, words: tuple[str, ...]) -> None:
    found = Loaded(running, words)
    assert found.modules & (HEAVY | DOCUMENTS | PLANNER | STARTING) == set()
    assert found.programs <= {"git"}
    assert found.parsed == ["cluster.yaml"]


def test_documents_that_changed_are_all_parsed_once(running: Repo) -> None:
    file = running.session("other", "true")
    try:
        first, second = Loaded(running, ("get",)), Loaded(running, ("get",))
        assert file.name in first.parsed and first.modules >= DOCUMENTS
        assert second.parsed == ["cluster.yaml"] and not second.modules & (DOCUMENTS | PLANNER)
        assert "not applied" in running.ok("get").out
    finally:
        file.unlink()


@pytest.mark.parametrize("words", [("describe", "talker"), ("get", "nodes")], ids=" ".join)
def test_nothing_is_planned_while_nobody_waits(running: Repo, words: tuple[str, ...]) -> None:
    assert not Loaded(running, words).modules & {"planner.place", "reconciler.plan.pipeline"}


def test_who_waits_is_planned_for(running: Repo) -> None:
    """The others would prove nothing if this were not so."""
    file = running.session("giant", "true", cpu="4096")
    try:
        running.ok("apply", "--yes")
        found = Loaded(running, ("get",))
        assert found.modules >= PLANNER and "numpy" in found.modules
        assert "impossible" in running.ok("get").out
    finally:
        file.unlink()
        running.ok("apply", "--yes")
