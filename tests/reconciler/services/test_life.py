"""Services in plans and applies against the fake provider: replicas are placed, recorded and updated."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.plan.pipeline import make_plan
from reconciler.plan.plan_request import PlanRequest
from reconciler.values.plan import Plan
from reconciler.values.services.readiness import Readiness
from reconciler.values.services.status import ServiceStatus
from reconciler.values.state import Actual
from tests.reconciler.lab import NODE, Lab, action, session, summary

GPU = "resources: {cpu: 1, memory: 1GiB, cuda.device: 1}"
ID = "Service/p/web"


def service(command: str = "one", spec: str = "", *, meta: str = "") -> str:
    return f"""
apiVersion: bai/v1
kind: Service
metadata: {{name: web, project: p{", " + meta if meta else ""}}}
spec:
  template: {{command: [{command}], ports: [{{name: http, port: 8000}}], {GPU}}}
  {spec}
"""


class ServiceLab(Lab):
    """`ready`: replicas answer as soon as they run."""

    ready = True

    def readiness(self, seen: Actual, relied: Collection[str]) -> Mapping[str, Readiness]:
        return {name: self.answers[name] for name in relied if name in self.answers}

    def actual(self) -> Actual:
        found = super().actual()
        for identity, each in found.existing.items():
            if each.phase == "RUNNING" and "-" in identity:
                self.answers.setdefault(
                    identity, Readiness(self.ready, self.world.clock.now(), "it says 503")
                )
        readiness = {name: one for name, one in self.answers.items() if name in found.existing}
        return replace(found, readiness=readiness)

    @property
    def answers(self) -> dict[str, Readiness]:
        return self.__dict__.setdefault("_answers", {})

    def settle(self) -> Plan:
        for _ in range(40):
            plan = self.plan()
            if not plan.changes:
                return plan
            result = self.apply(plan)
            assert result.ok, [each for each in result.results if each.outcome != "done"]
        raise AssertionError(summary(plan))

    def status(self, plan: Plan) -> ServiceStatus:
        [found] = plan.services
        return found


@pytest.fixture
def lab(tmp_path: Path) -> ServiceLab:
    return ServiceLab(tmp_path, nodes=3)


def running(lab: Lab) -> list[str]:
    return sorted(lab.store.recorded("here"))


def test_replicas_are_created_placed_and_found_again(lab: ServiceLab) -> None:
    lab.write({"web": service(spec="replicas: 3")})
    plan = lab.plan()
    created = [each for each in plan.changes if each.id.startswith("Session/")]
    assert [each.verb for each in created] == ["create"] * 3
    assert summary(plan)[ID] == "create" and lab.status(plan).count("new") == 3
    plan = lab.settle()
    assert lab.status(plan).phase == "complete"
    record = lab.store.recorded("here")[ID]
    assert record.service.stable == lab.status(plan).latest
    assert [each.name for each in record.service.generations] == [lab.status(plan).latest]


def test_an_update_needs_room_for_the_surge_and_says_so(lab: ServiceLab) -> None:
    lab.write({"web": service(spec="replicas: 6")})
    lab.settle()
    lab.write({"web": service("two", "replicas: 6")})
    lab.apply()
    status = lab.status(lab.settle())
    assert status.phase == "progressing" and status.count("waiting") == 1
    assert "1 of its replicas wait for room" in status.why and "update.unavailable" in status.why
    lab.write({"web": service("two", "replicas: 6\n  update: {unavailable: 1}")})
    plan = lab.settle()
    assert lab.status(plan).phase == "complete" and lab.status(plan).count("ready") == 6


def test_a_drained_node_is_left_without_a_replica_missing(lab: ServiceLab) -> None:
    lab.write({"web": service(spec="replicas: 2")})
    lab.settle()
    node, _ = {each.node for name in running(lab) for each in _kernels(lab, name)}
    nodes = "---".join(
        NODE.format(name=name).replace("spec:", f"spec:\n  state: {'drained' if name == node else 'active'}")
        for name in ("n1", "n2", "n3")
    )
    lab.write({"nodes": nodes})
    plan = lab.plan()
    assert sorted(summary(plan).values()) == ["create", "update"], "a new one first, and the node's document"
    plan = lab.settle()
    assert lab.status(plan).phase == "complete" and lab.status(plan).count("ready") == 2
    assert node not in {each.node for name in running(lab) for each in _kernels(lab, name)}


def _kernels(lab: Lab, identity: str) -> tuple[Any, ...]:
    placement = lab.store.recorded("here")[identity].placement
    return placement.kernels if placement is not None else ()


def test_a_generation_that_fails_is_rolled_back_and_remembered(lab: ServiceLab) -> None:
    lab.write({"web": service(spec="replicas: 2")})
    good = lab.status(lab.settle()).latest
    lab.ready = False
    lab.write({"web": service("bad", "replicas: 2")})
    lab.settle()
    lab.world.clock.sleep(600)
    plan = lab.plan()
    assert "is given up: replica 1 not ready within 10m" in action(plan, ID).why
    status = lab.status(lab.settle())
    assert (status.phase, status.target, status.count("ready")) == ("failed", good, 2)
    assert set(lab.store.recorded("here")[ID].service.failed) == {status.latest}


def test_a_service_that_is_gone_takes_its_replicas_along(lab: ServiceLab) -> None:
    lab.write({"web": service(spec="replicas: 2")})
    lab.settle()
    lab.drop("web")
    assert set(summary(lab.plan()).values()) == {"delete"}
    lab.settle()
    assert not [name for name in running(lab) if "web" in name]


def test_a_protected_service_keeps_its_replicas_when_its_document_goes(lab: ServiceLab) -> None:
    lab.write({"web": service(spec="replicas: 2", meta="annotations: {bai/protect: 'true'}")})
    lab.settle()
    lab.drop("web")
    plan = lab.plan()
    assert plan.violations and summary(plan) == {ID: "delete"}


def test_targets_take_replicas_along(lab: ServiceLab) -> None:
    lab.write({"web": service(spec="replicas: 2"), "other": session("other")})
    plan = lab.plan(targets=(ID,))
    assert (
        sum(verb == "create" and name.startswith("Session/p/web-") for name, verb in summary(plan).items())
        == 2
    )
    assert "Session/p/other" not in summary(plan)


def test_everything_destroyed_means_replicas_too(lab: ServiceLab) -> None:
    lab.write({"web": service(spec="replicas: 2")})
    lab.settle()
    plan = lab.plan(destroy=True)
    assert [verb for name, verb in summary(plan).items() if name.startswith("Session/")] == ["delete"] * 2


def test_a_lost_store_finds_all_replicas_by_their_labels(lab: ServiceLab) -> None:
    lab.write({"web": service(spec="replicas: 3")})
    lab.settle()
    kernels = set(lab.world.kernels)
    lab.lose_store()
    lab.settle()
    assert set(lab.world.kernels) == kernels


def test_a_plan_of_the_same_is_the_same(lab: ServiceLab) -> None:
    lab.write({"web": service(spec="replicas: 3")})
    lab.settle()
    first, again = lab.plan(), lab.plan()
    assert first.actions is again.actions
    request = lab.request()
    assert (
        make_plan(request).digest
        == make_plan(PlanRequest(request.desired, request.actual, request.now)).digest
    )


def test_replicas_that_go_say_why(lab: ServiceLab) -> None:
    lab.write({"web": service(spec="replicas: 2")})
    old = lab.status(lab.settle()).latest
    lab.write({"web": service(spec="replicas: 1")})
    plan = lab.plan()
    assert action(plan, f"Session/p/web-{old}-2").why == "its service is to have 1 replica"
    lab.settle()
    lab.write({"web": service("two", "replicas: 1")})
    new = lab.status(lab.plan()).latest
    lab.apply()
    assert action(lab.plan(), f"Session/p/web-{old}-1").why == f"generation {new} takes its place"
