"""Services in plans, in words and with the URLs of their apps; when a rollout counts as over."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from bai.cli.services.rollout_watch import Outcome, Timer, follow_rollout, outcome_of, parse_status
from bai.queries.names.service_names import find_service, service_part
from bai.render.plan.markdown import render_plan_markdown
from bai.render.plan.services import rollout_line, service_rollouts
from bai.render.plan.terminal import render_plan
from bai.render.resources.services import COLUMNS, ServiceFacts, service_cells, service_json, service_lines
from planner.model.types import DeviceGrant, KernelPlacement, Placement
from reconciler.values.apps.app import session_apps
from reconciler.values.plan import Plan
from reconciler.values.services.status import HeldStatus, ReplicaStatus, ServiceStatus
from schemas.kinds.app_proxy import AppProxy
from schemas.kinds.session import Session
from schemas.problems.errors.command import NoSuchResource
from schemas.problems.errors.server import ServerError
from tests.bai.services import CHAT, NEW, OLD, STATUS, complete

EVIL = "\x1b]8;;http://evil\x07\u202eclick"


def plan(*services: ServiceStatus) -> Plan:
    return Plan("repo", "here", "c" * 40, "t", "b", True, (), services=services)


def drawn(found: Plan) -> str:
    console = Console(file=io.StringIO(), width=200, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(render_plan(found))
    return capture.get()


def test_a_plan_tells_of_services_that_are_not_complete() -> None:
    paused = replace(STATUS, service="Service/p/other", phase="paused", why="`paused` holds it", replicas=())
    found = plan(complete(), STATUS, paused)
    assert [one.service for one in service_rollouts(found)] == [CHAT, "Service/p/other"]
    text = drawn(found)
    assert f"{CHAT}  {OLD} → {NEW}: 2 of 2 updated, 1 ready; waits: no GPU is free" in text
    assert f"{OLD} → {NEW}: 0 of 2 updated, 0 ready; paused: `paused` holds it" in text
    page = render_plan_markdown(found)
    assert "### Services" in page and f"- `{CHAT}` {OLD} → {NEW}: 2 of 2 updated" in page
    assert "Services" not in drawn(plan(complete())) + render_plan_markdown(plan(complete()))


def test_what_the_autoscaler_holds_is_told() -> None:
    words = "the autoscaler holds 2: 8 requests in flight, 4 for each replica"
    scaled = replace(complete(), scale=words)
    assert f"{NEW}: 2 of 2 updated, 2 ready; {words}" in " ".join(drawn(plan(scaled)).split())
    assert words in render_plan_markdown(plan(scaled))
    found = ServiceFacts(CHAT, 0.0, status=scaled)
    assert words in dict(zip(COLUMNS, service_cells(found), strict=True))["scale"]
    assert f"  scale       {words}" in [line.plain for line in service_lines(found)]
    shown = service_json(found)["status"]
    assert shown["scale"] == words
    assert parse_status({"id": CHAT, "status": shown, "replicas": []}, "there") is not None
    evil = replace(scaled, scale=EVIL)
    assert "\x1b" not in rollout_line(evil).text + "".join(
        map(str, service_lines(replace(found, status=evil)))
    )


def test_many_services_are_counted_not_listed() -> None:
    found = plan(*(replace(STATUS, service=f"Service/p/s{at}") for at in range(50)))
    assert "and 30 more services" in drawn(found)


def test_the_first_rollout_comes_from_nowhere() -> None:
    line = rollout_line(replace(STATUS, stable="", why="the first"))
    assert line.text == f"{NEW}: 2 of 2 updated, 1 ready; the first; waits: no GPU is free"


def test_what_sessions_and_committers_say_cannot_write_to_the_terminal() -> None:
    evil = replace(
        STATUS, service=f"Service/p/{EVIL}", why=EVIL, stable=EVIL, phase="failed",
        replicas=(ReplicaStatus(f"Session/p/{EVIL}", EVIL, "waiting", 0.0, EVIL),),
    )  # fmt: skip
    for text in (drawn(plan(evil)), render_plan_markdown(plan(evil)), rollout_line(evil).text):
        assert "\x1b" not in text and "\u202e" not in text


def test_a_service_has_the_urls_of_its_apps() -> None:
    session = Session.model_validate(
        {
            "apiVersion": "bai/v1", "kind": "Session", "metadata": {"name": "chat", "project": "p"},
            "spec": {"ports": [{"name": "api", "port": 8000, "protocol": "http"}]},
        }
    )  # fmt: skip
    proxy = AppProxy.model_validate(
        {
            "apiVersion": "bai/v1", "kind": "AppProxy", "metadata": {"name": "apps"},
            "spec": {"url": "https://*.apps.example"},
        }
    )  # fmt: skip
    facts = ServiceFacts(CHAT, 1.0, status=STATUS, apps=tuple(session_apps(proxy, session, None)))
    assert service_cells(facts)[-1] == "https://api--chat--p.apps.example"
    assert service_json(facts)["apps"][0]["url"] == "https://api--chat--p.apps.example"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (ServiceFacts(CHAT, 1.0), "not applied"),
        (ServiceFacts(CHAT, 1.0, written=False), "no longer in the repository"),
        (
            ServiceFacts(CHAT, 1.0, status=replace(STATUS, phase="paused", why="as written")),
            "paused: as written",
        ),
    ],
)
def test_the_status_says_why(facts: ServiceFacts, words: str) -> None:
    assert service_cells(facts)[COLUMNS.index("status")] == words


def test_what_is_held_is_shown_with_who_was_lent_it() -> None:
    part = KernelPlacement("main1", "n2", (4, 5), 2000, (1,), 1 << 30, (DeviceGrant("GPU-1", "cuda.device"),))
    place = HeldStatus(Placement("Headroom/p/chat-1", "g", (part,)), ("Session/q/job",))
    status = replace(STATUS, headroom=2, held=(place,), unheld="needs 1 GPU")
    facts = ServiceFacts(CHAT, 1.0, status=status)
    assert service_cells(facts)[COLUMNS.index("held")] == "1/2"
    shown = "\n".join(line.plain for line in service_lines(facts))
    words = "1 of 2 places held for more, on n2 (CPU 4-5, 1GiB on numa1, gpu GPU-1), lent to Session/q/job"
    assert f"head-room   {words}; no more: needs 1 GPU" in shown
    told = service_json(facts)
    assert told["status"]["headroom"] == 2 and told["held"][0]["lent"] == ["Session/q/job"]
    assert told["held"][0]["containers"][0]["devices"] == ["GPU-1"]


def test_a_rollout_is_over_when_it_is_complete_or_given_up() -> None:
    assert outcome_of(complete()) == Outcome(True)
    assert outcome_of(None) is None and outcome_of(STATUS) is None
    assert outcome_of(replace(STATUS, phase="paused")) is None
    failed = outcome_of(replace(STATUS, phase="failed", why="a probe"))
    assert failed == Outcome(False, f"generation {NEW} was given up: a probe")
    back = replace(STATUS, phase="failed", target=OLD, why=f"generation {NEW} was given up: a probe")
    assert outcome_of(back) == failed, "each thing is said once"
    assert outcome_of(replace(STATUS, phase="split")) is None
    assert outcome_of(replace(complete(), phase="split")) == Outcome(True)
    assert outcome_of(replace(complete(), phase="split", wanted=3)) is None


def test_each_change_is_one_line_until_the_time_is_over() -> None:
    said: list[str] = []
    now = [0.0]
    looks = iter([None, STATUS, STATUS, replace(STATUS, why="more"), *[STATUS] * 10])

    def sleep(seconds: float) -> None:
        now[0] += seconds

    timer = Timer(lambda: now[0], sleep)
    late = follow_rollout(lambda: next(looks), said.append, timeout=9.0, timer=timer)
    assert not late.good and now[0] == 9.0
    assert len(said) == 4 and said[0] == "no plan has come to it yet" and "; more; waits" in said[2]
    ends = iter([STATUS, complete()])
    assert follow_rollout(lambda: next(ends), said.append, timer=timer) == Outcome(True)


@pytest.mark.parametrize(
    "item",
    [
        {"id": CHAT, "status": "x", "replicas": []},
        {"id": CHAT, "status": {"phase": "gone"}, "replicas": []},
        {"id": CHAT, "status": {**service_json(ServiceFacts(CHAT, 1.0, status=STATUS))["status"]}},
        {"id": CHAT, "status": [], "replicas": 7},
    ],
)
def test_a_server_that_answers_with_nonsense_is_an_error(item: dict[str, object]) -> None:
    with pytest.raises(ServerError, match="not as this version"):
        parse_status(item, "https://server")


def test_what_a_server_tells_is_what_was_planned() -> None:
    item = {"id": CHAT, **service_json(ServiceFacts(CHAT, 1.0, status=STATUS))}
    assert parse_status(item, "") == STATUS
    assert parse_status({"id": CHAT, "status": None}, "") is None


def test_service_names() -> None:
    known = {CHAT, "Service/q/chat", "Service/p/web", "Session/p/web", "Session/service/x"}
    assert service_part("chat") == "" == service_part("p/chat") == service_part("service")
    assert service_part("Services/p/chat") == "p/chat"
    assert find_service("svc/web", known) == "Service/p/web" == find_service("Service/p/web", known)
    assert find_service("web", known) == "" == find_service("p/web", known)
    assert find_service("service/x", known) == ""  # A project may be called so.
    with pytest.raises(NoSuchResource, match="no service named y"):
        find_service("service/y", known)
