"""What health means for plans, and who is asked for it how often."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from providers.health import CODES, ExpectedNode, NodeHealth
from providers.health.facts import MachineFacts
from providers.machines.base import Endpoint, Machine
from reconciler.observe import health
from reconciler.observe.health import check_health, expected_health
from reconciler.plan.decide.node_health import health_notes, without_unfit_gpus
from reconciler.plan.pipeline import make_plan
from reconciler.plan.place.snapshot import node_infos
from reconciler.plan.plan_request import PlanRequest
from reconciler.plan.planner_values import node_info
from reconciler.values.plan import Plan
from reconciler.values.plan_options import PlanOptions
from reconciler.values.state import Actual
from reconciler.values.unfit_gpus import unfit_gpu_names
from schemas.hardware.model import Hardware
from schemas.kinds.cluster import Cluster
from tests.reconciler.lab import Lab, action, session, summary

GPU = "resources: {cpu: 1, cuda.device: 1}"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path, nodes=2)


def sick(node: str, *gpus: int, code: str = "gpu-rows-pending", device: str = "") -> NodeHealth:
    """A node on which the GPUs of these indexes are unfit."""
    hardware = Hardware.model_validate(
        {
            "numaNodes": [{"id": 0, "cpus": "0-3"}],
            "gpus": [{"id": f"GPU-{node}-{index}", "index": index} for index in (0, 1)],
        }
    )
    expected = expected_health(hardware, None, "docker")
    about: dict[str, Any] = {"why": "x", "index": 0, "percent": 99, "of": "bytes"}
    devices = [f"GPU-{node}-{index}" for index in gpus]
    devices += [] if devices or CODES[code].takes == "device" else [device]
    return NodeHealth(
        node, tuple(CODES[code].found(one, **about) for one in devices), MachineFacts(), expected
    )


def planned(lab: Lab, *nodes: NodeHealth, anew: tuple[str, ...] = ()) -> Plan:
    actual = replace(lab.actual(), health={one.node: one for one in nodes})
    return make_plan(PlanRequest(lab.desired(), actual, lab.world.clock.now(), PlanOptions(replace=anew)))


def devices(plan: Plan, identity: str) -> list[str]:
    after = action(plan, identity).after
    assert after is not None and after.placement is not None
    return [grant.id for part in after.placement.kernels for grant in part.devices]


def test_nothing_is_placed_on_a_gpu_that_is_unfit(lab: Lab) -> None:
    lab.write({"s": session("s", f"placement: {{nodes: [n1]}}, {GPU}")})
    assert devices(planned(lab), "Session/p/s") == ["GPU-n1-0"]
    plan = planned(lab, sick("n1", 0))
    assert devices(plan, "Session/p/s") == ["GPU-n1-1"]
    assert "GPU 0 of n1 is out of placement: row remapping is pending" in plan.warnings
    assert devices(planned(lab, sick("n1")), "Session/p/s") == ["GPU-n1-0"], "well again"


def test_who_waits_is_told_which_gpus_are_out(lab: Lab) -> None:
    lab.write({"s": session("s", "resources: {cpu: 1, cuda.device: 2}")})
    plan = planned(lab, sick("n1", 0), sick("n2", 1, code="gpu-rows-failed"))
    [wait] = plan.waits
    assert {reason.code for reason in wait.reasons} == {"impossible", "unhealthy"}
    words = next(reason.message for reason in wait.reasons if reason.code == "unhealthy")
    assert words == (
        "GPU 0 of n1 is out of placement: row remapping is pending; "
        "GPU 1 of n2 is out of placement: row remapping failed"
    )
    lab.write({"s": session("s", "resources: {cpu: 99}")})
    [wait] = planned(lab, sick("n1", 0)).waits
    assert "unhealthy" not in {reason.code for reason in wait.reasons}, "it wants no GPU"


def test_a_driver_that_fails_takes_all_gpus_of_its_node(lab: Lab) -> None:
    lab.write({"s": session("s", f"placement: {{nodes: [n1]}}, {GPU}")})
    plan = planned(lab, sick("n1", code="driver-hangs"))
    assert [wait.session for wait in plan.waits] == ["Session/p/s"]
    assert "all 2 GPUs of n1 are out of placement: the driver hangs: x" in plan.warnings


def test_who_holds_it_is_named_and_left_alone(lab: Lab) -> None:
    lab.write({"s": session("s", f"placement: {{nodes: [n1]}}, {GPU}")})
    lab.apply()
    plan = planned(lab, sick("n1", 0))
    assert summary(plan) == {}
    [drift] = plan.drifts
    assert (drift.resource, drift.kernel) == ("Session/p/s", lab.kernel("s"))
    assert drift.what == "holds gpu 0 of n1, which gets no new sessions: row remapping is pending"
    assert not [warning for warning in plan.warnings if "recorded" in warning]


def test_a_session_that_died_goes_elsewhere(lab: Lab) -> None:
    lab.write({"s": session("s", GPU)})
    lab.apply()
    was = devices(planned(lab), "Session/p/s")
    del lab.world.kernels[lab.kernel("s")]
    assert devices(planned(lab), "Session/p/s") == was, "otherwise it is mended where it was"
    plan = planned(lab, sick("n1", 0))
    assert summary(plan) == {"Session/p/s": "replace"}
    assert was == ["GPU-n1-0"] and devices(plan, "Session/p/s") == ["GPU-n1-1"]
    assert "gpu 0 of n1 gets no sessions" in action(plan, "Session/p/s").why


def test_one_that_is_replaced_anyway_goes_elsewhere(lab: Lab) -> None:
    lab.write({"s": session("s", GPU)})
    lab.apply()
    plan = planned(lab, sick("n1", 0), anew=("Session/p/s",))
    assert devices(plan, "Session/p/s") == ["GPU-n1-1"]
    full = planned(lab, sick("n1", 0, 1), sick("n2", 0, 1), anew=("Session/p/s",))
    assert summary(full) == {}, "it is not stopped for a place that there is not"


def test_other_critical_findings_are_said_and_the_rest_is_counted(lab: Lab) -> None:
    full = sick("n1", code="disk-full", device="/")
    warned = sick("n2", code="gpu-persistence-off", device="GPU-n2-0")
    actual = replace(
        lab.actual(), health={"n1": full, "n2": warned, "n3": NodeHealth("n3", problem="no Python")}
    )
    nodes, _ = node_infos(lab.desired(), actual)
    assert health_notes(nodes.values(), actual) == (
        "n1 /: 99 % of its bytes are used",
        "health of n3 is not known: no Python",
        "1 smaller finding on n2: bai nodes check",
    )


def test_what_was_recorded_of_a_gpu_counts_until_it_is_looked_at(lab: Lab) -> None:
    node = lab.desired().nodes[0]
    assert node.spec.hardware is not None
    bad = {"healthy": False, "health": ("row remapping pending: reset the GPU",)}
    first, second = node.spec.hardware.gpus
    hardware = node.spec.hardware.model_copy(update={"gpus": (first.model_copy(update=bad), second)})
    info = node_info(node, hardware, "default")
    assert without_unfit_gpus(info, None).unhealthy == {"GPU-n1-0"}
    assert without_unfit_gpus(info, NodeHealth("n1", problem="away")).unhealthy == {"GPU-n1-0"}
    well = without_unfit_gpus(info, sick("n1"))
    assert (well.unhealthy, all(gpu.healthy for gpu in well.hardware.gpus)) == (frozenset(), True)
    worse = without_unfit_gpus(info, sick("n1", 1))
    assert (worse.unhealthy, dict(worse.ailing)) == ({"GPU-n1-1"}, {"GPU-n1-1": "row remapping is pending"})
    clean = node_info(node, node.spec.hardware, "default")
    assert without_unfit_gpus(clean, sick("n1", 1)).hardware is clean.hardware, "equal nodes go on sharing it"


def test_expectations_follow_from_records() -> None:
    gpus = [{"id": f"GPU-{index}", "index": index, "pci": f"0000:{index}1:00.0"} for index in range(3)]
    pairs = [
        {"a": "GPU-0", "b": "GPU-1", "kind": "NV", "count": 6},
        {"a": "GPU-0", "b": "GPU-2", "kind": "NV", "count": 6},
    ]
    base = {
        "numaNodes": [{"id": 0, "cpus": "0"}], "gpus": gpus, "links": pairs,
        "nics": [{"id": "mlx5_0", "speedMbps": 400000}, {"id": "eth0"}],
    }  # fmt: skip
    direct = expected_health(Hardware.model_validate(base), None, "docker")
    assert [gpu.links for gpu in direct.gpus] == [12, 6, 6]
    assert (direct.engine, direct.ports, direct.driver) == ("docker", {"mlx5_0": 400_000}, False)
    switched = expected_health(Hardware.model_validate({**base, "nvSwitches": 4}), None, "process")
    assert [gpu.links for gpu in switched.gpus] == [6, 6, 6], "behind switches every pair has all of them"
    assert expected_health(None, None, "process") == ExpectedNode()


# Who is asked, and when


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """Which nodes were asked, call by call; `answers` stands for them."""
    calls: list[list[str]] = []

    def answer(
        machines: Mapping[str, Callable[[], Machine]], expected: Mapping[str, ExpectedNode]
    ) -> dict[str, NodeHealth]:
        calls.append(sorted(machines))
        return {name: replace(ANSWERS[name], expected=expected[name]) for name in machines}

    health.forget_health()
    monkeypatch.setattr("providers.health.query.query_health", answer)
    yield calls
    health.forget_health()


ANSWERS: dict[str, NodeHealth] = {}


def cluster(provider: str = "docker") -> Cluster:
    return Cluster.model_validate(
        {
            "apiVersion": "bai/v1",
            "kind": "Cluster",
            "metadata": {"name": "here"},
            "spec": {"provider": provider},
        }
    )


def endpoints(lab: Lab) -> list[Endpoint]:
    return [Endpoint(node.name, node.name) for node in lab.desired().nodes]


def test_an_answer_counts_for_a_minute(lab: Lab, asked: list[list[str]]) -> None:
    ANSWERS.update(n1=sick("n1", 0), n2=sick("n2"))

    def at(now: float, fresh: float = health.HEALTH_TTL) -> frozenset[str]:
        found = check_health({"n1", "n2"}, lab.desired(), cluster(), endpoints(lab), {}, now, fresh=fresh)
        return unfit_gpu_names(found)

    assert at(100.0) == {"gpu 0 of n1"}
    ANSWERS["n1"] = sick("n1")
    assert at(159.0) == {"gpu 0 of n1"}
    assert asked == [["n1", "n2"]]
    assert at(159.0, fresh=0.0) == frozenset()
    assert at(300.0) == frozenset()
    assert len(asked) == 3
    health.forget_health("n1")
    at(301.0)
    assert asked[-1] == ["n1"], "something was done to it"


def test_a_node_that_does_not_answer_stays_as_it_was_last_seen(lab: Lab, asked: list[list[str]]) -> None:
    ANSWERS.update(n1=sick("n1", 0))

    def at(now: float) -> NodeHealth:
        return check_health({"n1"}, lab.desired(), cluster(), endpoints(lab), {}, now)["n1"]

    assert at(0.0).unfit.keys() == {"GPU-n1-0"}
    ANSWERS["n1"] = NodeHealth("n1", problem="did not answer within 90 s")
    later = at(100.0)
    assert (later.unfit.keys(), later.problem) == ({"GPU-n1-0"}, "did not answer within 90 s")


def test_only_nodes_whose_gpus_were_probed_are_asked(lab: Lab, asked: list[list[str]]) -> None:
    plain = "apiVersion: bai/v1\nkind: Node\nmetadata: {{name: {0}}}\nspec: {{resourceGroup: default}}\n"
    lab.write(
        {"more": plain.format("probed") + "---\n" + plain.format("bare") + "---\n" + plain.format("away")}
    )
    gpus = {"gpus": [{"id": "GPU-x", "index": 0}]}
    numa = {"numaNodes": [{"id": 0, "cpus": "0"}]}
    hardware = {
        "probed": Hardware.model_validate({**numa, **gpus}),
        "away": Hardware.model_validate({**numa, **gpus}),
        "bare": Hardware.model_validate(numa),
    }
    ANSWERS.update(probed=NodeHealth("probed", facts=MachineFacts()))
    from reconciler.values.state import UnreachableNode

    actual = Actual("r", "here", hardware=hardware, missed={"away": UnreachableNode("no route")})
    places = endpoints(lab)
    found = health.add_health(actual, lab.desired(), cluster(), places, 0.0)
    assert (asked, list(found.health)) == ([["probed"]], ["probed"]), "n1 and n2 declare theirs"
    for provider in ("declared", "kubernetes"):
        health.forget_health()
        assert health.add_health(actual, lab.desired(), cluster(provider), places, 0.0) is actual
    assert len(asked) == 1
