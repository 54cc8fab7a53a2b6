"""What a cluster says, understood without one."""

from __future__ import annotations

from typing import Any

import pytest

from planner.model.links import pair_costs
from providers.kubernetes.api.reflector import View
from providers.kubernetes.objects import labels as own
from providers.kubernetes.observe.devices import DeviceIndex, devices_of
from providers.kubernetes.observe.foreign import foreign_uses, parse_foreign_pod
from providers.kubernetes.observe.hardware import hardware_of
from providers.kubernetes.observe.ledger import DeviceKey, HeldClaim, parse_claim
from providers.kubernetes.observe.namespace_limits import SeenLimits
from providers.kubernetes.observe.nodes import parse_node
from providers.kubernetes.observe.observer import ClusterViews, double_allocations
from providers.kubernetes.observe.offered import offered_devices
from providers.kubernetes.observe.pods import parse_pod
from providers.kubernetes.pods.devices import DeviceClasses, wanted_devices
from reconciler.values.unfit_gpus import known_devices
from schemas.problems.errors.kernel import KernelRefused
from tests.providers.kubernetes.specs import LABELS, claim, gpu, kernel, node, pod, resource_slice

GIB = 2**30
AT = {"startedAt": "2026-01-01T12:00:01Z", "finishedAt": "2026-01-01T12:00:05Z"}
STOPPED = {"annotations": {own.LABELS: own.to_annotation(LABELS), own.STOPPED: "true"}}
MOST = {"annotations": {own.LABELS: own.to_annotation(LABELS), own.RESTARTS: "2"}}
AWAY = {"deletionTimestamp": "2026-01-01T12:00:33Z", "deletionGracePeriodSeconds": 30}
HELD = {"deletionTimestamp": "2026-01-01T12:00:09Z", "finalizers": ["a/b"]}
LATE = {"deletionTimestamp": "2026-01-01T12:02:00Z", "finalizers": ["a/b"]}
PULL = {"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}}
LOOP = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, **AT}}


@pytest.mark.parametrize(
    ("found", "state", "code", "reason"),
    [
        (pod("Pending", spec={"nodeName": None}), "creating", None, ""),
        (pod("Pending"), "starting", None, ""),
        (pod("Pending", {"waiting": {"reason": "ContainerCreating"}}), "starting", None, ""),
        (pod("Pending", PULL), "starting", None, "ImagePullBackOff: no such host"),
        (pod("Running", {"running": AT}), "running", None, ""),
        (pod("Running", ended(1)), "running", None, ""),
        (pod("Running", LOOP, container={"restartCount": 2, "lastState": ended(1)}), "running", None,
         "CrashLoopBackOff: back-off 10s"),
        (pod("Running", LOOP, container={"restartCount": 3, "lastState": ended(7)}, metadata=MOST), "exited",
         7, "exit"),
        (pod("Running", LOOP, container={"restartCount": 2, "lastState": ended(7)}, metadata=MOST), "exited",
         7, "exit"),
        (pod("Running", LOOP, container={"restartCount": 1, "lastState": ended(7)}, metadata=MOST), "running",
         None, "CrashLoopBackOff: back-off 10s"),
        (pod("Running", {"running": AT}, container={"restartCount": 2, "lastState": ended(7)}, metadata=MOST),
         "running", None, ""),
        (pod("Succeeded", ended(0, "Completed")), "exited", 0, "exit"),
        (pod("Failed", ended(3)), "exited", 3, "exit"),
        (pod("Failed", ended(137)), "exited", 137, "signal 9"),
        (pod("Failed", ended(255)), "exited", 255, "exit"),
        (pod("Failed", ended(137, "OOMKilled")), "exited", 137, "out-of-memory"),
        (pod("Failed", ended(137), reason="DeadlineExceeded"), "exited", 137, "timeout"),
        (pod("Failed", reason="DeadlineExceeded"), "exited", None, "timeout"),
        (pod("Failed", ended(143), reason="DeadlineExceeded", metadata=STOPPED), "exited", 143, "stopped"),
        (pod("Succeeded", ended(0, "Completed"), metadata=STOPPED), "exited", 0, "stopped"),
        # Deleted while it ran, however it ended then; and deleted after it had ended.
        (pod("Succeeded", ended(0, "Completed"), metadata=AWAY), "lost", None, "deleted"),
        (pod("Failed", ended(1), metadata=AWAY), "lost", None, "deleted"),
        (pod("Failed", ended(137), metadata={**AWAY, "deletionGracePeriodSeconds": 0}), "lost", None,
         "deleted"),
        (pod("Succeeded", ended(0, "Completed"), metadata=HELD), "lost", None, "deleted"),
        (pod("Succeeded", ended(0, "Completed"), metadata=LATE), "exited", 0, "exit"),
        (pod("Failed", ended(143), metadata={**AWAY, **STOPPED}), "exited", 143, "stopped"),
        (pod("Failed", ended(137), reason="Evicted", message="low on memory"), "lost", None,
         "Evicted: low on memory"),
        (pod("Failed", reason="OutOfcpu", message="Node didn't have enough"), "lost", None,
         "OutOfcpu: Node didn't have enough"),
        (pod("Failed", reason="OutOfnvidia.com/gpu"), "lost", None, "OutOfnvidia.com/gpu"),
        (pod("Failed"), "lost", None, "it was never started"),
        (pod("Running", {"running": AT}, metadata={"deletionTimestamp": "2026-01-01T12:00:09Z"}), "stopping",
         None, ""),
        (pod("Running", {"running": AT}, metadata=STOPPED), "stopping", None, ""),
        (pod("Unknown", {"running": AT}), "running", None, ""),
    ],
)  # fmt: skip
def test_what_a_pod_says_of_its_kernel(
    found: dict[str, Any], state: str, code: int | None, reason: str
) -> None:
    parsed = parse_pod(found)
    assert parsed is not None
    kernel = parsed.kernel
    assert (kernel.state, kernel.exit_code, kernel.reason) == (state, code, reason)
    assert kernel.labels == LABELS and kernel.created is not None
    ran = (state == "exited" and code is not None) or reason.startswith(("Evicted", "deleted"))
    assert (kernel.finished is not None) == ran


def test_restarts_beyond_the_most_are_not_counted() -> None:
    spent = parse_pod(
        pod("Running", LOOP, container={"restartCount": 3, "lastState": ended(7)}, metadata=MOST)
    )
    assert spent is not None and spent.spent and spent.kernel.restarts == 2
    for odd in ("", "x", "-1", "²"):
        about = {"annotations": {**MOST["annotations"], own.RESTARTS: odd}}
        found = parse_pod(pod("Running", LOOP, container={"restartCount": 99}, metadata=about))
        assert found is not None and not found.spent and found.kernel.restarts == 99


def test_times_that_are_none_are_left_out() -> None:
    found = parse_pod(
        pod("Running", {"running": {"startedAt": "soon"}}, metadata={"creationTimestamp": None})
    )
    assert found is not None and found.kernel.started is None and found.kernel.created is None


def test_devices_are_of_complete_pools_in_their_newest_generation() -> None:
    old, new = resource_slice(gpu(1), gpu(2)), resource_slice(gpu(3), generation=2)
    assert [each.id for each in devices_of([old, new])] == ["GPU-3"]
    half = resource_slice(gpu(1), count=2)
    assert devices_of([half]) == ()
    assert [each.id for each in devices_of([half, resource_slice(gpu(2), count=2)])] == ["GPU-1", "GPU-2"]
    assert devices_of([half, resource_slice(gpu(9), pool="other")])[0].pool == "other"
    everywhere = resource_slice(gpu(1))
    everywhere["spec"] = {**everywhere["spec"], "nodeName": None, "allNodes": True}
    assert devices_of([everywhere, {}, {"spec": None}]) == ()


def test_what_a_device_is_known_by() -> None:
    tainted = {**gpu(3), "taints": [{"key": "a", "effect": "None"}, {"key": "sick", "effect": "NoExecute"}]}
    mine = {"name": "gpu-4", "attributes": {"gpu.nvidia.com/uuid": {"string": "GPU-x"}}}
    found = devices_of([resource_slice(gpu(1), gpu(2, uuid=None), {"name": "gpu-9"}, tainted, mine)])
    assert [each.id for each in found] == ["GPU-1", "0000:02:00.0", "n0/gpu-9", "GPU-3", "GPU-x"]
    assert [each.tainted for each in found] == ["", "", "", "sick", ""]
    assert found[0].capacity == {"memory": "80Gi"} and found[0].key == ("gpu.nvidia.com", "n0", "gpu-1")


def holders_of(*claims: dict[str, Any]) -> dict[DeviceKey, tuple[HeldClaim, ...]]:
    found: dict[DeviceKey, tuple[HeldClaim, ...]] = {}
    for held in filter(None, map(parse_claim, claims)):
        for device in held.devices:
            found[device] = (*found.get(device, ()), held)
    return found


def test_who_has_a_device() -> None:
    claims = [
        claim("one", "gpu-1"), claim("two", "gpu-1", "gpu-2"), claim("admin", "gpu-3", adminAccess=True),
        claim("shared", "gpu-4", shareID="s"), claim("too", "gpu-4", shareID="t"),
        {"metadata": {"name": "waits"}}, {"metadata": {}, "status": {}},
    ]  # fmt: skip
    held = [parse_claim(each) for each in claims]
    assert [each and (each.name, [key[2] for key in each.devices]) for each in held] == [
        ("one", ["gpu-1"]), ("two", ["gpu-1", "gpu-2"]), None, ("shared", ["gpu-4"]), ("too", ["gpu-4"]),
        None, None,
    ]  # fmt: skip
    holders = holders_of(*claims)
    devices = DeviceIndex(devices_of([resource_slice(gpu(1), gpu(2))]))
    nothing: View[Any] = View({}, 0)
    twice = double_allocations(
        ClusterViews(nothing, nothing, nothing, holders, devices, SeenLimits(None, None))
    )
    assert twice == {"GPU-1": ("others/one", "others/two")}


def test_what_hardware_a_node_has() -> None:
    gpus = [gpu(number, productName="H100", driverVersion="580.1") for number in (10, 2)]
    mig = gpu(5, type="mig", profile="1g.10gb", parentUUID="GPU-2", uuid="MIG-5")
    nic = {
        "name": "nic",
        "attributes": {"dra.net/rdmaDevice": {"string": "mlx5_0"}, "dra.net/ifName": {"string": "ib0"}},
    }
    slices = [
        resource_slice(*gpus, mig), resource_slice(nic, driver="dra.net"),
        resource_slice(gpu(1), node="n1"), resource_slice({"name": "odd"}, driver="odd.example.com"),
    ]  # fmt: skip
    found = hardware_of(parse_node(node()), DeviceIndex(devices_of(slices)))
    assert [(each.id, each.index, each.model, each.memory) for each in found.gpus] == [
        ("GPU-2", 0, "H100", 80 * GIB), ("GPU-10", 1, "H100", 80 * GIB),
    ]  # fmt: skip
    assert [(each.id, each.profile) for each in found.gpus[0].mig_devices] == [("MIG-5", "1g.10gb")]
    assert found.gpus[0].mig == "enabled" and found.gpus[1].mig is None
    assert [(each.id, each.interface) for each in found.nics] == [("mlx5_0", "ib0")]
    assert found.architecture == "x86_64" and len(found.numa_nodes[0].cpus) == 8
    assert "direct links between GPUs" in found.unknown
    bare = hardware_of(parse_node(node()), DeviceIndex(()))
    assert bare.gpus == () and any("no DRA driver" in each for each in bare.unknown)


def test_exactly_what_hardware_would_have_is_offered() -> None:
    odd = {"name": "odd", "attributes": {"uuid": {"string": "ODD-1"}}}
    lost = gpu(6, type="mig", profile="1g.10gb", parentUUID="GPU-9", uuid="MIG-6")
    mig = gpu(5, type="mig", profile="1g.10gb", parentUUID="GPU-2", uuid="MIG-5")
    nic = {"name": "nic", "attributes": {"dra.net/rdmaDevice": {"string": "mlx5_0"}}}
    cpu = {"name": "cpu", "attributes": {"cpuID": {"int": 0}, "dra.cpu/numaNodeID": {"int": 0}}}
    unplaced = {"name": "cpu", "attributes": {"cpuID": {"int": 1}}}
    slices = [
        resource_slice(gpu(1), gpu(2), mig, lost), resource_slice(nic, driver="dra.net"),
        resource_slice(odd, driver="odd.example.com"), resource_slice(cpu, driver="dra.cpu"),
        resource_slice(cpu, unplaced, driver="dra.cpu", node="n1"),
    ]  # fmt: skip
    devices = DeviceIndex(devices_of(slices))
    found = offered_devices(devices)
    assert found.cores == {"n0"}
    for name in ("n0", "n1"):
        hardware = hardware_of(parse_node(node(name)), devices)
        assert found.devices[name] == known_devices(hardware)
        assert hardware.knows_cores == (name in found.cores)
    assert found.devices["n0"] == {"GPU-1", "GPU-2", "MIG-5", "mlx5_0"}
    assert offered_devices(DeviceIndex(())).devices == {}


def test_cores_that_a_plan_rests_on_are_not_left_out() -> None:
    spec = kernel(cpus=(0,))
    assert wanted_devices(spec, ()) == ()
    with pytest.raises(KernelRefused, match="publishes CPU 0 of node n0"):
        wanted_devices(spec, (), {"n0"})


def test_devices_of_one_numa_node_are_near_where_nobody_tells_its_cpus() -> None:
    gpus = []
    for number, (root, numa) in enumerate((("a", 0), ("a", 0), ("b", 0), ("c", 1), ("c", None))):
        made = gpu(number, **{"resource.kubernetes.io/pcieRoot": f"pci0000:{root}"})
        if numa is not None:
            made["attributes"]["resource.kubernetes.io/numaNode"] = {"int": numa}
        gpus.append(made)
    found = hardware_of(parse_node(node()), DeviceIndex(devices_of([resource_slice(*gpus)])))
    pairs = {(link.a, link.b, link.kind) for link in found.links}
    assert pairs == {("GPU-0", "GPU-2", "NODE"), ("GPU-1", "GPU-2", "NODE")}
    costs = pair_costs(found, found.gpus)
    assert costs[0][1] < costs[0][2] < costs[0][3]
    many = [gpu(number, **{"resource.kubernetes.io/numaNode": None}) for number in range(65)]
    for each in many:
        each["attributes"]["resource.kubernetes.io/numaNode"] = {"int": 0}
    assert hardware_of(parse_node(node()), DeviceIndex(devices_of([resource_slice(*many)]))).links == ()


def test_device_classes_are_of_the_kind_or_of_the_driver() -> None:
    whole, mig = devices_of([resource_slice(gpu(1), gpu(2, type="mig"))])
    both = DeviceClasses({"gpu.nvidia.com": {}, "mig.nvidia.com": {}})
    assert (both.class_of(whole), both.class_of(mig)) == ("gpu.nvidia.com", "mig.nvidia.com")
    assert DeviceClasses({"gpu.nvidia.com": {}}).class_of(mig) == "gpu.nvidia.com"
    assert DeviceClasses({}).class_of(whole) == ""


def asks(cpu: str, memory: str, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


@pytest.mark.parametrize(
    ("spec", "cpu", "memory"),
    [
        ({"containers": [asks("250m", "1Gi"), asks("1", "2Gi"), {}]}, 1250, 3 * GIB),
        ({"containers": [asks("1", "1Gi")], "initContainers": [asks("4", "512Mi"), asks("2", "3Gi")]}, 4000,
         3 * GIB),
        ({"containers": [asks("1", "1Gi")], "initContainers": [asks("2", "1Gi", restartPolicy="Always")]},
         3000, 2 * GIB),
        # An ordinary one that begins after a sidecar runs beside it.
        ({"containers": [asks("1", "1Gi")],
          "initContainers": [asks("2", "1Gi", restartPolicy="Always"), asks("4", "1Gi")]}, 6000, 2 * GIB),
        ({"containers": [asks("1", "1Gi")],
          "initContainers": [asks("4", "1Gi"), asks("2", "1Gi", restartPolicy="Always")]}, 4000, 2 * GIB),
        ({"containers": [asks("1", "1Gi")], "resources": {"requests": {"cpu": "3"}}}, 3000, GIB),
        ({"containers": [asks("1", "1Gi")], "overhead": {"cpu": "100m", "memory": "1Gi"}}, 1100, 2 * GIB),
        ({"containers": []}, 0, 0),
    ],
)  # fmt: skip
def test_what_pods_of_others_ask_for(spec: dict[str, Any], cpu: int, memory: int) -> None:
    found = parse_foreign_pod(pod(spec={"nodeName": "n0", **spec}))
    assert found is not None and (found.asked["cpu"], found.asked["mem"]) == (cpu, memory)


def test_huge_pages_of_others_are_use() -> None:
    """As Kubernetes counts: together, or the most that begins before, and what the kubelet keeps."""
    containers = [{"resources": {"requests": {"hugepages-2Mi": "4Mi"}}}] * 2
    first = [{"resources": {"requests": {"hugepages-2Mi": "2Mi", "hugepages-1Gi": "3Gi", "x/y": "1"}}}]
    spec = {"nodeName": "n0", "containers": containers, "initContainers": first}
    theirs = parse_foreign_pod(pod(spec=spec))
    assert theirs is not None
    assert theirs.asked == {"hugepages-2Mi": 8 << 20, "hugepages-1Gi": 3 * GIB}
    made = node("n0")
    made["status"]["capacity"] |= {"hugepages-2Mi": "1Gi", "hugepages-1Gi": "8Gi"}
    made["status"]["allocatable"] |= {
        "memory": "54Gi", "hugepages-2Mi": "1020Mi", "hugepages-1Gi": "8Gi",
    }  # fmt: skip
    known = parse_node(made)
    assert known.hugepages == {"hugepages-2Mi": GIB, "hugepages-1Gi": 8 * GIB}
    assert (known.kept_memory, known.kept_hugepages) == (GIB, {"hugepages-2Mi": 4 << 20})
    (use,) = foreign_uses([known], [theirs], DeviceIndex(()), {}, frozenset())
    assert use.hugepages == {"hugepages-2Mi": 12 << 20, "hugepages-1Gi": 3 * GIB}
    assert (use.memory, use.owner) == (GIB, theirs.name)
    (numa,) = hardware_of(known, DeviceIndex(())).numa_nodes
    assert numa.hugepages == {"2Mi": GIB, "1Gi": 8 * GIB} and numa.memory == 64 * GIB


def test_huge_pages_are_spread_over_numa_nodes_in_whole_ones() -> None:
    made = node("n0")
    made["status"]["capacity"] |= {"hugepages-2Mi": "6Mi", "hugepages-1Gi": "0"}
    cpus = [
        {"name": f"cpu-{at}", "attributes": {
            f"dra.cpu/{name}": {"int": value}
            for name, value in (("cpuID", at), ("numaNodeID", at % 2), ("coreID", at), ("socketID", 0))
        }}
        for at in range(4)
    ]  # fmt: skip
    slices = [resource_slice(*cpus, driver="dra.cpu")]
    found = hardware_of(parse_node(made), DeviceIndex(devices_of(slices)))
    assert [dict(each.hugepages) for each in found.numa_nodes] == [{"2Mi": 4 << 20}, {"2Mi": 2 << 20}]
    assert any("huge pages of each NUMA node (taken for equal parts)" in each for each in found.unknown)


def test_pods_that_hold_nothing_are_left_out() -> None:
    for found in (pod("Succeeded"), pod("Failed"), pod("Pending", spec={"nodeName": ""})):
        assert parse_foreign_pod(found) is None


def test_what_others_use_of_a_node() -> None:
    nodes = [parse_node(node("n0")), parse_node(node("n1"))]
    sick = {**gpu(3), "taints": [{"key": "sick", "effect": "NoSchedule"}]}
    devices = DeviceIndex(devices_of([resource_slice(gpu(1), gpu(2), sick)]))
    theirs = parse_foreign_pod(
        pod(spec={"containers": [asks("1", "1Gi")]}, metadata={"name": "x", "namespace": "y"})
    )
    assert theirs is not None
    claims = holders_of(claim("mine", "gpu-1", namespace="bai", owner="u1"), claim("theirs", "gpu-2"))
    one, other = foreign_uses(nodes, [theirs], devices, claims, frozenset({("bai", "u1")}))
    assert (one.node, one.cpu_milli, one.memory) == ("n0", 1500, 2 * GIB)
    assert one.devices == ("GPU-2", "GPU-3")
    assert one.owner == "claim others/theirs, taint sick and 1 more"
    assert (other.owner, other.cpu_milli, other.devices) == ("the kubelet's reserve", 500, ())
    (same, _) = foreign_uses(nodes, [], devices, claims, frozenset({("bai", "u2")}))
    assert "GPU-1" in same.devices, "it is made for another pod"
    forged = holders_of(claim("forged", "gpu-1", owner="u1"))
    (theirs_alone, _) = foreign_uses(nodes, [], devices, forged, frozenset({("bai", "u1")}))
    assert "GPU-1" in theirs_alone.devices, "its namespace is another one than that pod's"
    named = claim("named", "gpu-1", namespace="bai")
    named["status"]["reservedFor"] = [{"resource": "pods", "name": "x", "uid": "u1"}]
    (alone, _) = foreign_uses(nodes, [], devices, holders_of(named), frozenset({("bai", "u1")}))
    assert "GPU-1" not in alone.devices, "that pod alone uses it"
    named["status"]["reservedFor"].append({"resource": "pods", "name": "y", "uid": "u2"})
    (shared, _) = foreign_uses(nodes, [], devices, holders_of(named), frozenset({("bai", "u1")}))
    assert "GPU-1" in shared.devices, "others use it, too"


def test_what_a_node_says() -> None:
    found = parse_node(node(taints=[{"key": "bai.dev/node", "effect": "NoSchedule"}], unschedulable=True))
    assert found.cordoned and found.fenced and not found.unreachable
    assert (found.cpus, found.memory, found.kept_cpu_milli, found.kept_memory) == (8, 64 * GIB, 500, GIB)
    for ready in ("False", "Unknown"):
        assert "stopped posting" in parse_node(node(ready=ready)).unreachable
    assert parse_node({"metadata": {"name": "new"}}).unreachable
