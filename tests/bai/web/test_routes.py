"""What the API answers, and to whom."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from bai.web.auth.roles import StaticAccess
from bai.web.etag_cache import ENTRY_OVERHEAD, EtagCache
from bai.web.request_limits import HEADERS, LARGEST_BODY, RequestLimits
from bai.web.routes import events, webhooks
from providers.fake import Fault
from reconciler.gitops.directives import read_directives
from reconciler.gitops.webhook_verifier import MAX_THROTTLED_BODY_BYTES, UNSIGNED_BURST
from tests.bai.web.lab import Lab, bearer, serving, wait_for
from tests.harness.work import instructions
from tests.reconciler.lab import session

HERE = "/api/v1/clusters/here"
BIG = "resources: {cuda.device: 2}"


def test_clusters_and_resources(lab: Lab) -> None:
    lab.write("a", session("a"))
    assert lab.once()
    (cluster,) = lab.get("/api/v1/clusters")
    assert (cluster["name"], cluster["good"], cluster["leads"], cluster["notes"]) == ("here", True, True, [])
    assert lab.get(HERE) == cluster
    sessions = lab.get(f"{HERE}/resources?kind=Session")
    assert [(each["id"], each["phase"]) for each in sessions] == [("Session/p/a", "RUNNING")]
    assert lab.get(f"{HERE}/resources?project=p") == sessions
    assert {each["kind"] for each in lab.get(f"{HERE}/resources")} >= {
        "Cluster",
        "Node",
        "Project",
        "Session",
    }
    one = lab.get(f"{HERE}/resources/Session/p/a")
    assert one["document"]["spec"]["command"] == ["sleep", "inf"]
    assert one["kernels"][0]["node"] in ("n1", "n2")
    for missing in (f"{HERE}/resources/Session/p/none", "/api/v1/clusters/there", f"{HERE}/logs/p/none"):
        assert lab.status(missing) == 404


def test_before_the_first_pass(lab: Lab) -> None:
    answer = lab.client.get(f"{HERE}/queue", headers=bearer("viewer"))
    assert answer.status_code == 503 and answer.headers["Retry-After"]
    assert lab.get(HERE)["lastPass"] == ""


def test_queue_events_audit_plan_logs(lab: Lab) -> None:
    for name in ("a", "b", "c"):
        lab.write(name, session(name, BIG))
    lab.once()
    (wait,) = lab.get(f"{HERE}/queue")
    assert wait["session"] == "Session/p/c" and wait["position"] == 1
    assert {reason["code"] for reason in wait["reasons"]} == {"no-capacity"}
    events = lab.get(f"{HERE}/events")
    assert {each["resource"] for each in events} >= {f"Session/p/{name}" for name in "abc"}
    assert lab.get(f"{HERE}/events?after={events[-1]['seq']}") == []
    assert lab.get(f"{HERE}/events?limit=1") == events[-1:]
    audit = lab.get(f"{HERE}/audit?resource=Session/p/a")
    assert [(each["verb"], each["actor"]) for each in audit] == [("create", "loop")]
    assert lab.get(f"{HERE}/audit?actor=nobody") == []
    assert lab.status(f"{HERE}/audit?since=soon") == 422
    assert lab.get(f"{HERE}/audit?until=1970-01-02T00:00:00Z") == []
    lab.once()
    assert lab.get(f"{HERE}/plan")["plan"]["waits"][0]["session"] == "Session/p/c"
    for kernel in lab.world.kernels.values():
        kernel.log += [b"hello\n", b"world\n"]
    for query in ("tail=1", "tail=1&follow=true"):
        said = lab.client.get(f"{HERE}/logs/p/a?{query}", headers=bearer("viewer"))
        assert said.text == "world\n"
    for since, status in (("1", 409), ("1e300", 422), ("253402300800", 422), ("nan", 422), ("-1", 422)):
        assert lab.status(f"{HERE}/logs/p/a?since={since}") == status
    assert lab.status(f"{HERE}/logs/p/a?kernel=other") == 404


@pytest.mark.parametrize(
    ("order", "may"),
    [
        ("suspend", {"operator", "admin"}),
        ("resume", {"operator", "admin"}),
        ("reconcile", {"operator", "admin"}),
        ("approve", {"operator", "admin"}),
        ("rollback", {"admin"}),
    ],
)
def test_who_may_give_orders(lab: Lab, order: str, may: set[str]) -> None:
    body = {"commit": "abcdef"} if order in ("approve", "rollback") else None
    for who in ("viewer", "ours", "operator-of-p", "operator", "admin"):
        status = lab.status(f"{HERE}/{order}", who, "POST", json=body)
        # The folder is in no git repository: whoever may, hears of that.
        assert status in ((200, 202, 404) if who in may else (403,)), who
    assert lab.status(f"{HERE}/{order}", "", "POST", json=body) == 401


def test_orders_hold_and_stand_in_the_audit(lab: Lab) -> None:
    assert lab.status(f"{HERE}/suspend", "operator", "POST", json={"why": "a move"}) == 200
    told = read_directives(lab.workspace.store, "here").suspend
    assert told is not None and (told.actor, told.why) == ("operator", "a move")
    assert told.at == lab.world.clock.now(), "by the clock of what it is about"
    lab.write("a", session("a"))
    lab.once()
    assert lab.world.kernels == {} and lab.get(HERE)["suspended"]
    assert any("suspended by operator (a move)" in note for note in lab.get(HERE)["notes"])
    assert lab.status(f"{HERE}/resume", "operator", "POST") == 200
    resumed = lab.world.clock.now()
    lab.once()
    assert lab.world.kernels and not lab.get(HERE)["suspended"]
    entries = lab.get(f"{HERE}/audit?actor=operator")
    assert [(each["verb"], each["cause"]) for each in entries] == [("suspend", "a move"), ("resume", "")]
    assert [each.at for each in lab.workspace.store.audit("here", actor="operator")] == [told.at, resumed]
    assert lab.get(f"{HERE}/audit?actor=operator", "ours") == []


@pytest.mark.parametrize("token", ["", "unknown", "viewer.with.dots"])
def test_nobody_gets_in_without_being_known(lab: Lab, token: str) -> None:
    lab.once()
    for path in ("/api/v1/clusters", HERE, f"{HERE}/plan", f"{HERE}/stream", "/metrics"):
        answer = lab.client.get(path, headers=bearer(token) if token else {})
        assert answer.status_code == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert lab.status(path, "") == 200


@pytest.mark.parametrize("token", ["", "unknown"])
def test_strangers_do_not_hear_which_clusters_there_are(lab: Lab, token: str) -> None:
    routes = [
        (method, route.path)
        for route in lab.app.routes
        if isinstance(route, Route) and "{cluster}" in route.path
        for method in route.methods or ()
    ]
    assert {path.split("/")[1] for _, path in routes} == {"api", "clusters"} and len(routes) > 40
    for method, path in routes:
        asked = {"headers": bearer(token) if token else {}, "follow_redirects": False}
        here, there = (
            lab.client.request(method, path.replace("{cluster}", name), **asked) for name in ("here", "none")
        )
        assert here.status_code == there.status_code in (302, 303, 401), (method, path)
        assert here.text == there.text, path
        led = here.headers.get("location", "").replace("here", "none")
        assert led == there.headers.get("location", "") and here.headers.keys() == there.headers.keys()


def test_every_answer_has_the_headers(lab: Lab) -> None:
    for path in ("/healthz", HERE, "/nothing", "/api/v1/clusters/none"):
        answer = lab.client.get(path)
        for name, value in HEADERS:
            assert answer.headers[name.decode()] == value.decode(), path
        assert "server" not in answer.headers


def test_answers_are_made_once_and_known_again(lab: Lab) -> None:
    lab.write("a", session("a"))
    lab.once()
    for path in ("resources", "resources/Session/p/a", "queue", "plan", "events", "audit", ""):
        where = f"{HERE}/{path}".rstrip("/")
        first = lab.client.get(where, headers=bearer("viewer"))
        tag = first.headers["etag"]
        for known in (tag, f'"x", W/{tag}', "*"):
            again = lab.client.get(where, headers={**bearer("viewer"), "If-None-Match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag), path
        other = lab.client.get(where, headers={**bearer("viewer"), "If-None-Match": '"x"'})
        assert (other.status_code, other.content) == (200, first.content)
        assert first.headers["cache-control"] == "private, no-cache"


def test_nobody_is_answered_what_was_made_for_another(lab: Lab) -> None:
    assert lab.status(f"{HERE}/suspend", "operator", "POST") == 200
    lab.once()
    for path in (f"{HERE}/audit", HERE):
        asking = ("viewer", "ours", "viewer", "ours")
        tags = [lab.client.get(path, headers=bearer(who)).headers["etag"] for who in asking]
        assert tags[:2] == tags[2:] and tags[0] != tags[1], path
    tag = lab.client.get(f"{HERE}/plan", headers=bearer("viewer")).headers["etag"]
    for who, status in (("ours", 403), ("nobody", 401)):
        headers = {**bearer(who), "If-None-Match": tag}
        assert lab.client.get(f"{HERE}/plan", headers=headers).status_code == status


def test_what_has_changed_is_answered_anew(lab: Lab) -> None:
    lab.write("a", session("a"))
    lab.once()
    before = {path: lab.get(f"{HERE}/{path}") for path in ("resources", "events", "audit")}
    told = lab.get(HERE)
    lab.write("b", session("b"))
    lab.once()
    for path, was in before.items():
        assert len(lab.get(f"{HERE}/{path}")) > len(was), path
    # What is only in the store: no pass has told of it.
    assert lab.status(f"{HERE}/suspend", "operator", "POST") == 200
    assert lab.get(HERE)["suspended"] and not told["suspended"]
    assert lab.get(f"{HERE}/audit")[-1]["verb"] == "suspend"


def test_bodies_that_are_kept_have_a_bound() -> None:
    kept, made = EtagCache(most=100 + 2 * ENTRY_OVERHEAD), []

    def body(asked: str, version: int = 1, size: int = 40) -> bytes:
        return kept.get(asked, version, lambda: made.append(asked) or "x" * (size - 2)).data

    assert [body("a"), body("b"), body("a")] == [b'"' + b"x" * 38 + b'"'] * 3 and made == ["a", "b"]
    body("c")  # Now b was not asked for the longest.
    body("a")
    body("b")
    assert made == ["a", "b", "c", "b"]
    body("large", size=1000 + 2 * ENTRY_OVERHEAD)
    body("large", size=1000 + 2 * ENTRY_OVERHEAD)
    assert made[4:] == ["large", "large"]
    assert kept.peek("b", 2) is None and len(body("b", version=2, size=50)) == 50


def test_what_is_too_large_is_not_read(lab: Lab) -> None:
    large = b"x" * (LARGEST_BODY + 1)
    headers = bearer("operator")
    assert lab.client.post(f"{HERE}/suspend", content=large, headers=headers).status_code == 413
    pieces = (b"y" * 1000 for _ in range(LARGEST_BODY // 1000 + 1))  # Nobody says beforehand how much it is.
    assert lab.client.post(f"{HERE}/suspend", content=pieces, headers=headers).status_code == 413
    assert read_directives(lab.workspace.store, "here").suspend is None


def test_who_sends_nothing_is_not_waited_for() -> None:
    async def sleeps(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    with serving(RequestLimits(sleeps, answer_timeout=0.1)) as address:
        answer = httpx.get(address, timeout=60, verify=False)
    assert (answer.status_code, answer.json()) == (504, {"detail": "this took too long"})


def test_a_webhook_wakes_the_loop(tmp_path: Path) -> None:
    lab = Lab(tmp_path, secret="s3cret")
    body = json.dumps({"ref": "refs/heads/main"}).encode()
    signature = hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
    headers = {"X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={signature}"}
    passes = []
    lab.hub.clusters["here"].listeners.append(passes.append)
    lab.hub.start()
    wait_for(lambda: passes, "a first pass")
    assert lab.client.post("/hooks/git", content=body, headers=headers).json() == {"verdict": "moved"}
    wait_for(lambda: len(passes) > 1, "a pass because of the webhook")
    lab.close()


def test_forged_webhooks_do_not_shut_out_true_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them come from one address, at one moment."""
    monkeypatch.setattr(webhooks, "time", SimpleNamespace(monotonic=lambda: 10.0))
    lab = Lab(tmp_path, secret="s3cret")
    forged = {"X-GitHub-Event": "push", "X-Hub-Signature-256": "sha256=" + "0" * 64}

    def status(content: bytes, headers: dict[str, str]) -> int:
        return lab.client.post("/hooks/git", content=content, headers=headers).status_code

    statuses = [status(b"{}", forged) for _ in range(UNSIGNED_BURST + 1)]
    assert statuses == [401] * UNSIGNED_BURST + [429]
    large = b"x" * (MAX_THROTTLED_BODY_BYTES + 1)
    assert status(large, forged) == 413 and status(large, {"X-GitHub-Event": "push"}) == 429
    body = b'{"ref": "refs/heads/main"}'
    signature = hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
    headers = {"X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={signature}"}
    assert lab.client.post("/hooks/git", content=body, headers=headers).json() == {"verdict": "moved"}
    lab.close()


def test_without_a_secret_no_webhook_is_heard(lab: Lab) -> None:
    assert lab.client.post("/hooks/git", content=b"{}").status_code == 404


def test_news_as_they_happen(lab: Lab) -> None:
    lab.hub.start()
    wait_for(lambda: lab.hub.clusters["here"].good, "a pass")
    last = lab.workspace.store.events("here", limit=1)[-1].seq
    with (
        serving(lab.app) as address,
        httpx.stream("GET", f"{address}{HERE}/stream", headers=bearer("viewer"), timeout=60) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert [next(lines), next(lines)] == [f"id: {last}", "event: pass"]
        lab.write("a", session("a"))
        lab.hub.wake()
        events = []
        for line in lines:
            if line.startswith("data: ") and "resource" in (found := json.loads(line[6:])):
                events.append((found["resource"], found["after"]))
            if ("Session/p/a", "RUNNING") in events:
                break


def test_streams_are_kept_alive_and_nowhere_else(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "ALIVE", 0.1)
    with serving(lab.app) as address, open_stream(address) as answer:
        assert answer.headers["cache-control"] == "no-store" and answer.headers["x-accel-buffering"] == "no"
        assert any(line.startswith(":") for line in answer.iter_lines())


def test_a_stream_ends_some_time(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LONGEST", 0.0)
    with serving(lab.app) as address, open_stream(address) as answer:
        assert [line for line in answer.iter_lines() if line.startswith("event: ")] == ["event: pass"]


@pytest.mark.parametrize("messages", [0, 3000], ids=["silent", "busy"])
def test_who_leaves_a_stream_leaves_nothing_behind(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, messages: int
) -> None:
    news = [(number, events._message("event", {"n": number}, str(number))) for number in range(messages)]
    monkeypatch.setattr(events, "_event_messages", lambda *_: news)
    listeners = lab.hub.clusters["here"].listeners
    before = len(listeners)
    with serving(lab.app) as address:
        for _ in range(5):
            with open_stream(address) as answer:
                parts = answer.iter_raw()
                assert next(parts)
                assert len(listeners) == before + 1
            wait_for(lambda: len(listeners) == before, "nobody listens any more")
    assert not caplog.records


def test_a_stream_ends_when_the_store_cannot_be_read(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lab.once()
    caplog.clear()
    cluster = lab.hub.clusters["here"]
    looks: list[object] = []
    look = events._event_messages

    def counted(*asked: Any) -> Any:
        found = look(*asked)
        looks.append(found)
        return found

    monkeypatch.setattr(events, "_event_messages", counted)
    with serving(lab.app) as address:
        with open_stream(address) as answer:
            lines = answer.iter_lines()
            assert [next(lines)[:3], next(lines)] == ["id:", "event: pass"]
            # Whoever still reads writes back, when it closes the file as the last one, what is spoilt here.
            wait_for(lambda: looks, "the stream has looked, and waits")
            lab.workspace.store.close()
            lab.workspace.store.path.write_bytes(b"not a database")
            cluster.listeners[-1](cluster.latest)
            assert "event: event" not in list(lines)
        assert httpx.get(f"{address}{HERE}/stream", headers=bearer("viewer"), timeout=60).status_code == 503
    assert not caplog.records


def open_stream(address: str) -> contextlib.AbstractContextManager[httpx.Response]:
    return httpx.stream("GET", f"{address}{HERE}/stream", headers=bearer("viewer"), timeout=60)


def test_a_store_that_cannot_be_read_is_said(lab: Lab) -> None:
    lab.once()
    lab.workspace.store.close()
    lab.workspace.store.path.write_bytes(b"not a database")
    answer = lab.client.get(f"{HERE}/events", headers=bearer("viewer"))
    assert answer.status_code == 503 and answer.json()["code"].startswith("BAI-E04")
    lab.workspace.store.path.unlink()


def test_metrics_may_be_open(tmp_path: Path) -> None:
    lab = Lab(tmp_path, access=StaticAccess(open_metrics=True))
    assert lab.status("/metrics", "") == 200
    assert lab.status(HERE, "") == 401
    lab.close()


def test_metrics_are_for_those_who_see_everything(lab: Lab) -> None:
    assert [lab.status("/metrics", who) for who in ("viewer", "ours")] == [200, 403]


def test_what_providers_do_not_do_is_counted(lab: Lab) -> None:
    lab.write("a", session("a"))
    lab.world.inject(Fault("create", failure="refused"))
    lab.once()
    lab.world.down["n1"] = "no route"
    lab.once()
    text = lab.client.get("/metrics", headers=bearer("viewer")).text
    lines = dict(line.rpartition(" ")[::2] for line in text.splitlines() if not line.startswith("#"))
    assert float(lines['bai_provider_errors_total{cluster="here",operation="apply"}']) == 1
    assert float(lines['bai_provider_errors_total{cluster="here",operation="observe"}']) >= 1
    assert float(lines['bai_passes_failed_total{cluster="here"}']) == 1


def test_what_an_answer_costs_does_not_depend_on_the_moment_of_the_day(tmp_path: Path) -> None:
    """Ages are by the clock of the loop: `2m` is less work to write than `2m10s`."""

    def cost(now: float) -> int:
        made = Lab(tmp_path / str(now))
        made.write("a", session("a"))
        made.once()
        made.once()
        made.client.portal = None  # Only of threads that begin meanwhile is the work counted.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("time.time", lambda: now)
            found = instructions(partial(made.client.get, f"{HERE}/resources", headers=bearer("viewer")))
        made.close()
        return found

    cost(1_800_000_000.0)  # What is only done the first time, such as imports, does not count.
    assert len({cost(1_800_000_000.0 + later) for later in (120, 130)}) == 1
