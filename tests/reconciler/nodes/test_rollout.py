"""Nodes on their way to their profiles, from the documents to the machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from providers.fake_provisioner import NodeFault
from reconciler.values.encoding.plan_json import dump_plan, load_plan
from reconciler.values.plan import Plan
from tests.reconciler.lab import action, session, summary
from tests.reconciler.nodes.lab import NodeLab, profile


@pytest.fixture
def lab(tmp_path: Path) -> NodeLab:
    return NodeLab(tmp_path)


def wave(plan: Plan) -> tuple[str, ...]:
    return plan.rollout.wave if plan.rollout else ()


def waits(plan: Plan) -> dict[str, str]:
    return {each.node: each.why for each in plan.rollout.waits} if plan.rollout else {}


def reasons(plan: Plan, name: str) -> list[str]:
    return [r.message for wait in plan.waits if wait.session == f"Session/p/{name}" for r in wait.reasons]


def serving_when_the_profile_changes(lab: NodeLab, spec: str) -> str:
    """All nodes are provisioned, a session of that spec runs on the one that is given, and then every node is
    to be provisioned anew."""
    lab.roll()
    lab.write({"a": session("a", spec)})
    assert lab.apply().ok
    lab.write({"profile": profile(swappiness=2)})
    return lab.place_of("a")


def test_fresh_nodes_go_canary_first_then_all_at_once_and_sessions_wait_for_them(lab: NodeLab) -> None:
    lab.write({"a": session("a", "resources: {cpu: 1, memory: 1GiB}")})
    plan = lab.plan_nodes()
    assert wave(plan) == ("n1",)
    assert plan.rollout is not None and plan.rollout.later == (("n2", "n3"),)
    assert "never provisioned" in action(plan, "Node/n1").why
    assert action(plan, "Node/n2").after.provision is None  # type: ignore[union-attr]
    assert any(
        "take no sessions before they are provisioned: n1, n2, n3: never provisioned" in m
        for m in reasons(plan, "a")
    )
    assert load_plan(dump_plan(plan)) == plan
    assert lab.roll() == [("n1",), ("n2", "n3")]
    assert lab.place_of("a") in lab.names
    assert not lab.plan_nodes().changes
    assert lab.plan_nodes().rollout is None
    assert all(node.provisioned == 1 for node in lab.machines.nodes.values())


def test_a_changed_profile_goes_through_serving_nodes_one_by_one_and_sessions_move(lab: NodeLab) -> None:
    home = serving_when_the_profile_changes(lab, "movable: true, resources: {cpu: 1, memory: 1GiB}")
    plan = lab.plan_nodes()
    assert wave(plan) and home not in wave(plan)  # empty nodes first
    assert "base.sysctls.vm.swappiness 1 → 2" in action(plan, f"Node/{wave(plan)[0]}").why
    done = lab.roll()
    assert sorted(node for each in done for node in each) == list(lab.names)
    assert all(len(each) == 1 for each in done) and done[-1] == (home,)
    assert lab.place_of("a") not in ("", home)
    assert {node.provisioned for node in lab.machines.nodes.values()} == {2}


def test_a_session_that_may_not_move_keeps_its_node_until_it_ends(lab: NodeLab) -> None:
    home = serving_when_the_profile_changes(lab, "resources: {cpu: 1, memory: 1GiB}")
    assert home not in [node for each in lab.roll() for node in each]
    plan = lab.plan_nodes()
    assert "Session/p/a is there: it may not be moved" in waits(plan)[home]
    lab.write({"b": session("b", f"placement: {{nodes: [{home}]}}, resources: {{cpu: 1, memory: 1GiB}}")})
    plan = lab.plan_nodes()
    assert any(wait.session == "Session/p/b" for wait in plan.waits)  # it takes nothing new meanwhile
    lab.drop("a", "b")
    assert lab.roll() == [(home,)] or lab.roll() == []
    assert lab.machines.nodes[home].provisioned == 2


def test_max_unavailable_counts_what_is_out_of_use_already(tmp_path: Path) -> None:
    lab = NodeLab(tmp_path, nodes=4, rules="maxUnavailable: 2, canary: false")
    lab.roll()
    lab.set_node("n4", "state: cordoned")
    assert lab.apply().ok
    lab.write({"profile": profile(swappiness=2)})
    plan = lab.plan_nodes()
    assert wave(plan) == ("n1", "n4")  # n4 is out of use anyway, so that there is room for one more
    assert [set(each) for each in lab.roll()] == [{"n1", "n4"}, {"n2"}, {"n3"}]
    assert next(n for n in lab.desired().nodes if n.name == "n4").spec.state == "cordoned"
    lab.write({"a": session("a", "placement: {nodes: [n4]}, resources: {cpu: 1, memory: 1GiB}")})
    assert any(wait.session == "Session/p/a" for wait in lab.plan_nodes().waits)


def test_no_room_where_too_many_are_out_of_use(tmp_path: Path) -> None:
    lab = NodeLab(tmp_path, rules="maxUnavailable: 1")
    lab.roll()
    lab.refresh()
    lab.machines.down["n3"] = lab.world.down["n3"] = "no route"
    lab.write({"profile": profile(swappiness=2)})
    plan = lab.plan_nodes()
    assert not wave(plan)
    assert waits(plan)["n3"] == "not reached: no route"
    assert waits(plan)["n1"] == "n3 is out of use already, and `maxUnavailable` allows 1"


def test_a_failure_stops_the_wave_is_told_and_comes_first_next_time(tmp_path: Path) -> None:
    lab = NodeLab(tmp_path, nodes=4, rules="canary: false")
    lab.machines.inject(NodeFault("n2", "half", why="apt: no such version"))
    plan = lab.plan_nodes()
    assert wave(plan) == ("n1", "n2", "n3", "n4")
    result = lab.apply(plan, parallel=1)
    outcomes = {each.action: each.outcome for each in result.results}
    assert outcomes["Node/n1"] == "done" and outcomes["Node/n2"] == "failed"
    assert outcomes["Node/n3"] == outcomes["Node/n4"] == "skipped"
    assert lab.store.provision_records("here")["n2"].state == "failed"
    assert "n3" not in lab.store.provision_records("here")
    lab.write({"a": session("a", "placement: {nodes: [n2]}, resources: {cpu: 1, memory: 1GiB}")})
    plan = lab.plan_nodes()
    assert wave(plan) == ("n2",)
    assert action(plan, "Node/n2").why.startswith("its provisioning failed: BAI-E0352")
    assert any("apt: no such version" in message for message in reasons(plan, "a"))
    assert lab.roll() == [("n2",), ("n3", "n4")]
    assert lab.place_of("a") == "n2"
    events = [(e.before, e.after) for e in lab.store.events("here", resource="Node/n2")]
    assert ("", "PROVISIONING") in events and ("PROVISIONING", "FAILED") in events
    assert events[-1] == ("PROVISIONING", "READY")


def test_while_a_failed_node_is_left_alone_the_others_wait_for_it(tmp_path: Path) -> None:
    lab = NodeLab(tmp_path, rules="canary: false")
    lab.machines.inject(NodeFault("n1"))
    lab.apply(parallel=1)
    plan = lab.plan_nodes(without=["Node/n1"])
    assert not wave(plan)
    assert waits(plan)["n2"] == "n1, whose provisioning failed and is tried again later, goes first"


def test_drift_is_told_and_repaired(lab: NodeLab) -> None:
    lab.roll()
    lab.machines.drift("n2", "package curl", "8.1", "7.9")
    plan = lab.plan_nodes(check=True)
    assert [(d.resource, d.what) for d in plan.drifts] == [("Node/n2", "package curl is 7.9, sealed 8.1")]
    assert wave(plan) == ("n2",)
    assert action(plan, "Node/n2").why == "drift: package curl is 7.9, sealed 8.1"
    assert plan.rollout is not None and plan.rollout.tasks["n2"][0].task == "Restore package curl"
    assert lab.roll() == [("n2",)]
    assert not lab.plan_nodes().drifts


def test_a_plan_without_the_nodes_goes_by_what_is_remembered(lab: NodeLab) -> None:
    assert wave(lab.plan_nodes(offline=True)) == ("n1",)
    lab.roll()
    lab.refresh()
    lab.machines.log.clear()
    assert lab.plan_nodes(offline=True).rollout is None
    lab.write({"profile": profile(swappiness=2)})
    assert "1 → 2" in action(lab.plan_nodes(offline=True), "Node/n1").why
    assert not lab.machines.log


def test_a_lost_store_does_not_provision_anything_again(lab: NodeLab) -> None:
    lab.roll()
    lab.lose_store()
    plan = lab.plan_nodes()
    assert plan.rollout is None
    assert set(summary(plan).values()) == {"create"}  # records of documents
    assert lab.apply(plan).ok


def test_nodes_of_a_pool_are_provisioned_and_nothing_is_recorded_of_them(tmp_path: Path) -> None:
    lab = NodeLab(tmp_path)
    pool = "apiVersion: bai/v1\nkind: NodePool\nmetadata: {name: all}\nspec: {namePattern: 'n[1-3]'}\n"
    lab.write({"nodes": pool})
    assert lab.roll() == [("n1",), ("n2", "n3")]
    assert not any(name.startswith("Node/") for name in lab.store.recorded("here"))
    assert not lab.plan_nodes().changes


def test_two_profiles_have_a_canary_each(tmp_path: Path) -> None:
    lab = NodeLab(tmp_path, nodes=4)
    lab.write({"other": profile("other", 5)})
    lab.set_node("n4", "profile: other")
    assert lab.roll() == [("n1", "n4"), ("n2", "n3")]


def test_a_node_that_somebody_else_provisions_is_tried_again(lab: NodeLab) -> None:
    lab.machines.inject(NodeFault("n1", "busy", times=2))
    assert lab.roll() == [("n1",), ("n2", "n3")]


def test_of_many_changes_of_a_profile_two_are_shown(lab: NodeLab) -> None:
    lab.roll()
    sysctls = "vm.swappiness: '2', net.core.somaxconn: '9', vm.max_map_count: '7'"
    lab.write({"profile": profile().replace("vm.swappiness: '1'", sysctls)})
    [node] = wave(lab.plan_nodes())
    assert action(lab.plan_nodes(), f"Node/{node}").why.endswith(" and 1 more")
    lab.write({"profile": profile().replace("vm.swappiness: '1'", sysctls.rpartition(",")[0])})
    assert "more" not in action(lab.plan_nodes(), f"Node/{node}").why


def test_a_node_that_waits_for_a_reboot_says_so(lab: NodeLab) -> None:
    lab.roll()
    for machine in lab.machines.nodes.values():
        machine.reboot_pending = "a new kernel"
    lab.write({"profile": profile(swappiness=2)})
    plan = lab.plan_nodes()
    [node] = wave(plan)
    assert "it waits for a reboot: a new kernel" in action(plan, f"Node/{node}").warnings


@pytest.mark.parametrize(("rules", "grace"), [("", None), ("drainGrace: 90s", 90.0)])
def test_who_leaves_for_a_wave_has_the_clusters_time(tmp_path: Path, rules: str, grace: float | None) -> None:
    lab = NodeLab(tmp_path, nodes=2, rules=rules)
    home = serving_when_the_profile_changes(lab, "movable: true, resources: {cpu: 1, memory: 1GiB}")
    plan = lab.plan_nodes()
    while home not in wave(plan):
        assert lab.apply(plan).ok
        plan = lab.plan_nodes()
    notice = action(plan, "Session/p/a").notice
    assert (notice.grace if notice else None) == grace
