"""What becomes news, once, and what does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from planner.model.types import Reason, Wait
from planner.model.uses import QuotaUse
from providers.health.codes import Finding
from providers.health.values import NodeHealth
from reconciler.notify.collect import collect_news, initial_state
from reconciler.notify.conditions import ObservedConditions, observe_conditions
from reconciler.notify.news import News
from reconciler.notify.state import NotifyState, parse_state, serialize_state
from reconciler.store.store import Store
from reconciler.values.plan import Drift
from reconciler.values.records import Audit, Event, Lease
from reconciler.values.state import UnreachableNode
from reconciler.values.violations import Violation
from tests.reconciler.notify.support import notification

OPS = notification(waiting="5m")


class Desk:
    """A store, and what is known of it from round to round."""

    def __init__(self, store: Store) -> None:
        self.store, self.now = store, 1000.0
        self.lease: Lease = store.acquire("lab", "loop", 1e6, 0)
        self.state: NotifyState = initial_state(store, self.sight())

    def sight(self, **fields: Any) -> ObservedConditions:
        return replace(ObservedConditions("lab", self.now, self.now, "", (OPS,), {}), **fields)

    def news(self, *written: Event | Audit, **sight: Any) -> list[tuple[str, str]]:
        """Class and resource of what is new."""
        self.now += 60
        self.store.write(self.lease, written)
        old = set(self.state.boxes["ops"].waiting) if self.state.boxes else set()
        after = parse_state(serialize_state(collect_news(self.state, self.sight(**sight), self.store)))
        assert after is not None
        self.state = after
        self.found: list[News] = [each for each in after.boxes["ops"].waiting if each not in old]
        return [(each.event + (" over" if each.over else ""), each.resource) for each in self.found]


@pytest.fixture
def desk(tmp_path: Any) -> Iterator[Desk]:
    with Store.open(tmp_path / "store.db") as store:
        yield Desk(store)


def event(before: str, after: str, cause: str = "", resource: str = "Session/p/s") -> Event:
    return Event(resource, before, after, cause, 1.0)


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ("CREATING", "RUNNING", "session-started"),
        ("RUNNING", "PENDING", "session-requeued"),
        ("PENDING", "CANCELLED", "session-cancelled"),
        ("CREATING", "ERROR", "session-failed"),
        ("RUNNING", "TERMINATED", "session-finished"),
        ("", "PENDING", None),
        ("PENDING", "SCHEDULED", None),
    ],
)
def test_phases(desk: Desk, before: str, after: str, name: str | None) -> None:
    expected = [(name, "Session/p/s")] if name else []
    assert desk.news(event(before, after)) == expected
    assert desk.news() == []


@pytest.mark.parametrize(("result", "name"), [("failure", "failed"), ("success", "finished")])
def test_a_batch_session_ends_with_its_result(desk: Desk, result: Any, name: str) -> None:
    found = desk.news(replace(event("RUNNING", "TERMINATED", "main1 exited with 9"), result=result))
    assert found == [(f"session-{name}", "Session/p/s")]


def test_nodes(desk: Desk) -> None:
    found = desk.news(*(event("", state, "w", "Node/n") for state in ("PROVISIONING", "REBOOTING", "FAILED")))
    assert found == [("node-rebooted", "Node/n"), ("node-failed", "Node/n")]
    assert desk.news(event("PROVISIONING", "READY", "ok", "Node/n")) == [("node-provisioned", "Node/n")]


def test_the_same_failure_again_and_again_is_told_once(desk: Desk) -> None:
    def failed(why: str) -> Audit:
        return Audit("failed", "Session/p/s", desk.now, why, "loop", "abc")

    assert desk.news(failed("no image")) == [("action-failed", "Session/p/s")]
    assert desk.found[0].what == "no image" and desk.found[0].commit == "abc"
    assert desk.news(failed("no image")) == []
    assert desk.news(failed("no disk")) == [("action-failed", "Session/p/s")]
    desk.now += 1
    assert desk.news(replace(event("CREATING", "RUNNING"), at=desk.now)) == [
        ("session-started", "Session/p/s")
    ]
    assert desk.news(failed("no disk")) == [("action-failed", "Session/p/s")]
    assert desk.news(Audit("failed", "Node/n", 1.0, "told as an event")) == []


def test_orders_and_what_is_none(desk: Desk) -> None:
    assert desk.news(Audit("apply", "", 1.0, "3 actions"), Audit("create", "Session/p/s", 1.0)) == []
    assert desk.news(Audit("pin", "", 1.0, "two is bad", "jo", "0123456789abcdef")) == [("order-given", "")]
    assert desk.found[0].what == "jo holds the cluster at commit 0123456789ab: two is bad"
    undo = Audit("undo-rollout", "Service/p/web", 2.0, "generation 3f9c2a1b in place of 9d01aa42", "jo")
    assert desk.news(undo) == [("order-given", "Service/p/web")]


def test_what_was_there_before_the_first_pass_is_old(desk: Desk) -> None:
    desk.store.write(desk.lease, [event("CREATING", "RUNNING"), replace(event("", "ERROR"), at=desk.now)])
    desk.state = initial_state(desk.store, desk.sight())
    assert desk.news() == [("session-failed", "Session/p/s")], "what this pass did is new"


def seen(**fields: Any) -> ObservedConditions:
    """Of a pass that saw and planned this."""
    plan = {"complete": True, "drifts": (), "quotas": (), "waits": ()}
    actual = {"complete": True, "errors": (), "missed": {}, "health": {}, "existing": {}}
    for name in tuple(fields):
        for part in (plan, actual):
            if name in part:
                part[name] = fields[name]
    done = SimpleNamespace(
        cluster="lab", commit=fields.get("commit", ""),
        repository=SimpleNamespace(of=lambda kind: [OPS, notification("other", cluster="elsewhere")]),
        desired=SimpleNamespace(nodes=[SimpleNamespace(name="n1")]), began=1000.0, ended=1000.0,
        signs=fields.get("signs", {}), violations=fields.get("violations", ()),
        plan=SimpleNamespace(**plan) if fields.get("planned", True) else None,
        actual=SimpleNamespace(**actual) if fields.get("observed", True) else None,
    )  # fmt: skip
    return observe_conditions(done)  # type: ignore[arg-type]


def lasts(desk: Desk, sight: ObservedConditions) -> list[tuple[str, str]]:
    return desk.news(conditions=sight.conditions, unknown_key_prefixes=sight.unknown_key_prefixes)


def test_only_notifications_of_the_cluster_count() -> None:
    assert [each.name for each in seen().notifications] == ["ops"]


def test_what_was_not_looked_at_is_not_over(desk: Desk) -> None:
    ill = NodeHealth(
        "n1", (Finding("gpu-lost", "critical", "the driver cannot reach it", "GPU-0", "reboot"),)
    )
    bad = seen(
        missed={"n2": UnreachableNode("no route")}, health={"n1": ill}, drifts=(Drift("Session/p/s", "gone"),)
    )
    assert sorted(lasts(desk, bad)) == [
        ("drift", "Session/p/s"), ("node-health", "Node/n1"), ("node-lost", "Node/n2"),
    ]  # fmt: skip
    assert {each.severity for each in desk.found} == {"error", "warning"}
    assert lasts(desk, seen(observed=False, planned=False, signs={"loop-failed": "no store"})) == [
        ("loop-failed", "")
    ]
    assert lasts(desk, seen(complete=False, errors=("n3: silent",), health={})) == [
        ("cluster-unseen", ""), ("loop-failed over", ""),
    ]  # fmt: skip
    hung = seen(health={"n1": NodeHealth("n1", problem="the driver hangs")})
    assert sorted(lasts(desk, hung)) == [
        ("cluster-unseen over", ""), ("drift over", "Session/p/s"), ("node-lost over", "Node/n2"),
    ]  # fmt: skip
    assert lasts(desk, seen(health={"n1": NodeHealth("n1")})) == [("node-health over", "Node/n1")]


def test_quotas_that_are_used_up(desk: Desk) -> None:
    use = QuotaUse("vision-gpus", "project vision", {"cuda.device": 8, "cpu": 0}, {}, {"cuda.device": 8})
    assert lasts(desk, seen(quotas=(use,))) == [("quota-reached", "Quota/vision-gpus")]
    assert (
        desk.found[0].project == "vision"
        and desk.found[0].what == "project vision uses all of its cuda.device"
    )
    assert lasts(desk, seen(quotas=(replace(use, after={"cuda.device": 7}),))) == [
        ("quota-reached over", "Quota/vision-gpus")
    ]


def test_what_guards_hold_back(desk: Desk) -> None:
    one = Violation("care", "requireOwner", ("Session/p/s",), "Session/p/s has no owner")
    many = Violation("care", "maxDeletions", ("Session/p/a", "Session/p/b"), "2 deletions in one plan")
    held = seen(violations=(one, many))
    assert sorted(lasts(desk, held)) == [("policy-violated", ""), ("policy-violated", "Session/p/s")]
    assert {each.what for each in desk.found} == {
        "Policy/care: Session/p/s has no owner",
        "Policy/care: 2 deletions in one plan",
    }
    assert lasts(desk, held) == [] and lasts(desk, seen(planned=False)) == []
    assert len(lasts(desk, seen())) == 2, "both are over"


def test_who_waits_for_long(desk: Desk) -> None:
    wait = Wait("Session/p/s", "a100", 1, (Reason("no-capacity", "needs 8 GPUs"),))
    for since, said in ((800.0, []), (600.0, [("session-waiting", "Session/p/s")]), (600.0, [])):
        record = SimpleNamespace(recorded=SimpleNamespace(enqueued_at=since))
        assert lasts(desk, seen(waits=(wait,), existing={"Session/p/s": record})) == said
    assert "waits for 5m or longer in a100: needs 8 GPUs" in serialize_state(desk.state)


def test_who_is_held_waits_as_somebody_wants_it(desk: Desk) -> None:
    wait = Wait("Session/p/s", "a100", 0, (Reason("held", "held by its document"),))
    record = SimpleNamespace(recorded=SimpleNamespace(enqueued_at=0.0))
    assert lasts(desk, seen(waits=(wait,), existing={"Session/p/s": record})) == []


def test_a_store_of_another_version_begins_anew() -> None:
    assert (
        parse_state('{"events": "many"}') is None and parse_state("{") is None and parse_state(None) is None
    )


def test_more_events_at_once_than_are_read_at_a_time(desk: Desk) -> None:
    """A big push: what does not fit is counted, and none is passed over in silence."""
    failed = [event("RUNNING", "ERROR", "it broke", f"Session/p/s{number}") for number in range(5000)]
    desk.news(*failed)
    box = desk.state.boxes["ops"]
    assert len(box.waiting) + box.left_out == 5000
