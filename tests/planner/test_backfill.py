"""Behind a head that waits others start only where they cannot delay it, neither by room nor by quotas."""

from __future__ import annotations

import pytest

from planner.model.types import GroupInfo, Outcome, QuotaLimit, Running, SessionRequest, Snapshot
from tests.planner.audit import audit
from tests.planner.support import machine, node, place, session

NODES = (node("a", machine(numa=1, cores=16, gpus=8)), node("b", machine(numa=1, cores=16, gpus=4)))
GROUP = GroupInfo("main", queue_options={"maxSkips": 0, "backfill": True})
HEAD = session("head", gpus=8, project="p", user="u")
EIGHT = QuotaLimit("eight", "project", "p", slots={"cuda.device": 8})


def plan(*later: SessionRequest, quotas: tuple[QuotaLimit, ...] = (EIGHT,)) -> Outcome:
    """With half of the large node taken until 300."""
    taken = session("taken", gpus=4, timeout=300.0, designated=frozenset({"a"}))
    (placed,) = place(Snapshot(NODES, (GROUP,), pending=(taken,))).placements
    snapshot = Snapshot(NODES, (GROUP,), quotas, (Running(taken, placed, 0.0),), (HEAD, *later))
    outcome = place(snapshot)
    audit(snapshot, outcome)
    return outcome


def started(outcome: Outcome) -> list[str]:
    return [one.session for one in outcome.placements]


def test_the_head_keeps_what_its_quota_leaves() -> None:
    outcome = plan(session("later", gpus=2, project="p", enqueued=1.0))
    assert started(outcome) == []
    (reason,) = outcome.waits[1].reasons
    assert reason.code == "reservation" and "what a quota leaves for it" in reason.message


@pytest.mark.parametrize("quota", [QuotaLimit("one", "user", "u", concurrent=1), EIGHT])
def test_who_is_over_by_then_or_counts_elsewhere_may_start(quota: QuotaLimit) -> None:
    brief = session("brief", gpus=1, project="p", user="u", enqueued=1.0, timeout=300.0)
    other = session("other", gpus=1, project="q", user="v", enqueued=2.0)
    long = session("long", gpus=1, project="p", user="u", enqueued=3.0, timeout=301.0)
    assert started(plan(brief, other, long, quotas=(quota,))) == ["brief", "other"]


def test_without_a_quota_it_may_start_off_the_heads_place() -> None:
    later = session("later", gpus=2, project="p", enqueued=1.0)
    outcome = plan(later, quotas=())
    assert started(outcome) == ["later"]
    assert {kernel.node for kernel in outcome.placements[0].kernels} == {"b"}
