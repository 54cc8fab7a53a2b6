"""Limits of somebody else's: what others use of them counts, and so do pods and claims."""

from __future__ import annotations

from planner.model.types import GroupInfo, Outcome, QuotaLimit, Snapshot
from tests.planner.support import machine, node, place, session

NODES = (node("n", machine(numa=1, cores=64, gpus=8)),)
NAME = "ResourceQuota/team/all"


def plan(limit: QuotaLimit, *pending: str, gpus: int = 1) -> Outcome:
    wanted = tuple(session(name, project=f"p-{name}", gpus=gpus) for name in pending)
    return place(Snapshot(NODES, (GroupInfo("main"),), (limit,), (), wanted))


def limit(kind: str = "cluster", subject: str = "lab", others: int = 0, **hard: int) -> QuotaLimit:
    slots = {name.replace("_", "."): amount for name, amount in hard.items()}
    held = dict.fromkeys(slots, others)
    return QuotaLimit(NAME, kind, subject, slots=slots, others=held)  # type: ignore[arg-type]


def said(outcome: Outcome) -> list[str]:
    return [reason.message for wait in outcome.waits for reason in wait.reasons]


def test_all_projects_of_the_cluster_share_it_with_others() -> None:
    outcome = plan(limit(others=2, cuda_device=4), "a", "b", "c")
    assert len(outcome.placements) == 2
    assert said(outcome) == [
        f"quota {NAME} (cluster lab): uses 4 GPUs of 4 GPUs, 2 GPUs by others; "
        "this session asks for 1 GPU more"
    ]
    (use,) = outcome.quotas
    assert (use.before["cuda.device"], use.after["cuda.device"]) == (2, 4)


def test_it_holds_its_own_project_alone() -> None:
    outcome = plan(limit("project", "p-a", others=4, cuda_device=4), "a", "b")
    assert [one.session for one in outcome.placements] == ["b"]


def test_pods_and_claims_count() -> None:
    assert said(plan(limit(others=1, pods=1), "a")) == [
        f"quota {NAME} (cluster lab): uses 1 pod of 1 pod, 1 pod by others; this session asks for 1 pod more"
    ]
    assert "asks for 1 resource claim more" in said(plan(limit(resourceclaims=0), "a"))[0]
    assert not plan(limit(resourceclaims=0), "a", gpus=0).waits


def test_a_quota_of_bai_counts_neither() -> None:
    own = QuotaLimit("q", "project", "p-a", slots={"pods": 0, "cpu": 4000})
    assert not plan(own, "a").waits


def test_one_kernel_may_ask_too_much_or_too_little() -> None:
    bounds = QuotaLimit(
        "r", "cluster", "lab", others={}, per_kernel={"cpu": 500}, per_kernel_least={"mem": 2**40}
    )
    assert said(plan(bounds, "a")) == [
        "quota r (cluster lab): allows at most 0.5 cores per container; this session asks for 1 core in one",
        "quota r (cluster lab): allows at least 1 TiB per container; this session asks for 1 GiB in one",
    ]
