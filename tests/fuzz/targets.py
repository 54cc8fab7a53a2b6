"""What strangers write, and what must hold whatever it is: an answer, or a refusal in words."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import io
import json
import random
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import unquote

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
FOUND = Path(__file__).parent / "found"
"""Inputs, a folder for each target, that something was found with."""
SECRET = "a shared secret"
ALARMING = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]"
)
"""What a message or a rendered plan must not hold: it would drive a terminal, or hide from a reader."""

Feed = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Target:
    """One door for strangers. `make` opens it once, and gives what each input is fed to, which raises when
    something happens that must not. `seeds`: inputs to begin with. `packages`: whose coverage leads.
    `minute`: so many inputs take about one."""

    make: Callable[[], Feed]
    seeds: Callable[[], Iterable[bytes]]
    packages: tuple[str, ...]
    minute: int


def _refuse_alarming(text: str, what: str) -> None:
    found = ALARMING.search(text)
    assert found is None, f"{what} holds {found[0]!r} at {found.start()}"


# --- documents --------------------------------------------------------------------------------------------


def _loader() -> Feed:
    from schemas.files.sources import SourceFile
    from schemas.loading.fmt import format_text
    from schemas.loading.loader import load
    from schemas.problems.errors.base import BaiError
    from schemas.problems.errors.repository import InvalidRepository

    class Memory:
        where, commit = "memory", ""

        def __init__(self, data: bytes) -> None:
            self._data = data

        def files(self) -> Iterator[SourceFile]:
            yield SourceFile("a.yaml", self._data)

        def data(self, path: str) -> bytes:
            return self._data

    def feed(data: bytes) -> None:
        try:
            load(Memory(data))
        except InvalidRepository as error:
            for problem in error.problems:
                _refuse_alarming(str(problem), "a problem")
                assert problem.place.line >= 1 and problem.place.column >= 1, problem
        except BaiError as error:
            _refuse_alarming(str(error), "a refusal")
        with contextlib.suppress(InvalidRepository):
            once = format_text(data, "a.yaml")
            assert format_text(once.encode(), "a.yaml") == once, "formatting twice changes something"

    return feed


def _documents() -> Iterator[bytes]:
    for folder in (ROOT / "examples", TESTS / "cases/schemas"):
        yield from (path.read_bytes() for path in sorted(folder.rglob("*.yaml")) if path.is_file())


# --- expressions ------------------------------------------------------------------------------------------


def _expressions() -> Feed:
    from reconciler.guards import cel

    values: dict[str, Any] = {
        "action": {"verb": "delete", "kind": "Session", "gpus": 8, "labels": {"team": "a"}},
        "items": [1, 2.5, "a\u202e", None, True, [1], {}],
        "odd": {"huge": 10**30, "nan": float("nan"), "text": "\x1b" * 2000},
    }

    def feed(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        try:
            found = cel.compile(text, [*values, "missing"]).evaluate(values, cel.Budget(20_000))
        except cel.InvalidExpression as error:
            _refuse_alarming(f"{error.why} {error.hint}", "a refusal")
            assert len(error.why) + len(error.hint) < 1000, "a refusal is long"
            assert 1 <= error.line <= text.count("\n") + 1, error.line
            assert 1 <= error.column <= max(map(len, text.split("\n"))) + 1, error.column
        except cel.EvaluationError as error:
            _refuse_alarming(str(error), "a failure")
            assert 0 < len(str(error)) < 500, "a failure is long, or says nothing"
        else:
            assert found is True or found is False, found

    return feed


def _rules() -> Iterator[bytes]:
    for text in (
        'action.verb == "delete" && action.kind == "Session" && !(action.labels.team in ["a", "b"])',
        "items.all(x, x in items) || items.exists_one(k, k != null) ? has(action.gpus) : 1 <= 2.5",
        "[1, 2].map(x, x % 2 == 0, {'k': -x}).filter(m, m.k > 0x1F).size() + 1 == 9223372036854775807",
        r"""'''a\u00e9\n''' + r"\d" != "\101\x41" && 'ab'.matches('^[a-z]{1,3}$') && matches('a', '(?i)A')""",
        "timestamp('2026-01-02T03:04:05.5+01:00') - duration('-1h30m') < timestamp(0) // a comment",
        "string(1.5e3) + string(action.gpus) == 'a' || int('12') / int(2.5) == 1 || double('1') > 0.5",
        "type(items[3]) == null_type && dyn(1) == 1 && missing.x && size(odd.text) > odd.huge",
        "timestamp(0).getDayOfWeek('Asia/Seoul') == duration('1.5s').getMilliseconds() || bool('t')",
    ):
        yield text.encode()


# --- captured hardware, traces ----------------------------------------------------------------------------


def _importers() -> Feed:
    from bai.traces.load import read_nodes, read_trace
    from schemas.hardware.capture_reader import HardwareError, read_captures, read_hardware
    from schemas.hardware.exporters import nccl
    from schemas.loading.loader import load_directory
    from schemas.problems.errors.base import BaiError

    folder = Path(tempfile.mkdtemp(prefix="bai-fuzz-", dir="/dev/shm"))
    repository = load_directory(ROOT / "examples/clusters/dgx-h100")

    def feed(data: bytes) -> None:
        kind, rest = data[:1], data[1:]
        if kind in b"cyn" and kind:
            path = folder / ("trace.yaml" if kind == b"y" else "trace.csv")
            path.write_bytes(rest)
            with contextlib.suppress(BaiError):
                read_nodes(path, "default") if kind == b"n" else read_trace(path, repository, "default")
            return
        name = "probe.json" if kind == b"j" else "capture.txt"
        try:
            found = read_captures([(name, part) for part in rest.split(b"\0\0\0\0")]) if kind == b"t" else (
                read_hardware(name, rest)
            )  # fmt: skip
        except HardwareError as error:
            for problem in error.problems:
                _refuse_alarming(str(problem), "a problem")
        else:
            if not nccl.export_problem(found):
                nccl.export_nccl(found)

    return feed


def _captures() -> Iterator[bytes]:
    from tests.schemas.hardware.captured_machines import make_captured

    for path in sorted((TESTS / "data/topology").rglob("*")):
        if path.is_file() and path.stat().st_size < 40_000:
            yield (b"j" if path.suffix == ".json" else b"-") + path.read_bytes()
    for seed in range(200):
        yield b"t" + b"\0\0\0\0".join(map(str.encode, make_captured(random.Random(seed)).texts))
    yield b"nsn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,8,A100\n"
    pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos"
    times = "creation_time,deletion_time,scheduled_time"
    yield f"c{pods},{times}\na,4000,1024,1,460,V100M16,LS,0,100,1\n".encode()
    yield b"cname,arrival,duration,cpu,memory,cuda.device\na,1h,10m,1,1GiB,1\n"
    entry = "{name: a, arrival: 0, duration: 10m, resources: {cpu: 1, memory: 1GiB}}"
    yield f"ysessions: [{entry}]\n".encode()


# --- saved plans ------------------------------------------------------------------------------------------


def _plans() -> Feed:
    from rich.console import Console

    from bai.render.plan.markdown import render_plan_markdown as markdown
    from bai.render.plan.terminal import render_plan
    from reconciler.apply.steps import action_steps
    from reconciler.values.encoding import plan_json
    from schemas.problems.errors.base import BaiError

    def feed(data: bytes) -> None:
        try:
            # Whoever changes a plan writes the digest anew, which a fuzzer cannot.
            with mock.patch.object(plan_json, "plan_digest", lambda plan: plan.digest):
                plan = plan_json.load_plan(data.decode("utf-8", "replace"))
        except BaiError as error:
            _refuse_alarming(str(error), "a refusal")
            return
        again = plan_json.dump_plan(plan_json.with_digest(plan))
        assert plan_json.dump_plan(plan_json.load_plan(again)) == again, "a plan is not what was written down"
        shown = io.StringIO()
        Console(file=shown, width=120, no_color=True).print(render_plan(plan))
        _refuse_alarming(shown.getvalue(), "a plan in a terminal")
        _refuse_alarming(markdown(plan, {}), "a plan in Markdown")
        for action in plan.actions:
            with contextlib.suppress(BaiError):
                action_steps(action, plan)

    return feed


def _saved() -> Iterator[bytes]:
    golden = json.loads((TESTS / "cases/plan-json/v1.json").read_text())
    yield json.dumps(golden, separators=(",", ":")).encode()


# --- who may do what --------------------------------------------------------------------------------------


def _access() -> Feed:
    from bai.web.auth.access_file import parse_access
    from bai.web.auth.roles import StaticAccess, authenticate
    from schemas.problems.errors.repository import InvalidRepository

    def feed(data: bytes) -> None:
        try:
            found = parse_access(data, "access.yaml")
        except InvalidRepository as error:
            for problem in error.problems:
                _refuse_alarming(str(problem), "a problem")
            return
        fixed = StaticAccess(found.authenticators(), found.metrics == "everybody")
        for headers in ({}, {"authorization": "Bearer x"}, {"x-user": "ann", "x-groups": "a,b"}):
            with contextlib.suppress(PermissionError):
                authenticate(fixed, headers, "192.0.2.1")

    return feed


def _access_files() -> Iterator[bytes]:
    yield f"tokens: [{{name: ci, role: operator, projects: [p], sha256: '{'0' * 64}'}}]\n".encode()
    yield b"metrics: everybody\nanonymous: viewer\n"
    grants = "grants: [{role: operator, projectsFrom: projects}, {role: admin, groups: [admins]}]"
    yield f"oidc: [{{issuer: 'https://id.example', audience: bai, {grants}}}]\n".encode()
    yield b"proxy: {networks: [192.0.2.0/24], user: X-User, groups: X-Groups, grants: [{role: viewer}]}\n"


# --- the server -------------------------------------------------------------------------------------------


class _Server:
    """A server's application over a fake world, asked without sockets."""

    def __init__(self) -> None:
        from tests.bai.web.lab import Lab
        from tests.reconciler.lab import session

        self.lab = Lab(Path(tempfile.mkdtemp(prefix="bai-fuzz-", dir="/dev/shm")), secret=SECRET)
        self.lab.write("a", session("a"))
        self.lab.once()
        self.lab.once()
        self._events = asyncio.new_event_loop()

    def ask(self, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes) -> int:
        """The status; 400 for what the protocol lets nobody say. Whoever asked is gone after the body."""
        import h11

        try:
            head = h11.Request(method=method, target=target, headers=[(b"host", b"localhost"), *headers])
        except h11.LocalProtocolError:
            return 400
        path, _, query = head.target.partition(b"?")
        parts: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]
        status: list[int] = []

        async def receive() -> dict[str, Any]:
            return parts.pop() if parts else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            status.append(message.get("status", 0))

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
            "method": head.method.decode(), "root_path": "", "path": unquote(path.decode()), "raw_path": path,
            "query_string": query, "headers": list(head.headers), "client": ("192.0.2.1", 1),
            "server": ("localhost", 80),
        }  # fmt: skip
        app: Any = self.lab.app
        self._events.run_until_complete(app(scope, receive, send))
        return status[0] if status else 0


def _api() -> Feed:
    server = _Server()

    def feed(data: bytes) -> None:
        """`METHOD TARGET`, headers, an empty line, a body."""
        head, _, body = data.partition(b"\n\n")
        first, *lines = head.split(b"\n")
        method, _, target = first.partition(b" ")
        status = server.ask(method, target, _headers(lines), body)
        assert status < 500 or status == 503, f"answered {status}"

    return feed


def _headers(lines: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    pairs = [line.partition(b":") for line in lines]
    return [(name.strip().lower(), value.strip()) for name, _, value in pairs]


def _requests() -> Iterator[bytes]:
    described = json.loads((ROOT / "docs/openapi.json").read_text())
    names = {"cluster": "here", "project": "p", "session": "a", "identity": "Session/p/a"}
    for path, operations in described["paths"].items():
        concrete = re.sub(r"\{(\w+)(?::path)?\}", lambda found: names.get(found[1], "a"), path)
        for method, operation in operations.items():
            asked = [f"{each['name']}=1" for each in operation.get("parameters", ()) if each["in"] == "query"]
            query = "?" + "&".join(asked) if asked else ""
            asks = json.dumps(operation.get("requestBody", ""))
            given = {"why": "x", "commit": "HEAD~1"} if "Named" in asks else {"why": "x"}
            body = json.dumps(given) if "requestBody" in operation else ""
            for token in ("admin", "operator-of-p"):
                head = f"{method.upper()} {concrete}{query}\nauthorization: Bearer {token}"
                yield f"{head}\ncontent-type: application/json\n\n{body}".encode()


def _webhook() -> Feed:
    server = _Server()

    def feed(data: bytes) -> None:
        """Headers, an empty line, a body; signed where a header `sign` says by which name."""
        head, _, body = data.partition(b"\n\n")
        headers = _headers(head.split(b"\n"))
        mac = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        prefix = {b"x-hub-signature-256": "sha256=", b"x-hub-signature": "sha256="}
        named = [value for name, value in headers if name == b"sign"]
        signed = [(name, (prefix.get(name, "") + mac).encode()) for name in named]
        status = server.ask(b"POST", b"/hooks/git", headers + signed, body)
        assert status in (202, 400, 401, 413, 429), f"answered {status}"

    return feed


def _messages() -> Iterator[bytes]:
    for path in sorted((TESTS / "data/webhooks").rglob("*.json")):
        body = path.read_bytes()[:4000]
        for name in (b"x-hub-signature-256", b"x-gitea-signature"):
            yield b"sign: " + name + b"\nx-github-event: push\nx-github-delivery: 1\n\n" + body
    yield b"x-gitlab-token: " + SECRET.encode() + b"\nx-gitlab-event: Push Hook\n\n{}"


TARGETS = {
    "loader": Target(_loader, _documents, ("schemas", "planner"), 25_000),
    "expressions": Target(_expressions, _rules, ("schemas.expressions", "reconciler.guards"), 150_000),
    "importers": Target(_importers, _captures, ("schemas", "bai.traces"), 60_000),
    "plan": Target(_plans, _saved, ("reconciler", "bai.render"), 30_000),
    "access": Target(_access, _access_files, ("bai.web", "schemas"), 400_000),
    "webhook": Target(_webhook, _messages, ("bai.web", "reconciler.gitops"), 250_000),
    "api": Target(_api, _requests, ("bai.web", "reconciler.gitops"), 200_000),
}
