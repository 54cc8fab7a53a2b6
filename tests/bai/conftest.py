"""A repository with its own store and its own place for processes, and the command to type into."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

from tests.harness.bai_process import Command, File, run_bai, start_bai
from tests.harness.fork_client import Started

TOP = Path(__file__).parents[2]
PATIENCE = 120.0
CLUSTER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {name: here}
spec: {provider: process}
---
apiVersion: bai/v1
kind: Node
metadata: {name: localhost}
spec: {resourceGroup: local, address: localhost}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: local}
spec: {queue: fifo}
---
apiVersion: bai/v1
kind: Domain
metadata: {name: default}
spec: {}
---
apiVersion: bai/v1
kind: Project
metadata: {name: demo}
spec: {domain: default}
"""


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Repo:
    """A folder of documents, with the environment in which the command runs."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def session(
        self, name: str, *command: str, kind: str = "interactive", extra: str = "", cpu: str = "100m"
    ) -> Path:
        text = (
            "apiVersion: bai/v1\nkind: Session\n"
            f"metadata: {{name: {name}, project: demo}}\n"
            f"spec:\n  type: {kind}\n  resources: {{cpu: {cpu}, memory: 64MiB}}\n"
            f"  command: {json.dumps(list(command))}\n{extra}"
        )
        return self.write(f"{name}.yaml", text)

    def __call__(self, *words: str) -> Said:
        """Run in this process."""
        from bai.cli.main import run

        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        err = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, open(os.devnull) as nothing:
            patch.delenv("BAI_STATE", raising=False)
            for name, value in self.env.items():
                patch.setenv(name, value)
            patch.setattr("sys.stdin", nothing)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(["-C", str(self.root), *words])
        return Said(code, out.buffer.getvalue().decode(), err.getvalue())  # type: ignore[attr-defined]

    def ok(self, *words: str) -> Said:
        said = self(*words)
        assert said.code == 0, said.out + said.err
        return said

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Run as a new process, which may be sent signals."""
        code = "from bai.cli.main import main; main()"
        settings: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
        }
        return subprocess.Popen(
            [sys.executable, "-c", code, "-C", str(self.root), *words],
            env={**os.environ, **self.env},
            cwd=TOP,
            **{**settings, **options},
        )

    def stay(self, *words: str, out: IO[Any]) -> Started | subprocess.Popen[bytes]:
        """Run in a process of its own until it gets a signal."""
        words = ("-C", str(self.root), *words)
        return start_bai(Command(words, {**os.environ, **self.env}, TOP, stdout=out, stderr=out))

    def process(
        self,
        *words: str,
        timeout: float = 120,
        stdin: File = subprocess.DEVNULL,
        stdout: File = subprocess.PIPE,
    ) -> Said:
        """Run in a process of its own until it ends."""
        command = Command(
            ["-C", str(self.root), *words], {**os.environ, **self.env}, TOP, stdin=stdin, stdout=stdout
        )
        done = run_bai(command, timeout=timeout)
        return Said(done.returncode, done.stdout or "", done.stderr or "")


WHO = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in {"NAME": "Ada", "EMAIL": "ada@cluster.example"}.items()
}
"""Whose commits they are, also where git can guess nobody."""


def new_repo(folder: Path) -> Repo:
    root = folder / "repository"
    root.mkdir()
    environment = {
        "BAI_PROCESS_ROOT": str(folder / "machine"),
        "XDG_STATE_HOME": str(folder / "state"),
        "COLUMNS": "120",
        **WHO,
    }
    repo = Repo(root, environment)
    repo.write("cluster.yaml", CLUSTER)
    return repo


def tidy(repo: Repo) -> None:
    """Nothing of the repository may outlive its test."""
    if (repo.root / ".bai").exists():
        for path in repo.root.glob("*.yaml"):
            if path.name != "cluster.yaml":
                path.unlink()
        repo.write("cluster.yaml", CLUSTER)
        repo("state", "unlock", "--yes")
        repo.ok("destroy", "--yes")
    assert list(Path(repo.env["BAI_PROCESS_ROOT"]).glob("kernels/*")) == []


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    """A repository without sessions; what it runs is destroyed afterwards."""
    made = new_repo(tmp_path)
    yield made
    tidy(made)
