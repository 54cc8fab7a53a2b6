"""Quotas that lend each other what they do not use."""

from __future__ import annotations

from planner.model.types import (
    GroupInfo,
    Outcome,
    PreemptionRule,
    QuotaLimit,
    Running,
    SessionRequest,
    Snapshot,
)
from tests.planner.audit import audit
from tests.planner.support import machine, node, place, session

NODES = (node("n", machine(numa=1, cores=32, gpus=0)),)
GROUP = GroupInfo("main")


def quota(project: str, cpu: int, **more: object) -> QuotaLimit:
    return QuotaLimit(
        f"q-{project}",
        "project",
        project,
        slots={"cpu": 1000 * cpu},
        **({"cohort": "lab"} | more),  # type: ignore[arg-type]
    )


def plan(
    quotas: tuple[QuotaLimit, ...],
    pending: list[SessionRequest],
    held: tuple[Running, ...] = (),
    group: GroupInfo = GROUP,
) -> Outcome:
    snapshot = Snapshot(NODES, (group,), quotas, held, tuple(pending), now=10.0)
    outcome = place(snapshot)
    audit(snapshot, outcome)
    return outcome


def running(*sessions: SessionRequest) -> tuple[Running, ...]:
    placed = {one.session: one for one in place(Snapshot(NODES, (GROUP,), pending=sessions)).placements}
    return tuple(Running(one, placed[one.id], 0.0) for one in sessions)


def placed(outcome: Outcome) -> list[str]:
    return [one.session for one in outcome.placements]


def test_what_the_cohort_does_not_use_may_be_borrowed() -> None:
    both = (quota("a", 4), quota("b", 4))
    outcome = plan(both, [session("big", cpu=7, project="a")])
    assert placed(outcome) == ["big"]
    choice = outcome.placements[0].choice
    assert choice is not None and "borrows 3 cores from cohort lab" in choice.detail
    assert not placed(plan(both, [session("big", cpu=9, project="a")]))
    assert not placed(plan((quota("a", 4), quota("b", 4, cohort=None)), [session("s", cpu=5, project="a")]))


def test_the_limit_on_borrowing_holds_and_is_told() -> None:
    both = (quota("a", 4, borrowing={"cpu": 2000}), quota("b", 4))
    assert placed(plan(both, [session("s", cpu=6, project="a")])) == ["s"]
    outcome = plan(both, [session("s", cpu=7, project="a")])
    assert outcome.waits[0].reasons[0].message == (
        "quota q-a (project a): uses 0 cores of 4 cores and may borrow 2 cores from cohort lab; "
        "this session asks for 7 cores more"
    )
    none = (quota("a", 4, borrowing={}), quota("b", 4))
    assert not placed(plan(none, [session("s", cpu=5, project="a")]))


def test_quotas_of_another_kind_group_or_cohort_lend_nothing() -> None:
    for other in (
        QuotaLimit("u", "user", "a", slots={"cpu": 9000}, cohort="lab"),
        quota("b", 9, group="main"),
        quota("b", 9, cohort="other"),
    ):
        assert not placed(plan((quota("a", 4), other), [session("s", cpu=5, project="a")]))


def test_an_owner_waits_for_what_it_lent_and_is_told_who_has_it() -> None:
    both = (quota("a", 4), quota("b", 4))
    held = running(session("loan", cpu=6, project="a"))
    outcome = plan(both, [session("own", cpu=4, project="b")], held)
    assert not placed(outcome)
    assert "what is left is lent: quota q-a holds 2 cores of it" in outcome.waits[0].reasons[0].message
    again = plan(both, [session("more", cpu=3, project="a")], held)
    assert "cohort lab uses 6 cores of 8 cores" in again.waits[0].reasons[0].message


def test_an_owner_takes_back_what_it_lent_where_preemption_allows_it() -> None:
    both = (quota("a", 4), quota("b", 4))
    group = GroupInfo("main", preemption=PreemptionRule())
    loan = session("loan", cpu=3, project="a", priority=1, preemptible=True)
    own = session("own-a", cpu=4, project="a", priority=1, preemptible=True)
    held = running(own, loan)
    outcome = plan(both, [session("mine", cpu=4, project="b")], held, group)
    assert placed(outcome) == ["mine"] and [one.session for one in outcome.evictions] == ["loan"]
    equal = plan(both, [session("mine", cpu=4, project="b", priority=1)], held, group)
    assert not placed(equal) and not equal.evictions


def test_nobody_is_pushed_out_so_that_somebody_may_borrow() -> None:
    both = (quota("a", 4), quota("b", 4))
    group = GroupInfo("main", preemption=PreemptionRule())
    held = running(session("own-a", cpu=4, project="a", priority=1, preemptible=True))
    outcome = plan(both, [session("greedy", cpu=6, project="b")], held, group)
    assert not placed(outcome) and not outcome.evictions


def test_within_one_plan_loans_count_at_once() -> None:
    three = (quota("a", 2), quota("b", 2), quota("c", 2))
    pending = [session(f"s{at}", cpu=2, project=name, enqueued=float(at)) for at, name in enumerate("aaab")]
    outcome = plan(three, pending)
    assert placed(outcome) == ["s0", "s1", "s2"]
    uses = {one.quota: one.after["cpu"] for one in outcome.quotas}
    assert uses == {"q-a": 6000, "q-b": 0, "q-c": 0}
