"""A plan stays good while kernels only move forward, and goes stale when a decision's ground has moved."""

from __future__ import annotations

from dataclasses import replace

from providers.base import Labels, Observed
from reconciler.values.encoding.fingerprint import state_fingerprint
from reconciler.values.records import Recorded
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
