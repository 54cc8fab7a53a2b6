"""Generations that were given up, and what gives them another try."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reconciler.services.lab import ServiceLab, service

DEADLINE = "update: {deadline: 20s}"


@pytest.fixture
def lab(tmp_path: Path) -> ServiceLab:
    """A generation that was complete, and one that was given up after it."""
    made = ServiceLab(tmp_path)
    made.write({"web": service(f"replicas: 2, {DEADLINE}")})
    made.settle()
    made.write({"web": service(f"replicas: 2, {DEADLINE}", template="env: {A: b}")})
    made.never_ready.add(made.turn().services[0].latest)
    made.settle()
    assert made.status().phase == "failed"
    return made


def test_with_another_probe_it_is_another_generation(lab: ServiceLab) -> None:
    latest = lab.status().latest
    assert lab.status().target != latest and latest in lab.status().why
    lab.never_ready.clear()
    assert lab.settle().services[0].phase == "failed", "by itself nothing is tried again"
    probe = "readiness: {command: ['true']}"
    lab.write({"web": service(f"replicas: 2, {DEADLINE}, {probe}", template="env: {A: b}")})
    status = lab.settle().services[0]
    assert (status.phase, status.latest) == ("complete", status.stable) != ("complete", latest)


def test_it_is_given_up_again_where_that_does_not_help(lab: ServiceLab) -> None:
    stable = lab.status().stable
    lab.write({"web": service("replicas: 2, update: {deadline: 30s}", template="env: {A: b}")})
    plan = lab.turn()
    assert plan.services[0].phase == "progressing" and plan.services[0].target == plan.services[0].latest
    status = lab.settle().services[0]
    assert (status.phase, status.target) == ("failed", stable)
    assert "not ready within 30s" in status.why
