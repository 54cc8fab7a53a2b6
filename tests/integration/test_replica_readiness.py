"""Replicas of a service, native sessions that serve HTTP: asked by a loop, and by commands that look."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from providers.registry import open_provider
from reconciler.controller.cycle import ReconcileCycle
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.values.plan import Plan
from reconciler.values.plan_options import PlanOptions
from reconciler.values.services.readiness import Readiness
from reconciler.workspace.workspace import Workspace
from schemas.problems.errors.plan import StalePlan
from tests.harness.ports import free_port
from tests.harness.processes import having
from tests.waiting import until

BASE = """
apiVersion: bai/v1
kind: Cluster
metadata: {name: here}
spec: {provider: process}
---
apiVersion: bai/v1
kind: Node
metadata: {name: me}
spec: {address: localhost, resourceGroup: local}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: local}
---
apiVersion: bai/v1
kind: Project
metadata: {name: demo}
"""
SERVICE = """
apiVersion: bai/v1
kind: Service
metadata: {{name: web, project: demo}}
spec:
  template:
    resources: {{cpu: 100m, memory: 128MiB}}
    command: [python3, -c, {program}]
    ports: [{{name: http, port: {port}}}]
    stop: {{grace: 1s}}
  readiness: {{http: {{port: http, path: /up}}, period: 1s, timeout: 1s, failures: 2}}
  {more}
"""
ALIVE = "liveness: {command: [sh, -c, 'test ! -e broken'], period: 1s, timeout: 60s, failures: 2, grace: 1h}"
PROGRAM = """
import http.server, os
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/break":
            open("broken", "w").close()
        self.send_response(200 if self.path in ("/up", "/break") else 404)
        self.end_headers()
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["BAI_PORT_HTTP"])), Answers).serve_forever()
"""


class Web:
    """A repository with one service of one replica, and what becomes of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.token = f"replica-of-{folder.parent.name}"
        (folder / "base.yaml").write_text(BASE)
        self.write()

    def write(self, more: str = "replicas: 1") -> None:
        import json

        program = json.dumps(f"{PROGRAM}# {self.token}\n")
        text = SERVICE.format(program=program, port=self.port, more=more)
        (self.folder / "web.yaml").write_text(text)

    def signal(self, number: int) -> None:
        """To the program itself, and nobody of those that look after it."""
        found = [pid for pid, words in having(self.token).items() if words[0].endswith("python3")]
        assert found
        for pid in found:
            os.kill(pid, number)


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    top = Path(tempfile.mkdtemp(prefix="bai-readiness-"))
    monkeypatch.setenv("BAI_PROCESS_ROOT", str(top / "processes"))
    monkeypatch.delenv("BAI_STATE", raising=False)
    (top / "repo").mkdir()
    made = Web(top / "repo")
    yield made
    try:
        provider = open_provider("process", {})
        for kernel in provider.observe().kernels:
            provider.remove(kernel.id)
    finally:
        shutil.rmtree(top, ignore_errors=True)


class Watched:
    """A loop that looks again when it is woken, and hardly ever by itself."""

    def __init__(self, web: Web) -> None:
        self.lines: list[str] = []
        self.workspace = Workspace.open(web.folder)
        self.loop = Loop(self.workspace, LoopOptions("tester", 3600), log=self.lines.append)
        self.passes: list[dict[str, Readiness]] = []
        self.loop.add_listener(self._on_pass)
        self.thread = threading.Thread(target=self.loop.run)
        self.thread.start()

    def _on_pass(self, done: ReconcileCycle) -> None:
        if done.actual is not None:
            self.passes.append(dict(done.actual.readiness))

    def close(self) -> None:
        self.loop.halt()
        self.thread.join()
        self.workspace.close()

    def last(self) -> Readiness | None:
        """What the last pass saw of the only replica."""
        return next(iter(self.passes[-1].values()), None) if self.passes else None

    def until(self, condition: Callable[[Readiness], object], what: str) -> Readiness:
        def found() -> Readiness | None:
            last = self.last()
            return last if last is not None and condition(last) else None

        return until(found, lambda: f"{what}: {self.last()} {self.lines}")

    def kernels(self) -> tuple[str, ...]:
        records = self.workspace.store.recorded("here").values()
        return next((each.kernels for each in records if each.resource.startswith("Session/demo/web-")), ())


def readiness(workspace: Workspace) -> Readiness:
    (found,) = workspace.actual().readiness.values()
    return found


def ready_twice(workspace: Workspace) -> list[Readiness] | None:
    """What two looks saw, one after the other, if it was ready each time."""
    found = [readiness(workspace) for _ in range(2)]
    return found if all(each.ready for each in found) else None


def test_a_loop_hears_of_a_replica_that_stands_still(web: Web) -> None:
    watched = Watched(web)
    try:
        ready = watched.until(lambda last: last.ready, "it is ready")
        (identity,) = watched.passes[-1]
        assert watched.loop.workspace.replicas.ready(identity) is not None
        web.signal(signal.SIGSTOP)
        stopped = watched.until(lambda last: not last.ready, "it is not")
        assert stopped.why == "GET /up of port http: no answer within 1 s" and stopped.since > ready.since
        web.signal(signal.SIGCONT)
        again = watched.until(lambda last: last.ready, "it is ready again")
        assert again.since > stopped.since
    finally:
        watched.close()
    until(lambda: "replica-probes" not in [each.name for each in threading.enumerate()], "nobody asks")


def test_a_replica_that_fails_its_liveness_probe_is_started_again(web: Web) -> None:
    web.write(ALIVE)
    watched = Watched(web)
    try:
        ready = watched.until(lambda last: last.ready, "it is ready")
        before = watched.kernels()
        urllib.request.urlopen(f"http://127.0.0.1:{web.port}/break", timeout=60).close()
        why = "it failed its liveness probe 2 times in a row: `sh` ended with 1"
        until(lambda: any(line.endswith(why) for line in watched.lines), lambda: "\n".join(watched.lines))
        watched.until(lambda last: last.ready and last.since > ready.since, "the new one is ready")
        assert watched.kernels() not in ((), before)
    finally:
        watched.close()


def test_who_looks_once_asks_once(web: Web) -> None:
    """Without a loop: by `bai plan`, `bai apply`, `bai get`. With --offline nobody is asked."""
    with Workspace.open(web.folder) as workspace:
        assert workspace.apply(workspace.plan(), holder="tester").ok
        until(lambda: readiness(workspace).ready, "it is ready")
        (identity,) = workspace.actual().readiness
        assert workspace.replicas.ready(identity) is None
        assert workspace.actual(offline=True).readiness == {}
        # A machine with much to do may answer a look late, which is news.
        first, second = until(lambda: ready_twice(workspace), "it answers two looks in a row")
        assert first == second, "nothing is news, and the plan is the one before"
        web.signal(signal.SIGSTOP)
        until(lambda: not readiness(workspace).ready, "it is not ready")
        with Workspace.open(web.folder) as other:
            assert not readiness(other).ready, "one that has no memory sees it at once"
        web.signal(signal.SIGCONT)
        until(lambda: readiness(workspace).ready, "it is ready again")
        assert workspace.apply(workspace.plan(PlanOptions(destroy=True)), holder="tester").ok
        assert workspace.actual().readiness == {}


def rests_on_both(workspace: Workspace) -> Plan | None:
    """A plan that takes one replica away and does nothing else to any."""
    plan = workspace.plan()
    verbs = [action.verb for action in plan.changes if action.id.startswith("Session/")]
    return plan if verbs == ["delete"] else None


def holds_again(workspace: Workspace, saved: Plan) -> bool:
    try:
        return workspace.apply(saved, holder="tester").ok
    except StalePlan:
        return False


def test_a_saved_plan_is_stale_when_replicas_it_rests_on_answer_no_more(web: Web) -> None:
    """A plan that takes one of two away was made while both were ready."""
    web.write("replicas: 2")
    with Workspace.open(web.folder) as workspace:

        def both_ready() -> bool:
            found = workspace.actual().readiness.values()
            return len(found) == 2 and all(each.ready for each in found)

        assert workspace.apply(workspace.plan(), holder="tester").ok
        until(both_ready, "both are ready")
        web.write("replicas: 1")
        workspace = workspace.reloaded()
        # One that answered late would not be taken for ready just then.
        saved = until(lambda: rests_on_both(workspace), "a plan takes one of both away")
        web.signal(signal.SIGSTOP)
        until(lambda: not any(each.ready for each in workspace.actual().readiness.values()), "none is ready")
        with pytest.raises(StalePlan):
            workspace.apply(saved, holder="tester")
        web.signal(signal.SIGCONT)
        until(lambda: holds_again(workspace, saved), "both are ready again, and it is carried out")
