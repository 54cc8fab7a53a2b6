"""Apps of services at the gate: who opens them, what a link is good for, and which replicas are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bai.queries.apps import app_list
from bai.queries.facts.apps import app_ports, apps_of
from bai.queries.models import AppsQuery
from bai.web.apps.proxy.balancer import Balancer
from bai.web.apps.replica_traffic import ReplicaTraffic, replicas_by_service
from planner.model.types import KernelPlacement, Placement, PortGrant
from reconciler.values.plan import Plan
from reconciler.values.records import Phase, Recorded
from reconciler.values.services.pattern import ServicePattern, pattern_of, replica_session
from reconciler.values.services.readiness import Readiness
from reconciler.values.services.status import ReplicaPhase, ReplicaStatus, ServiceStatus
from reconciler.values.state import Actual, Existing
from schemas.kinds.parts.autoscaling import Autoscaling
from schemas.kinds.service import Service
from schemas.kinds.session import Session
from schemas.problems.errors.command import AmbiguousName, NoSuchResource
from schemas.values.canonical import canonical_document
from tests.bai.web.apps.lab import AppLab, call, token
from tests.bai.web.apps.test_links import audit, linked, share
from tests.bai.web.lab import bearer

HOST = "http--web--p.apps.example"
OTHER = "http--api--p.apps.example"
ELSEWHERE = "http--web--q.apps.example"


def pattern(name: str = "web", project: str = "p", *, who: str = "operators", **spec: Any) -> ServicePattern:
    metadata = {"name": name, "project": project}
    template = {
        "command": ["serve"], "apps": {"http": {"access": who}}, "owner": "jo",
        "ports": [{"name": "http", "port": 80}, {"name": "db", "port": 5, "protocol": "tcp"}], **spec,
    }  # fmt: skip
    head = {"apiVersion": "bai/v1", "metadata": metadata}
    service = Service.model_validate({**head, "kind": "Service", "spec": {"template": template}})
    return pattern_of(service, Session.model_validate({**head, "kind": "Session", "spec": template}))


def replica(
    of: ServicePattern, number: int, phase: ReplicaPhase = "ready", weight: float = 1.0,
    recorded: Phase = "RUNNING", why: str = "",
) -> tuple[ReplicaStatus, Existing]:  # fmt: skip
    session = replica_session(of.session, of.generation, number)
    kernels = (
        KernelPlacement(
            "main1", "n1", (0,), 1000, (0,), 1 << 30, (), network="host", ports=(PortGrant("http", 80, 8080),)
        ),
    )
    record = Recorded(
        session.identity, "here", 1, "d", document=canonical_document(session), phase=recorded,
        kernels=(f"{session.name}-k",), placement=Placement(session.identity, "default", kernels),
    )  # fmt: skip
    status = ReplicaStatus(session.identity, of.generation, phase, weight, why)
    return status, Existing(session.identity, record, recorded)


def status_of(of: ServicePattern, *them: tuple[ReplicaStatus, Existing]) -> ServiceStatus:
    name, generation = of.service.identity, of.generation
    replicas = tuple(each for each, _ in them)
    return ServiceStatus(name, 2, generation, generation, generation, "complete", replicas=replicas)


Them = Mapping[ServicePattern, list[tuple[ReplicaStatus, Existing]]]


def set_services(lab: AppLab, *them: tuple[ServicePattern, list[tuple[ReplicaStatus, Existing]]]) -> None:
    """As a pass has it that saw these."""
    cluster = lab.hub.clusters["here"]
    done = cluster.good
    assert done is not None and done.desired is not None and done.actual is not None and done.plan is not None
    services = {each.service.identity: each for each, _ in them}
    existing = {each.id: each for _, replicas in them for _, each in replicas}
    cluster.good = replace(
        done,
        desired=replace(done.desired, services=services),
        plan=replace(done.plan, services=tuple(status_of(each, *replicas) for each, replicas in them)),
        actual=replace(done.actual, existing={**done.actual.existing, **existing}),
    )


@pytest.fixture
def lab(app_lab: AppLab) -> AppLab:
    web, api, other = pattern(), pattern("api"), pattern(project="q")
    set_services(
        app_lab, (web, [replica(web, 1), replica(web, 2, "starting", 0)]), (api, [replica(api, 1)]),
        (other, [replica(other, 1)]),
    )  # fmt: skip
    return app_lab


def as_(who: str) -> dict[str, str]:
    return bearer(token(who))


def test_a_service_is_opened_by_its_name(lab: AppLab) -> None:
    told = lab.ask(host=HOST, headers=as_("operator-of-p"))
    assert told.passed and told.headers["bai-balanced"] == "yes"
    assert "bai-balanced" not in lab.ask(headers=as_("operator-of-p")).headers, (
        "a session's is dialled as ever"
    )
    query = [(b"x", b"y")]
    for name, known in (("http--web--p", 200), ("db--web--p", 404), ("http--none--p", 404)):
        asked = call(lab.gate, "/certificate", query, f"domain={name}.apps.example")
        assert asked.status == known


def test_strangers_and_other_projects_do_not_open_it(lab: AppLab) -> None:
    statuses = {
        who: lab.ask(host=HOST, headers=as_(who)).status
        for who in ("operator-of-p", "admin", "ours", "of-q", "eve", "nobody")
    }
    assert statuses == {
        "operator-of-p": 200, "admin": 200, "ours": 403, "of-q": 404, "eve": 404, "nobody": 403,
    }  # fmt: skip
    assert lab.ask(host=ELSEWHERE, headers=as_("operator-of-p")).status == 404
    assert lab.ask(host=ELSEWHERE, headers=as_("of-q")).passed
    assert lab.ask(host=HOST).status == 401


def test_strangers_and_strange_tokens_wake_no_service(lab: AppLab) -> None:
    """Of one that sleeps, where any request that is let through waits for a replica."""
    web = pattern()
    rules = Autoscaling.model_validate({"min": 0, "max": 3, "inFlight": 1})
    spec = web.service.spec.model_copy(update={"autoscaling": rules})
    asleep = replace(web, service=web.service.model_copy(update={"spec": spec}))
    set_services(lab, (asleep, []))
    assert lab.ask(host=HOST).status == 401
    assert lab.ask(host=HOST, headers=bearer("forged")).status == 401
    for who in ("ours", "of-q", "eve", "nobody"):
        told = lab.ask(host=HOST, headers=as_(who))
        assert not told.passed and "bai-upstream" not in told.headers, who
    assert lab.ask(host=HOST, headers=as_("operator-of-p")).passed


def test_its_access_rules_are_those_of_its_template(lab: AppLab) -> None:
    for who, opened in (("public", 200), ("project", 401), ("owner", 401)):
        web = pattern(who=who)
        set_services(lab, (web, [replica(web, 1)]))
        assert lab.ask(host=HOST).status == opened
        assert lab.ask(host=HOST, headers=as_("ours")).passed == (who != "owner")


def test_it_waits_until_a_replica_is_ready_and_says_why_to_those_it_knows(lab: AppLab) -> None:
    web = pattern()
    set_services(lab, (web, [replica(web, 1, "unready", 0, why="GET / answers 500")]))
    told = lab.ask(host=HOST, headers=as_("operator-of-p"))
    assert told.status == 503 and told.headers["retry-after"] == "5"
    assert f"web-{web.generation}-1 is unready (GET / answers 500)" in told.detail
    public = pattern(who="public")
    set_services(lab, (public, [replica(public, 1, "unready", 0, why="GET / answers 500")]))
    assert "500" not in lab.ask(host=HOST).detail
    set_services(lab, (web, []))
    assert "it has no replicas" in lab.ask(host=HOST, headers=as_("operator-of-p")).detail


def test_a_link_to_a_service_outlasts_its_updates(lab: AppLab) -> None:
    link, who = linked(lab, what="p/web/http"), lab.browser()
    assert who.ask(link, HOST).status == 302 and who.ask(host=HOST).passed
    newer = pattern(command=["serve", "--newer"])
    assert newer.generation != pattern().generation
    set_services(lab, (newer, [replica(newer, 1)]))
    assert who.ask(host=HOST).passed and lab.browser().ask(link, HOST).status == 302
    assert [entry[1:3] for entry in audit(lab)][:1] == [("share-app", "Service/p/web")]


def test_a_link_to_a_service_is_made_before_it_runs(lab: AppLab) -> None:
    set_services(lab, (pattern(), []))
    link, who = linked(lab, what="p/web/http"), lab.browser()
    assert who.ask(link, HOST).status == 302 and who.ask(host=HOST).status == 503


def test_a_link_ends_with_its_service_or_its_owner(lab: AppLab) -> None:
    link, who = linked(lab, what="p/web/http"), lab.browser()
    assert who.ask(link, HOST).status == 302
    taken_over = pattern(owner="mallory")
    set_services(lab, (taken_over, [replica(taken_over, 1)]))
    assert lab.browser().ask(link, HOST).status == 403
    ended = who.ask(host=HOST)
    assert ended.status == 403 and "has ended" in ended.body
    set_services(lab)
    assert lab.browser().ask(link, HOST).status == 403


def test_a_link_to_one_service_opens_no_other_nor_a_session(lab: AppLab) -> None:
    link = linked(lab, what="p/web/http")
    for host in (OTHER, ELSEWHERE, "jupyter--own--p.apps.example"):
        assert lab.browser().ask(link, host).status == 403
    assert share(lab, "of-q", "p/web/http").status_code == 404
    assert share(lab, "ours", "p/web/http").status_code == 403


def test_nobodys_headers_say_what_is_balanced(lab: AppLab) -> None:
    forged = {**as_("operator-of-p"), "Bai-Balanced": "yes", "Bai-Upstream": "unix//run/other.sock"}
    assert "bai-balanced" not in lab.ask(headers=forged).headers


# Which replicas are asked


def chosen_of(plan: Plan, actual: Actual, **options: Any) -> set[str]:
    balancer = Balancer()
    ReplicaTraffic("here", balancer, lambda line: None, lambda: None, **options).follow(plan, actual)
    found = [balancer.choose("here/Service/p/web", ()) for _ in range(8)]
    return {each.place for each in found if each is not None}


def picture(
    *them: tuple[ReplicaStatus, Existing], readiness: Mapping[str, Readiness] | None = None
) -> tuple[Plan, Actual]:
    existing = {each.id: each for _, each in them}
    plan = Plan(
        "repo", "here", "", "", "", complete=True, actions=(), services=(status_of(pattern(), *them),)
    )
    return plan, Actual("repo", "here", existing=existing, readiness=readiness or {})


def kernel(number: int) -> str:
    return f"here/web-{pattern().generation}-{number}-k"


def test_only_replicas_that_run_and_have_a_part_are_asked() -> None:
    """One whose record says that it is about to stop gets nothing new, also from a server that has just
    started."""
    web = pattern()
    them = [
        replica(web, 1), replica(web, 2, weight=0), replica(web, 3, recorded="TERMINATING"),
        replica(web, 4, "starting"), replica(web, 5, recorded="CREATING"),
    ]  # fmt: skip
    assert chosen_of(*picture(*them)) == {kernel(1)}


def test_how_a_replica_answers_just_now_counts_before_what_the_pass_saw() -> None:
    web = pattern()
    them = [replica(web, 1), replica(web, 2, "starting"), replica(web, 3)]
    names = [status.session for status, _ in them]
    seen = {names[0]: Readiness(False, 0.0), names[1]: Readiness(True, 0.0)}
    assert chosen_of(*picture(*them, readiness=seen)) == {kernel(2), kernel(3)}
    live = {names[2]: Readiness(False, 0.0)}
    assert chosen_of(*picture(*them, readiness=seen), ready=live.get) == {kernel(1)}


def test_a_replica_is_dialled_where_it_really_listens() -> None:
    plan, actual = picture(replica(pattern(), 1))
    (found,) = replicas_by_service(plan.services, actual, "here", {}.get)["here/Service/p/web"]
    assert (found.listening(80), found.listening(81)) == (8080, 81)


def test_commands_show_a_services_apps(lab: AppLab) -> None:
    done = lab.hub.clusters["here"].good
    assert done is not None and done.desired is not None and done.actual is not None
    (app,) = apps_of(done.desired, done.actual, "Service/p/web")
    assert (app.url, app.phase, app.identity) == (f"https://{HOST}", "RUNNING", "Service/p/web")
    assert app_ports(done.desired, "Service/p/web") == ("http",)
    away = {f"Session/p/web-{pattern().generation}-{n}": Readiness(False, 0.0, "no answer") for n in (1, 2)}
    (app,) = apps_of(done.desired, replace(done.actual, readiness=away), "Service/p/web")
    assert app.phase == "PENDING" and "-1 is RUNNING (no answer)" in app.reason


@pytest.mark.parametrize("name", ["service/api", "services/p/api", "Service/p/api", "p/api", "api"])
def test_bai_open_finds_a_service(lab: AppLab, name: str) -> None:
    document = asked(lab, name)
    assert (document["session"], document["phase"], document["ports"]) == (
        "Service/p/api",
        "RUNNING",
        ["http"],
    )
    assert document["apps"] == [
        {"name": "http", "url": f"https://{OTHER}", "protocol": "http", "access": "operators"}
    ]


def test_a_name_of_a_session_and_a_service_is_asked_about(lab: AppLab) -> None:
    of = pattern("own")
    set_services(lab, (of, []))
    with pytest.raises(AmbiguousName):
        asked(lab, "own")
    assert asked(lab, "service/own")["phase"] == "PENDING"
    assert asked(lab, "session/own")["session"] == "Session/p/own"
    with pytest.raises(NoSuchResource, match="session"):
        asked(lab, "nothing")


def asked(lab: AppLab, name: str) -> dict[str, Any]:
    done = lab.hub.clusters["here"].good
    assert done is not None and done.desired is not None
    digests = {**done.desired.digests, **dict.fromkeys(done.desired.services, "d")}
    desired = replace(done.desired, digests=digests)
    view: Any = SimpleNamespace(desired=desired, observed=done.actual, cluster="here", sees=lambda each: True)
    document = app_list.answer(view, AppsQuery.of(session=name, form="json")).document
    return dict(document)
