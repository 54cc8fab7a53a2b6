"""A plan stays good while kernels only move forward, and goes stale when a decision's ground has moved."""

from __future__ import annotations

from dataclasses import replace

from providers.base import Labels, Observed
from reconciler.apply.steps import action_steps
from reconciler.plan.actions.sides import before_side
from reconciler.values.documents.service_replicas import relied_replicas
from reconciler.values.encoding.fingerprint import state_fingerprint
from reconciler.values.plan import Action, Plan
from reconciler.values.records import Recorded
from reconciler.values.services.pattern import GENERATION_LABEL, SERVICE_LABEL
from reconciler.values.services.readiness import Readiness
from reconciler.values.services.state import RolloutOrder, ServiceGeneration, ServiceState
from reconciler.values.sides import ServiceSide
from reconciler.values.state import Actual, Existing

SESSION = "Session/vision/prep"
LABELS = Labels("repo", "here", SESSION, 1, "d1", "main1", "localhost")
RUNNING = Observed(
    "prep-main1-00000000-g1", LABELS, "running", pid=7, cpus=(0,), memory_nodes=(0,), memory=1 << 28
)
RECORD = Recorded(SESSION, "here", 1, "d1", phase="RUNNING", kernels=(RUNNING.id,))


def seen(kernel: Observed, record: Recorded = RECORD, phase: str = "RUNNING") -> str:
    return state_fingerprint(Actual("repo", "here", {SESSION: Existing(SESSION, record, phase, (kernel,))}))


def test_a_kernel_that_ends_by_itself_makes_no_plan_stale() -> None:
    ended = Observed(RUNNING.id, LABELS, "exited", exit_code=0, reason="exit")
    assert seen(RUNNING) == seen(ended, phase="TERMINATED")


def test_a_restart_makes_no_plan_stale() -> None:
    assert seen(RUNNING) == seen(replace(RUNNING, pid=8, restarts=1))


def test_another_generation_makes_it_stale() -> None:
    assert seen(RUNNING) != seen(RUNNING, replace(RECORD, generation=2))


def test_another_kernel_makes_it_stale() -> None:
    assert seen(RUNNING) != seen(replace(RUNNING, id="prep-main1-00000000-g2"))


def test_a_kernel_less_makes_it_stale() -> None:
    nothing = state_fingerprint(Actual("repo", "here", {SESSION: Existing(SESSION, RECORD, "RUNNING")}))
    assert seen(RUNNING) != nothing


def test_what_is_remembered_of_a_service_and_what_people_want_of_it_make_it_stale() -> None:
    chat = "Service/vision/chat"

    def basis(state: ServiceState, *orders: RolloutOrder) -> str:
        there = Existing(chat, Recorded(chat, "here", 1, "d1", service=state), "")
        wanted = {each.service: each for each in orders}
        return state_fingerprint(Actual("repo", "here", {chat: there}, rollout_orders=wanted))

    first = ServiceGeneration("3f9c2a1b", {}, "", 1.0)
    one, two = ServiceState((first,)), ServiceState((first,), stable="3f9c2a1b")
    order = RolloutOrder(chat, "3f9c2a1b", "9d01aa42", "ada", 1.0)
    later = replace(order, generation="0badcafe")
    bases = [basis(one), basis(two), basis(two, order), basis(two, later)]
    assert len(set(bases)) == 4 and basis(two, order) == bases[2]
    assert bases[2] == basis(two, replace(order, actor="eve", at=2.0))


def test_a_services_state_is_recorded_and_is_what_there_was_before() -> None:
    chat = "Service/vision/chat"
    state = ServiceState((ServiceGeneration("3f9c2a1b", {"spec": {}}, "c" * 40, 1.0),), "3f9c2a1b")
    action = Action(chat, "here", before=None, after=ServiceSide(1, "d1", {"kind": "Service"}, state))
    plan = Plan("repo", "here", "c" * 40, "t", "b", True, (action,))
    (step,) = action_steps(action, plan)
    assert step.record is not None and step.record.service == state
    assert before_side(Existing(chat, step.record, "")) == action.after


def test_of_how_replicas_answer_only_what_a_plan_rests_on_makes_it_stale() -> None:
    """And of that, neither since when nor why."""
    there = Actual("repo", "here", {SESSION: Existing(SESSION, RECORD, "RUNNING", (RUNNING,))})

    def basis(*relied: str, **readiness: Readiness) -> str:
        return state_fingerprint(replace(there, readiness=readiness), relied)

    ready, unready = Readiness(True, 1.0), Readiness(False, 2.0, "refused")
    assert basis("one", one=ready) == basis("one", one=replace(ready, since=9.0))
    assert basis("one", one=unready) == basis("one", one=replace(unready, why="it is answered with 503"))
    distinct = {
        basis("one"),
        *(basis("one", one=each) for each in (ready, unready, replace(ready, dead="x"))),
    }
    assert len(distinct) == 4
    assert basis("one", one=ready, two=ready) == basis("one", one=ready, two=unready)
    assert basis(one=ready) == basis() == state_fingerprint(there)


def test_a_plan_rests_on_all_replicas_of_a_service_that_loses_one() -> None:
    def there(name: str, labels: dict[str, str]) -> Existing:
        document = {"metadata": {"name": name, "project": "vision", "labels": labels}}
        return Existing(
            f"Session/vision/{name}", replace(RECORD, resource=name, document=document), "RUNNING"
        )

    def replica(service: str, number: int) -> Existing:
        labels = {SERVICE_LABEL: service, GENERATION_LABEL: "3f9c2a1b"}
        return there(f"{service}-3f9c2a1b-{number}", labels)

    found = [replica("chat", 1), replica("chat", 2), replica("api", 1), there("prep", {})]
    existing = {each.id: each for each in found}
    both = (found[0].id, found[1].id)
    assert relied_replicas(existing, [found[1].id]) == both
    assert relied_replicas(existing, [found[3].id, "Session/vision/chat-3f9c2a1b-3"]) == ()
    assert relied_replicas(existing, existing) == (found[2].id, *both)
