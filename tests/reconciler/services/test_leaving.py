"""Replicas and the nodes that they have to leave: the service replaces them elsewhere first."""

from __future__ import annotations

from pathlib import Path

import pytest

from providers.fake_provisioner import NodeFault
from tests.reconciler.lab import BASE, session
from tests.reconciler.nodes.lab import profile
from tests.reconciler.services.lab import ServiceLab, service


@pytest.fixture
def lab(tmp_path: Path) -> ServiceLab:
    return ServiceLab(tmp_path)


def test_replicas_lie_apart_or_together(lab: ServiceLab) -> None:
    lab.write({"web": service("replicas: 3")})
    lab.settle()
    assert lab.spread() == {"n1": 1, "n2": 1, "n3": 1}
    lab.write({"web": service("replicas: 3, placement: pack, update: {surge: 3}", template="priority: 3")})
    lab.settle()
    assert sorted(lab.spread().values()) == [3]


def test_another_wish_makes_no_other_generation(lab: ServiceLab) -> None:
    lab.write({"web": service("replicas: 2")})
    lab.settle()
    before = lab.replicas(), lab.status().latest
    lab.write({"web": service("replicas: 2, placement: pack")})
    lab.settle()
    assert (lab.replicas(), lab.status().latest) == before
    kernels = [each for each in lab.world.kernels.values() if each.ended is None]
    assert len(kernels) == 2 and all(each.spec.labels.generation == 1 for each in kernels)


def test_an_update_spreads_the_new_generation(lab: ServiceLab) -> None:
    lab.write({"web": service("replicas: 3")})
    lab.settle()
    lab.write({"web": service("replicas: 3", template="env: {A: b}")})
    lab.settle()
    assert lab.spread() == {"n1": 1, "n2": 1, "n3": 1}


@pytest.mark.parametrize("movable", ["true", "false"])
def test_a_drained_node_is_left_with_surge_elsewhere_first(lab: ServiceLab, movable: str) -> None:
    lab.write({"web": service("replicas: 2", template=f"movable: {movable}, preemptible: true")})
    lab.settle()
    home = lab.spread().most_common(1)[0][0]
    lab.watched.clear()
    lab.set_node(home, "state: drained")
    (note,) = [each for each in lab.turn().warnings if "drain of" in each]
    assert note == (
        f"drain of {home}: Service/p/web moves its replicas, 1 of which is left there; "
        "`drain: {force: true}` stops them at once"
    )
    assert len(lab.replicas()) == 3
    plan = lab.settle()
    assert home not in lab.spread() and len(lab.replicas()) == 2
    assert not [each for each in plan.warnings if "drain of" in each]
    assert all(ready >= 2 and count <= 3 for ready, count in lab.watched)


def test_a_drain_that_is_forced_stops_replicas_at_once(lab: ServiceLab) -> None:
    lab.write({"web": service("replicas: 2")})
    lab.settle()
    home = min(lab.spread())
    lab.set_node(home, "state: drained\n  drain: {force: true}")
    lab.turn()
    assert home not in lab.spread() and len(lab.replicas()) == 2
    lab.settle()


def test_a_drained_node_tells_sessions_that_stay_from_replicas(lab: ServiceLab) -> None:
    lab.write({"a": session("a", "resourceGroup: default, resources: {cpu: 1, memory: 1GiB}")})
    lab.turn()
    lab.write({"web": service("replicas: 3")})
    lab.settle()
    home = lab.place_of("a")
    lab.set_node(home, "state: drained")
    notes = [each for each in lab.turn().warnings if "drain of" in each]
    assert len(notes) == 2
    assert notes[0].startswith(f"drain of {home}: Service/p/web moves its replicas")
    assert notes[1].startswith(f"drain of {home}: blocked by Session/p/a, not to be moved")
    (note,) = [each for each in lab.settle().warnings if "drain of" in each]
    assert "blocked by Session/p/a" in note and home not in lab.spread()


def test_all_nodes_are_drained_one_by_one_without_a_gap(lab: ServiceLab) -> None:
    lab.write({"web": service("replicas: 3")})
    lab.settle()
    lab.watched.clear()
    for name in lab.names:
        lab.set_node(name, "state: drained")
        lab.settle()
        assert name not in lab.spread()
    assert all(ready >= 3 and count <= 4 for ready, count in lab.watched)


def test_without_room_elsewhere_a_replica_stays_on_its_drained_node(tmp_path: Path) -> None:
    lab = ServiceLab(tmp_path, nodes=2)
    lab.write({"web": service("replicas: 2", cpu=6)})
    lab.settle()
    lab.set_node("n1", "state: drained")
    for _ in range(6):
        plan = lab.turn()
    assert lab.spread()["n1"] == 1 and len(lab.replicas()) == 2
    assert "wait for room" in plan.services[0].why
    lab.set_node("n1", "state: active")
    lab.settle()
    assert lab.spread() == {"n1": 1, "n2": 1}


def test_a_node_taken_out_of_the_documents_is_left_first(lab: ServiceLab) -> None:
    lab.write({"web": service("replicas: 3")})
    lab.settle()
    lab.watched.clear()
    text = (lab.folder / "nodes.yaml").read_text().split("---")
    lab.write({"nodes": "---".join(each for each in text if "name: n2}" not in each)})
    plan = lab.turn()
    assert not [each for each in plan.changes if each.id in lab.replicas() and each.before is not None]
    lab.settle()
    assert lab.spread().keys() == {"n1", "n3"} and len(lab.replicas()) == 3
    assert all(ready >= 3 and count <= 4 for ready, count in lab.watched)


# Provisioning


def test_every_node_is_provisioned_and_the_service_never_lacks_a_replica(tmp_path: Path) -> None:
    lab = ServiceLab(tmp_path, provisioned=True)
    lab.write({"web": service("replicas: 3", template="movable: true")})
    lab.settle()
    lab.watched.clear()
    lab.write({"profile": profile(swappiness=2)})
    plan = lab.turn()
    assert plan.rollout is not None and not plan.rollout.wave
    waits = {each.node: each.why for each in plan.rollout.waits}
    assert all("Service/p/web replaces it elsewhere first" in why for why in waits.values())
    while plan.rollout is not None:
        plan = lab.turn()
        assert len(lab.watched) < 60
    lab.settle()
    assert {node.provisioned for node in lab.machines.nodes.values()} == {2}
    assert len(lab.replicas()) == 3
    assert all(ready >= 3 and count <= 4 for ready, count in lab.watched)


def test_one_node_at_a_time_is_cleared_and_takes_nothing_new(tmp_path: Path) -> None:
    lab = ServiceLab(tmp_path, provisioned=True)
    lab.write({"web": service("replicas: 3")})
    lab.settle()
    lab.write({"profile": profile(swappiness=2)})
    spread = lab.spread()
    lab.turn()
    (more,) = (lab.spread() - spread).elements()
    assert more != "n1", "n1 is cleared first"
    pinned = session("b", "resourceGroup: default, placement: {nodes: [n1]}, resources: {cpu: 1}")
    lab.write({"b": pinned})
    assert any(wait.session == "Session/p/b" for wait in lab.plan_nodes().waits)


def test_a_session_that_stays_keeps_its_node_and_the_replicas_there_are_left_alone(tmp_path: Path) -> None:
    lab = ServiceLab(tmp_path, nodes=2, provisioned=True)
    lab.write({"a": session("a", "resourceGroup: default, resources: {cpu: 1, memory: 1GiB}")})
    lab.turn()
    home = lab.place_of("a")
    lab.write({"web": service("replicas: 2")})
    lab.settle()
    (there,) = [name for name, node in lab.replicas().items() if node == home]
    lab.write({"profile": profile(swappiness=2)})
    for _ in range(8):
        lab.turn()
    assert {name: node.provisioned for name, node in lab.machines.nodes.items()}[home] == 1
    assert there in lab.replicas(), "to move it would not help the node"
    lab.drop("a")
    for _ in range(8):
        lab.turn()
    assert {node.provisioned for node in lab.machines.nodes.values()} == {2}


def test_an_empty_node_goes_before_any_replica_moves(tmp_path: Path) -> None:
    lab = ServiceLab(tmp_path, provisioned=True)
    lab.write({"web": service("replicas: 2")})
    lab.settle()
    (empty,) = set(lab.names) - lab.spread().keys()
    lab.write({"profile": profile(swappiness=2)})
    before = lab.replicas()
    plan = lab.turn()
    assert plan.rollout is not None and plan.rollout.wave == (empty,)
    assert lab.replicas() == before


def test_while_a_failed_node_is_left_alone_no_other_is_cleared(tmp_path: Path) -> None:
    lab = ServiceLab(tmp_path, provisioned=True, rules="maxUnavailable: 2")
    lab.write({"web": service("replicas: 2")})
    lab.settle()
    (empty,) = set(lab.names) - lab.spread().keys()
    lab.write({"profile": profile(swappiness=2)})
    lab.machines.inject(NodeFault(empty, "half", why="apt: no such version"))
    lab.apply(lab.plan_nodes(), parallel=1)
    plan = lab.plan_nodes(without=[f"Node/{empty}"])
    assert not [each for each in plan.changes if each.id.startswith("Session/")]


def test_the_canary_of_a_profile_is_cleared_alone(tmp_path: Path) -> None:
    lab = ServiceLab(tmp_path, nodes=4, provisioned=True, rules="maxUnavailable: 3")
    lab.write({"web": service("replicas: 4, update: {surge: 2}")})
    lab.settle()
    lab.write({"profile": profile(swappiness=2)})
    plan = lab.turn()
    assert [each.verb for each in plan.changes if each.id.startswith("Session/")] == ["create"]
    pinned = "resourceGroup: default, resources: {cpu: 1, memory: 1GiB}, placement: {nodes: [%s]}"
    lab.write({"probes": "---".join(session(f"x{name}", pinned % name) for name in lab.names)})
    waiting = [wait.session for wait in lab.plan_nodes().waits]
    assert waiting == ["Session/p/xn1"]


# Nodes that are lost


def _with_node_loss(lab: ServiceLab, after: str) -> None:
    rule = f"metadata: {{name: default}}\nspec: {{nodeLoss: {{after: {after}, then: reschedule}}}}"
    lab.write({"base": BASE.replace("metadata: {name: default}\nspec: {}", rule)})


def test_replicas_of_a_lost_node_run_elsewhere_after_its_groups_grace_at_the_latest(lab: ServiceLab) -> None:
    _with_node_loss(lab, "60s")
    lab.write({"web": service("replicas: 3", template="type: inference, restart: {policy: always}")})
    lab.settle()
    home = min(lab.spread())
    lab.world.down[home] = "no answer"
    for _ in range(9):
        lab.turn(10)
    assert home not in lab.spread() and len(lab.replicas()) == 3
    assert lab.watched[-1] == (3, 3) and min(ready for ready, _ in lab.watched[1:]) >= 2
    assert lab.status().phase == "complete"
    del lab.world.down[home]
    for _ in range(2):
        lab.turn(10)
    kernels = [each for each in lab.world.kernels.values() if each.ended is None]
    assert len(kernels) == 3 and home not in {each.spec.labels.node for each in kernels}


def test_a_lost_node_that_is_drained_too_blocks_nothing(lab: ServiceLab) -> None:
    _with_node_loss(lab, "60s")
    lab.write({"web": service("replicas: 2")})
    lab.settle()
    home = min(lab.spread())
    lab.world.down[home] = "no answer"
    lab.set_node(home, "state: drained")
    for _ in range(6):
        lab.turn(10)
    assert home not in lab.spread() and lab.watched[-1][0] == 2


# Pushed out for others


def _with_preemption(lab: ServiceLab) -> None:
    rule = "metadata: {name: default}\nspec: {preemption: {mode: priority, minimumRunTime: 0s}}"
    lab.write({"base": BASE.replace("metadata: {name: default}\nspec: {}", rule)})


@pytest.mark.parametrize(("unavailable", "left"), [(0, 2), (1, 2), (2, 1)])
def test_sessions_push_out_no_more_replicas_than_the_service_can_do_without(
    lab: ServiceLab, unavailable: int, left: int
) -> None:
    _with_preemption(lab)
    rules = f"replicas: 3, update: {{surge: 0, unavailable: {unavailable}}}"
    rules = rules if unavailable else "replicas: 3"
    lab.write({"web": service(rules, template="preemptible: true, priority: 1", cpu=6)})
    lab.settle()
    wants = "resourceGroup: default, priority: 50, resources: {cpu: 6, memory: 1GiB}"
    lab.write({"urgent": "---".join(session(f"u{at}", wants) for at in range(3))})
    for _ in range(5):
        plan = lab.turn()
        assert lab.watched[-1][0] >= left
    waiting = [wait for wait in plan.waits if wait.session.startswith("Session/p/u")]
    assert len(waiting) == left
    assert "services need" in waiting[0].reasons[-1].message


def test_replicas_that_never_get_ready_are_safe_from_nobody(lab: ServiceLab) -> None:
    """Else such a service would hold what it has, whatever its priority."""
    _with_preemption(lab)
    lab.write({"web": service("replicas: 3", template="preemptible: true, priority: 1", cpu=6)})
    lab.never_ready.add(lab.turn().services[0].latest)
    lab.turn()
    wants = "resourceGroup: default, priority: 50, resources: {cpu: 6, memory: 1GiB}"
    lab.write({"urgent": "---".join(session(f"u{at}", wants) for at in range(3))})
    for _ in range(3):
        plan = lab.turn()
    assert not [wait for wait in plan.waits if wait.session.startswith("Session/p/u")]
