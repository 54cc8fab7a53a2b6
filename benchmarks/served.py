"""What the benchmarks of a loop share: a forge, somebody who pushes to it, and a server that follows it."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.results import parser_of, show
from tests.lab.git_http import GitHttp, Hook
from tests.lab.serve import SECRET, Serve

HERE = {"address": "localhost", "resourceGroup": "all"}
"""This machine, as the spec of a node."""
CLUSTER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {{name: here}}
spec: {{provider: {provider}}}
---
apiVersion: bai/v1
kind: Node
metadata: {{name: {node}}}
spec: {spec}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {{name: all}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: demo}}
"""
SESSION = """\
apiVersion: bai/v1
kind: Session
metadata: {{name: {name}, project: demo}}
spec:
  command: [sleep, "100000"]
  resources: {{cpu: 10m, memory: 16MiB}}
  stop: {{grace: 0s}}
"""


class Work:
    """A working copy of somebody who pushes."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet")
        self.git("remote", "add", "origin", url)

    def git(self, *words: str) -> None:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@cluster.example")
        subprocess.run(
            ["git", "-C", str(self.folder), *who, *words], check=True, capture_output=True,
            stdin=subprocess.DEVNULL, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull},
        )  # fmt: skip

    def commit(self, name: str, text: str) -> None:
        (self.folder / f"{name}.yaml").write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", f"Add {name}")

    def push(self) -> None:
        self.git("push", "--quiet", "origin", "HEAD:main")


@contextmanager
def forge(kind: str, folder: Path) -> Iterator[tuple[str, str, Callable[[str], None]]]:
    """The addresses to follow and to push to, and what sets the webhook's address."""
    if kind == "http":
        with GitHttp(folder / "forge") as made:
            url = made.repository("cluster")

            def set_hook(address: str) -> None:
                made.hook = Hook(address, SECRET)

            yield url, made.with_password(url), set_hook
        return
    from tests.lab.gitea import PASSWORD, USER, Gitea

    gitea = Gitea()
    try:
        pushed = gitea.repository("cluster")
        yield pushed.replace(f"{USER}:{PASSWORD}@", ""), pushed, lambda to: gitea.hook("cluster", to, SECRET)
    finally:
        gitea.close()


@dataclass(frozen=True, slots=True)
class Site:
    """A server that has read its documents, and whoever pushes them. `set_hook` has the forge tell an
    address."""

    work: Work
    server: Serve
    set_hook: Callable[[str], None]

    def empty(self) -> None:
        """Push that there are no sessions any more, and wait until there are none."""
        for path in self.work.folder.glob("s*.yaml"):
            path.unlink()
        self.work.commit("nothing", "")
        self.work.push()
        self.server.until(lambda: not self.server.states(), "all sessions are gone")


@contextmanager
def served(
    root: Path,
    *,
    remote: str = "http",
    provider: str = "process",
    node: str = "localhost",
    spec: Mapping[str, Any] = HERE,
    interval: str = "5s",
    options: Sequence[str] = (),
    cluster: str = "",
    environment: Mapping[str, str] | None = None,
) -> Iterator[Site]:
    """A cluster of one node, or of what the documents `cluster` say, in a forge of the kind `remote`, and a
    server that follows it, with these further `options` and variables. All is below `root`."""
    with forge(remote, root) as (follow, push_to, set_hook):
        work = Work(root / "work", push_to)
        work.commit("cluster", cluster or CLUSTER.format(provider=provider, node=node, spec=json.dumps(spec)))
        work.push()
        variables = {
            "BAI_PROCESS_ROOT": str(root / "machine"),
            "BAI_GIT_USER": "ada",
            "BAI_GIT_PASSWORD": "lab-secret-word-1",
            **(environment or {}),
        }
        with Serve(root / "serve", follow, variables, *options, interval=interval) as server:
            server.until_good()
            yield Site(work, server, set_hook)


def main(
    name: str, about: str | None, count: int, what: str, measure: Callable[[str, str, int, Path], object]
) -> None:
    """The command of a benchmark that has `measure` do something so often: provider, forge, how often,
    folder."""
    parser = parser_of(name, about)
    parser.add_argument("--provider", choices=["process", "docker"], default="process")
    parser.add_argument("--remote", choices=["http", "gitea"], default="http")
    parser.add_argument("--count", type=int, default=count, help=f"{what} that are measured")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix=f"bai-{name}-") as folder:
        found = measure(given.provider, given.remote, given.count, Path(folder))
    show(found, given.json)
