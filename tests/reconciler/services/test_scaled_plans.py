"""What the autoscaler holds, in plans and applies: it is done and written down with its numbers, and git does
not fight with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.values.services.scaling import ScaleDecision
from reconciler.values.state import Actual
from tests.reconciler.lab import action, summary
from tests.reconciler.services.test_life import ID, ServiceLab, service

SCALED = "autoscaling: {min: 0, max: 6, inFlight: 2}"


class ScaledLab(ServiceLab):
    held: ScaleDecision | None = None

    def actual(self) -> Actual:
        found = super().actual()
        return replace(found, scales={ID: self.held} if self.held is not None else {})

    def hold(self, replicas: int, why: str) -> None:
        self.held = ScaleDecision(replicas, self.world.clock.now(), why)


@pytest.fixture
def lab(tmp_path: Path) -> ScaledLab:
    made = ScaledLab(tmp_path, nodes=3)
    made.write({"web": service(spec=f"replicas: 1\n  {SCALED}")})
    made.settle()
    return made


def test_each_decision_is_a_change_with_its_numbers(lab: ScaledLab) -> None:
    lab.hold(3, "6 requests in flight, 2 for each replica")
    plan = lab.plan()
    created = [each for each in plan.changes if each.id.startswith("Session/")]
    assert [each.verb for each in created] == ["create"] * 2
    words = "the autoscaler holds 3: 6 requests in flight, 2 for each replica"
    assert words in action(plan, ID).cause.text and lab.status(plan).scale == words
    lab.settle()
    causes = [each.cause for each in lab.store.events("here") if each.resource == ID]
    assert sum(words in each for each in causes) == 1, causes
    assert lab.store.recorded("here")[ID].service.scale == lab.held


def test_a_decision_beside_another_document_is_told_too(lab: ScaledLab) -> None:
    lab.write({"web": service(spec=f"replicas: 2\n  {SCALED}")})
    lab.hold(4, "8 requests in flight, 2 for each replica")
    lab.settle()
    causes = [each.cause for each in lab.store.events("here") if each.resource == ID]
    assert any(
        each.endswith("; the autoscaler holds 4: 8 requests in flight, 2 for each replica") for each in causes
    )


def test_the_same_decision_again_changes_nothing(lab: ScaledLab) -> None:
    lab.hold(3, "6 requests in flight, 2 for each replica")
    lab.settle()
    assert not lab.plan().changes


def test_git_and_the_autoscaler_do_not_fight(lab: ScaledLab) -> None:
    """A document with another number is written down, and starts and stops nothing."""
    lab.hold(3, "6 requests in flight, 2 for each replica")
    lab.settle()
    for number in (1, 2, 5):
        lab.write({"web": service(spec=f"replicas: {number}\n  {SCALED}")})
        plan = lab.plan()
        assert summary(plan).keys() - {ID} == set(), summary(plan)
        assert lab.status(plan).wanted == 3 and "the autoscaler holds 3" in lab.status(plan).scale
        plan = lab.settle()
        assert lab.status(plan).count("ready") == 3 and not lab.plan().changes
    lab.held = None  # As a command sees it that keeps no autoscaler.
    plan = lab.plan()
    assert not plan.changes and "the autoscaler holds 3" in lab.status(plan).scale


def test_to_zero_and_back(lab: ScaledLab) -> None:
    lab.hold(0, "0 requests in flight, 2 for each replica")
    status = lab.status(lab.settle())
    assert (status.wanted, status.replicas, status.phase) == (0, (), "complete")
    lab.hold(1, "1 request in flight, 2 for each replica")
    status = lab.status(lab.settle())
    assert (status.wanted, status.count("ready")) == (1, 1)
