"""What is held counts as taken, wherever else its session is and whoever its owner is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from planner.model.types import DeviceGrant, KernelPlacement
from providers.fake import Fault
from reconciler.plan.pipeline import make_plan
from reconciler.plan.plan_request import PlanRequest
from reconciler.values.state import ForeignHold
from tests.reconciler.lab import NODE, Lab, action, session, summary

UNKNOWN = """
apiVersion: bai/v1
kind: Node
metadata: {name: n2}
spec: {resourceGroup: default}
"""
SLICED = """
apiVersion: bai/v1
kind: Node
metadata: {name: n1}
spec:
  resourceGroup: default
  hardware:
    numaNodes: [{id: 0, cpus: 0-7, memory: 34359738368}]
    gpus:
      - id: GPU-0
        index: 0
        model: A100
        numaNode: 0
        memory: 42949672960
        mig: enabled
        migDevices: [{id: MIG-a, profile: 1g.5gb}, {id: MIG-b, profile: 1g.5gb}]
"""
QUOTA = """
apiVersion: bai/v1
kind: Quota
metadata: {name: few}
spec: {subject: {project: p}, total: {cuda.device: 3}}
"""


def test_a_gang_holds_its_devices_while_another_of_its_nodes_is_not_known(tmp_path: Path) -> None:
    lab = Lab(tmp_path, nodes=2)
    gang = "cluster: {mode: multi-node, roles: {main: 1, sub: 1}}"
    lab.write({"g": session("g", f"resources: {{cpu: 1, cuda.device: 1}}, {gang}")})
    assert lab.apply().ok
    lab.write({"nodes": f"{NODE.format(name='n1')}---{UNKNOWN}"})
    lab.write({"x": session("x", "resources: {cpu: 1, cuda.device: 2}")})
    plan = lab.plan()
    assert [wait.session for wait in plan.waits] == ["Session/p/x"]
    (use,) = plan.groups
    assert (use.before["cuda.device"], use.after["cuda.device"]) == (1, 1)


def test_what_runs_on_a_node_that_is_not_known_counts_against_quotas(tmp_path: Path) -> None:
    lab = Lab(tmp_path, nodes=2)
    lab.write({"q": QUOTA, "g": session("g", "resources: {cuda.device: 2}, placement: {nodes: [n2]}")})
    assert lab.apply().ok
    lab.write({"nodes": f"{NODE.format(name='n1')}---{UNKNOWN}"})
    lab.write({"x": session("x", "resources: {cuda.device: 2}")})
    plan = lab.plan()
    (use,), (wait,) = plan.quotas, plan.waits
    assert use.before["cuda.device"] == 2 and [reason.code for reason in wait.reasons] == ["quota"]
    assert "uses 2 GPUs of 3 GPUs" in wait.reasons[0].message


def test_a_gang_on_a_node_that_is_not_known_is_not_moved(tmp_path: Path) -> None:
    lab = Lab(tmp_path, nodes=2)
    lab.write({"a": session("a", "resources: {cuda.device: 1}, movable: true, placement: {nodes: [n1]}")})
    assert lab.apply().ok
    assert not lab.plan(moves=5).changes
    lab.write({"nodes": f"{NODE.format(name='n2')}---{UNKNOWN.replace('n2', 'n1')}"})
    assert set(summary(lab.plan(moves=5))) == {"Node/n1"}


def test_what_came_back_with_its_node_holds_what_it_has_until_it_is_gone(tmp_path: Path) -> None:
    """Of a deleted session, whose record holds nothing any more, where an apply died that was removing it."""
    lab = Lab(tmp_path)
    lab.write({"a": session("a", "resources: {cpu: 8, memory: 1GiB}")})
    assert lab.apply().ok
    lab.drop("a")
    lab.world.down["n1"] = "no answer"
    assert lab.apply().ok and lab.store.recorded("here")["Session/p/a"].placement is None
    lab.world.down.clear()
    lab.world.inject(Fault("stop", failure="refused"))
    assert not lab.apply().ok and lab.world.kernels
    lab.write({"b": session("b", "resources: {cpu: 8, memory: 1GiB}")})
    assert summary(lab.plan()) == {"Session/p/a": "delete", "Session/p/b": "create"}
    assert action(lab.plan(), "Session/p/b").after.kernels == ()


def test_instances_of_a_gpu_that_somebody_else_holds_are_not_given_out(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write({"nodes": SLICED, "x": session("x", "resources: {cpu: 1, cuda.mig.1g.5gb: 1}")})
    part = KernelPlacement("main1", "n1", (0,), 1000, (0,), 0, (DeviceGrant("MIG-a", "cuda.mig.1g.5gb"),))
    actual = replace(lab.actual(), holds=(ForeignHold("theirs", "else/Session/q/y", part),))
    after = action(make_plan(PlanRequest(lab.desired(), actual, 0.0)), "Session/p/x").after
    assert after is not None and after.placement is not None
    assert [grant.id for grant in after.placement.kernels[0].devices] == ["MIG-b"]
    both = replace(part, devices=(*part.devices, DeviceGrant("MIG-b", "cuda.mig.1g.5gb")))
    actual = replace(actual, holds=(ForeignHold("theirs", "else/Session/q/y", both),))
    waits = make_plan(PlanRequest(lab.desired(), actual, 0.0)).waits
    assert [wait.session for wait in waits] == ["Session/p/x"]
