"""A repository of sessions for engines of the lab, planned and applied as `bai` does it."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path

from providers.docker.provider import DockerProvider
from reconciler.values.plan import Plan
from reconciler.values.records import Recorded
from reconciler.values.results import ApplyResult
from reconciler.workspace.workspace import Workspace
from tests.lab.docker import Engine

PATIENCE = 120.0
GIB = 1 << 30


def node(engine: Engine) -> str:
    """An engine as a node: reached by its socket, its containers meet on the lab's network."""
    return textwrap.dedent(f"""
        apiVersion: bai/v1
        kind: Node
        metadata: {{name: {engine.name}}}
        spec:
          address: localhost
          dataAddress: {engine.address}
          docker: {{socket: {engine.socket}}}
          hardware: {{numaNodes: [{{id: 0, cpus: 0-1, memory: 4GiB}}]}}
        """)


def base(docker: str) -> str:
    return textwrap.dedent(f"""
        apiVersion: bai/v1
        kind: Cluster
        metadata: {{name: lab}}
        spec: {{provider: docker, docker: {{{docker}}}}}
        ---
        apiVersion: bai/v1
        kind: ResourceGroup
        metadata: {{name: default}}
        spec: {{}}
        ---
        apiVersion: bai/v1
        kind: Project
        metadata: {{name: p}}
        spec: {{}}
        """)


class Gangs:
    """`write` sessions, `apply` them, wait for what becomes of them."""

    def __init__(self, folder: Path, engines: list[Engine], docker: str = "network: auto") -> None:
        self.folder = folder
        (folder / "base.yaml").write_text(base(docker))
        (folder / "nodes.yaml").write_text("---".join(node(engine) for engine in engines))
        self.engines = engines
        self._opened: list[Workspace] = []

    def write(self, name: str, spec: str) -> None:
        text = f"apiVersion: bai/v1\nkind: Session\nmetadata: {{name: {name}, project: p}}\nspec:\n"
        (self.folder / f"{name}.yaml").write_text(text + textwrap.indent(textwrap.dedent(spec), "  "))

    def drop(self, name: str) -> None:
        (self.folder / f"{name}.yaml").unlink()

    def open(self) -> Workspace:
        self._opened.append(Workspace.open(self.folder))
        return self._opened[-1]

    def plan(self) -> Plan:
        return self.open().plan()

    def apply(self) -> ApplyResult:
        space = self.open()
        return space.apply(space.plan(), holder="test")

    def done(self) -> None:
        result = self.apply()
        assert result.ok, [(each.action, each.error) for each in result.results if each.error]

    def record(self, name: str) -> Recorded:
        return self._opened[-1].store.recorded("lab")[f"Session/p/{name}"]

    def until(self, name: str, *phases: str) -> Recorded:
        """The session's record once it is in one of these phases."""
        space, until = self.open(), time.monotonic() + PATIENCE
        while True:
            space.refresh(holder="test")
            record = space.store.recorded("lab")[f"Session/p/{name}"]
            if record.phase in phases:
                return record
            assert time.monotonic() < until, f"{record.phase}: {record.reason}\n{self.logs(name)}"
            time.sleep(0.3)

    def kernel(self, name: str, kernel: str) -> str:
        placed = self.record(name)
        assert placed.placement is not None
        names = [part.kernel for part in placed.placement.kernels]
        return placed.kernels[names.index(kernel)]

    def logs(self, name: str, kernel: str = "main1") -> str:
        return b"".join(self._opened[-1].provider.logs(self.kernel(name, kernel))).decode(errors="replace")

    def close(self) -> None:
        for space in self._opened:
            if isinstance(space.provider, DockerProvider):
                space.provider.close()
            space.close()
        for engine in self.engines:
            engine.wipe()
