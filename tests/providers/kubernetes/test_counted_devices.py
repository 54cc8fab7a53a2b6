"""What device plugins count, understood without a cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from planner.environment.cufile_file import cufile_settings
from planner.environment.nccl_topology_file import nccl_topology
from planner.environment.variables import kernel_environment
from planner.model.types import (
    DeviceGrant,
    GroupInfo,
    KernelPlacement,
    KernelRequest,
    NodeInfo,
    Placement,
    SessionRequest,
    Snapshot,
)
from providers.autoscaling.values import NodeRequest
from providers.base import Limit
from providers.kubernetes.api.reflector import View
from providers.kubernetes.capabilities import capabilities
from providers.kubernetes.objects import labels as written
from providers.kubernetes.objects.counted import MOST, counted_devices, node_counts
from providers.kubernetes.objects.node_request import claim_manifests, template_manifests
from providers.kubernetes.objects.pod import pod_manifest
from providers.kubernetes.observe.devices import DeviceIndex, devices_of
from providers.kubernetes.observe.foreign import parse_foreign_pod
from providers.kubernetes.observe.hardware import hardware_of
from providers.kubernetes.observe.namespace_limits import SeenLimits
from providers.kubernetes.observe.nodes import ClusterNode, parse_node
from providers.kubernetes.observe.observer import ClusterViews
from providers.kubernetes.observe.plugins.use import CountedUse, counted_use
from providers.kubernetes.observe.pods import parse_pod
from providers.kubernetes.pods.devices import wanted_devices
from reconciler.values.encoding.placement_json import canonical_json
from reconciler.values.unfit_gpus import known_devices
from schemas.hardware.anonymous import is_anonymous, parse_anonymous
from schemas.hardware.model import Hardware, Nic
from schemas.kinds.parts.kubernetes import Kubernetes as Options
from schemas.problems.errors.kernel import KernelRefused
from tests.harness.work import instructions, instructions_per_pair
from tests.planner.support import place
from tests.planner.test_environment import TRIO, facts
from tests.providers.kubernetes.specs import LABELS, gpu, kernel, node, pod, resource_slice
from tests.providers.kubernetes.strangers import stranger
from tests.providers.kubernetes.test_inventory import imported, session, why_not
from tests.providers.kubernetes.test_node_requests import GPU
from tests.providers.kubernetes.test_objects import REF
from tests.providers.kubernetes.test_quotas import left, quota

NVIDIA, AMD = "nvidia.com/gpu", "amd.com/gpu"
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
NONE = DeviceIndex(())
MOST_FOR_A_PAIR = 0.2
"""Instructions for each pair of pods or nodes."""


def counting(
    labels: dict[str, str] | None = None, *, healthy: dict[str, str] | None = None, **counts: str
) -> dict[str, Any]:
    """A node with these resources, written `nvidia_gpu="8"`; `healthy`: where fewer are allocatable."""
    amounts = {name.replace("_", ".com/", 1).replace("__", "."): count for name, count in counts.items()}
    found = node()
    found["metadata"]["labels"] = labels or {}
    found["status"]["capacity"] |= amounts
    found["status"]["allocatable"] |= {**amounts, **(healthy or {})}
    return found


def hardware(found: dict[str, Any], *slices: dict[str, Any]) -> Hardware:
    return hardware_of(parse_node(found), DeviceIndex(devices_of(slices)))


def ids(*numbers: int, resource: str = NVIDIA) -> tuple[str, ...]:
    return tuple(f"n0:{resource}:{number}" for number in numbers)


def own(*numbers: int, phase: str = "Running", asks: int | None = None) -> Any:
    """A kernel with these GPUs, by its labels and by what its pod asks for."""
    grants = tuple(DeviceGrant(each, "cuda.device") for each in ids(*numbers))
    placement = canonical_json(KernelPlacement("main1", "n0", (), 0, (), 0, grants))
    asked = {NVIDIA: str(len(numbers) if asks is None else asks)}
    main = {"name": "main", "image": "i", "resources": {"requests": asked, "limits": asked}}
    labels = replace(LABELS, placement=placement)
    found = parse_pod(pod(phase, {"running": {}}, labels=labels, spec={"containers": [main]}))
    assert found is not None
    return found


def guest(count: int | str, **more: Any) -> Any:
    asked = {"requests": {NVIDIA: str(count)}, "limits": {NVIDIA: str(count)}}
    found = parse_foreign_pod(stranger(resources=asked, **more))
    assert found is not None
    return found


def use(found: dict[str, Any], kernels: list[Any], guests: list[Any]) -> CountedUse:
    return counted_use([parse_node(found)], NONE, kernels, guests)


def test_what_is_counted_becomes_gpus_without_a_place() -> None:
    found = hardware(counting(H100, nvidia_gpu="2"))
    assert [each.id for each in found.gpus] == list(ids(0, 1)) and all(
        map(is_anonymous, known_devices(found))
    )
    one = found.gpus[1]
    assert (one.index, one.slot, one.vendor, one.model) == (1, "cuda", "nvidia", "NVIDIA-H100-80GB-HBM3")
    assert (one.memory, one.numa_node, one.pci, one.pcie_path) == (81559 << 20, None, None, ())
    assert not found.links
    assert any(each.startswith("which GPU is which (nvidia.com/gpu)") for each in found.unknown)
    assert "NICs: no DRA driver publishes devices of this node" in found.unknown
    bare = hardware(counting(nvidia_gpu="1", amd_gpu="1"))
    assert [(each.slot, each.model, each.memory) for each in bare.gpus] == [("rocm", "", 0), ("cuda", "", 0)]
    assert any("whether each that is counted is a whole one" in each for each in bare.unknown)
    assert not any("whole one" in each for each in found.unknown)


def test_amds_labels_tell_the_model_and_the_memory() -> None:
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X", "amd.com/gpu.vram": "192G"}
    (one,) = hardware(counting(labels, amd_gpu="1")).gpus
    assert (one.slot, one.vendor, one.model, one.memory) == ("rocm", "amd", "AMD_Instinct_MI300X", 192 << 30)


def test_a_driver_that_publishes_them_wins() -> None:
    both = counting(H100, nvidia_gpu="8", amd_gpu="1")
    found = hardware(both, resource_slice(gpu(0), gpu(1)))
    assert [each.id for each in found.gpus] == ["GPU-0", "GPU-1", "n0:amd.com/gpu:0"]
    assert [each.index for each in found.gpus] == [0, 1, 2]
    devices = DeviceIndex(devices_of([resource_slice(gpu(0))]))
    assert counted_use([parse_node(counting(nvidia_gpu="8"))], devices, [], [guest(3)]) == CountedUse()


@pytest.mark.parametrize(
    "labels",
    [
        {"nvidia.com/gpu.replicas": "4"},
        {"nvidia.com/gpu.replicas": "many"},
        {"nvidia.com/gpu.sharing-strategy": "mps"},
        {"nvidia.com/gpu.product": "NVIDIA-A100-SHARED"},
        {"cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"},
    ],
)
def test_turns_on_a_gpu_are_no_gpus(labels: dict[str, str]) -> None:
    found = hardware(counting(labels, nvidia_gpu="8"))
    assert not found.gpus
    assert any("nvidia.com/gpu: 8 shares of GPUs" in each for each in found.unknown)
    assert use(counting(labels, nvidia_gpu="8"), [], []) == CountedUse()


def test_a_name_for_turns_is_none_of_gpus() -> None:
    found = hardware(counting(H100, nvidia_gpu__shared="16"))
    assert not found.gpus and any("nvidia.com/gpu.shared: 16 shares" in each for each in found.unknown)
    with pytest.raises(KernelRefused):
        wanted_devices(kernel(devices=ids(0, resource="nvidia.com/gpu.shared")), ())


def test_mig_devices_by_their_own_names_and_by_the_name_of_gpus() -> None:
    counts = {"nvidia_gpu": "1", "nvidia_mig-1g.10gb": "7", "nvidia_mig-1g.10gb.me": "1"}
    mixed = hardware(counting(H100, **counts))
    whole, divided = mixed.gpus
    assert (whole.id, whole.mig, divided.mig, divided.index) == (ids(0)[0], None, "enabled", 1)
    assert [(each.id, each.profile) for each in divided.mig_devices][-2:] == [
        ("n0:nvidia.com/mig-1g.10gb:6", "1g.10gb"), ("n0:nvidia.com/mig-1g.10gb.me:0", "1g.10gb+me"),
    ]  # fmt: skip
    offered = use(counting(H100, **counts), [], []).offered["n0"]
    assert offered == known_devices(mixed)
    single = {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "NVIDIA-A100-MIG-1g.5gb"}
    (parent,) = hardware(counting(single, nvidia_gpu="14")).gpus
    assert parent.model == "NVIDIA-A100" and len(parent.mig_devices) == 14
    assert {(each.id.rpartition(":")[0], each.profile) for each in parent.mig_devices} == {
        ("n0:nvidia.com/gpu", "1g.5gb")
    }
    google = {"cloud.google.com/gke-gpu-partition-size": "1g.5gb"}
    (parent,) = hardware(counting(google, nvidia_gpu="7")).gpus
    assert {each.profile for each in parent.mig_devices} == {"1g.5gb"}


@pytest.mark.parametrize("count", ["9999999999", str(MOST + 1), "1e30", "9" * 30])
def test_a_number_that_none_is_gives_nothing(count: str) -> None:
    found = hardware(counting(nvidia_gpu=count, amd_gpu="1"))
    assert [each.id for each in found.gpus] == ["n0:amd.com/gpu:0"]
    assert any("which is no number of devices" in each for each in found.unknown)


@pytest.mark.parametrize("count", ["-5", "", "many", "0", "9" * 4000])
def test_what_is_no_amount_is_nothing(count: str) -> None:
    assert node_counts(counting(nvidia_gpu=count)) == ()


def test_a_node_with_thousands_of_names_is_cut_short() -> None:
    names = {f"nvidia_mig-{a}g.{b}gb": "1" for a in range(1, 8) for b in range(1, 500)}
    assert len(node_counts(counting(**names))) == 64


def test_labels_may_say_anything() -> None:
    garbage = {
        "nvidia.com/gpu.product": "\x1b[31m-MIG-" * 9, "nvidia.com/gpu.memory": "9" * 63,
        "nvidia.com/gpu.replicas": "", "nvidia.com/gpu.count": "-1", "amd.com/gpu.vram": "1e9G",
    }  # fmt: skip
    found = hardware(counting(garbage, nvidia_gpu="1", amd_gpu="1"))
    assert [each.memory for each in found.gpus] == [0, 0]


def test_others_have_as_many_as_their_pods_ask_for() -> None:
    eight = counting(nvidia_gpu="8")
    assert use(eight, [], []).taken == {}
    init = {"name": "i", "image": "i", "resources": {"requests": {NVIDIA: "5"}}}
    assert guest(2, initContainers=[init]).counted == {NVIDIA: 5}
    found = use(eight, [own(7, 0)], [guest(3)])
    assert found.taken == {"n0": ids(4, 5, 6)}  # The rest are free, and none is what a kernel has.
    assert found.offered == {"n0": frozenset(ids(*range(8)))}
    assert use(eight, [], [guest(3, nodeName="n1")]).taken == {}
    greedy = use(eight, [own(2)], [guest("9999999999")])
    assert greedy.taken == {"n0": ids(0, 1, 3, 4, 5, 6, 7)}
    assert use(eight, [own(0, 1, phase="Succeeded")], []).taken == {}


def test_a_pod_that_asks_for_more_than_its_labels_say_has_more() -> None:
    found = use(counting(nvidia_gpu="4"), [own(0, asks=3)], [])
    assert found.taken == {"n0": ids(2, 3)}


def test_what_is_not_healthy_is_one_of_those_that_nobody_has() -> None:
    sick = counting(nvidia_gpu="4", healthy={NVIDIA: "3"})
    assert use(sick, [own(3)], []).offered == {"n0": frozenset(ids(0, 1, 3))}
    assert use(sick, [own(3)], [guest(1)]).taken == {"n0": ids(1)}
    none = counting(nvidia_gpu="4", healthy={NVIDIA: "0"})
    assert use(none, [own(2)], []).offered == {"n0": frozenset(ids(2))}
    assert len(hardware(none).gpus) == 4


def test_a_pod_asks_by_count_and_has_no_claim() -> None:
    spec = kernel(devices=(*ids(3, 1), "n0:nvidia.com/mig-1g.10gb:0"))
    assert wanted_devices(spec, ()) == ()
    made = pod_manifest(spec, REF, Options(), "given", claims=0)["spec"]
    resources = made["containers"][0]["resources"]
    assert resources["limits"] == resources["requests"] == {NVIDIA: "2", "nvidia.com/mig-1g.10gb": "1"}
    assert "resourceClaims" not in made and "claims" not in resources


@pytest.mark.parametrize(
    "device",
    [
        "n1:nvidia.com/gpu:0",  # Of another node.
        "n0:evil.example/kvm:0",
        "n0:nvidia.com/gpu:-1",
        "n0:nvidia.com/pgpu:0",
        "n0:nvidia.com/mig:0",
        "n0:nvidia.com/gpu",
        "n0:cpu:0",
    ],
)
def test_documents_name_no_other_resources_of_a_node(device: str) -> None:
    """`Node.spec.hardware` is anybody's to write who may commit: ids in it are no way to other devices."""
    spec = kernel(devices=(device,))
    assert not counted_devices(spec.devices, "n0")
    with pytest.raises(KernelRefused, match="no DRA driver publishes"):
        wanted_devices(spec, ())
    resources = pod_manifest(spec, REF, Options(), "given", claims=0)["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {}, "limits": {}}


def test_no_part_of_what_is_counted_is_given() -> None:
    with pytest.raises(KernelRefused, match="it counts whole ones"):
        pod_manifest(kernel(devices=ids(0), parts=ids(0)), REF, Options(), "given", claims=0)


def variables(spec: Any) -> dict[str, Any]:
    body = pod_manifest(spec, REF, Options(), "given", claims=0)
    return {each["name"]: each for each in body["spec"]["containers"][0]["env"]}


def test_which_gpus_a_container_sees_is_its_plugins_to_say() -> None:
    """A runtime of NVIDIA's gives a container whatever this variable names: neither a session's own nor a
    secret of that name may stand before the plugin's."""
    name = "NVIDIA_VISIBLE_DEVICES"
    assert name not in variables(kernel(devices=ids(0), env={name: "all"}))
    assert name not in variables(kernel(devices=ids(0), secret_env={name: "all"}))
    assert variables(kernel(env={name: "void"}, secret_env={name: "all"}))[name]["value"] == "void"
    assert variables(kernel(devices=("GPU-1",), env={name: "GPU-1"}))[name]["value"] == "GPU-1"


def environment(
    *devices: str, user: dict[str, str] | None = None, slot: str = "cuda.device"
) -> dict[str, str]:
    grants = tuple(DeviceGrant(each, slot) for each in devices)
    part = KernelPlacement("main1", "n0", (), 1000, (), 1, grants)
    found = hardware(counting(H100, nvidia_gpu="4", amd_gpu="2"))
    return kernel_environment(facts(), TRIO[0], Placement("Session/p/x", "g", (part,)), found, user)


def test_no_variable_names_a_device_that_nobody_knows() -> None:
    found = environment(*ids(0, 3), user={"NVIDIA_VISIBLE_DEVICES": "all", "CUDA_VISIBLE_DEVICES": "0"})
    assert (found["GPU_COUNT"], found["GPU_TYPE"]) == ("2", "cuda")
    assert found["GPU_MODEL_NAME"] == "NVIDIA-H100-80GB-HBM3"
    assert "NVIDIA_VISIBLE_DEVICES" not in found and "CUDA_DEVICE_ORDER" not in found
    assert found["CUDA_VISIBLE_DEVICES"] == "0"  # A wish among those that it has.
    assert not any(each.startswith("n0:") for each in found.values())
    amd = environment(*ids(1, resource=AMD), slot="rocm.device")
    assert "ROCR_VISIBLE_DEVICES" not in amd
    assert (amd["NVIDIA_VISIBLE_DEVICES"], amd["GPU_TYPE"]) == ("void", "rocm")
    assert environment()["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_no_setting_of_nccl_follows_from_where_a_number_is() -> None:
    nics = (Nic(id="mlx5_0", interface="ib0"), Nic(id="mlx5_1", interface="ib1"))
    found = hardware(counting(H100, nvidia_gpu="4")).model_copy(update={"nics": nics})
    grants = tuple(DeviceGrant(each, "cuda.device") for each in ids(0, 1))
    parts = tuple(
        KernelPlacement(kernel.name, at, (), 1000, (), 1, grants, nics=("mlx5_0", "mlx5_1"))
        for kernel, at in zip(TRIO[:2], ("n0", "n1"), strict=True)
    )
    placement = Placement("Session/p/x", "g", parts)
    env = kernel_environment(facts(TRIO[:2], gpudirect_storage=True), TRIO[0], placement, found)
    assert "NCCL_NET_GDR_LEVEL" not in env and env["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1"
    assert not nccl_topology(parts[0], placement, found) and not cufile_settings(parts[0], found)


def test_nothing_is_said_of_how_they_are_connected() -> None:
    found = hardware(counting(H100, nvidia_gpu="4"))
    request = SessionRequest("Session/p/x", "g", (KernelRequest("main1", "main", 1, {"cuda.device": 2}),))
    outcome = place(Snapshot((NodeInfo("n0", found, "g"),), (GroupInfo("g"),), pending=(request,), now=0.0))
    (placed,) = outcome.placements
    assert placed.choice is not None and placed.choice.connection == ""


def views(nodes: dict[str, ClusterNode]) -> ClusterViews:
    nothing: Any = View({}, 0)
    there = View({("", name): node for name, node in nodes.items()}, 0)
    return ClusterViews(nothing, there, nothing, {}, NONE, SeenLimits(None, None))


def test_the_plan_says_whose_choice_it_is() -> None:
    nodes = {"n0": parse_node(counting(nvidia_gpu="1")), "n1": ClusterNode("n1")}
    found = capabilities(views(nodes), ())
    assert Limit.DEVICES in found.limits and "which GPUs it has on n0" in found.weaker[Limit.DEVICES]
    assert found.weaker_on == {Limit.DEVICES: {"n0"}} and found.undivided.keys() == {"n0"}
    assert Limit.DEVICES not in capabilities(views({"n1": ClusterNode("n1")}), ()).weaker


def test_a_quota_counts_them_once() -> None:
    hard = {"requests.nvidia.com/gpu": "4"}
    found = quota({"requests.nvidia.com/gpu": "3"}, hard=hard)
    one = own(0, 1)
    assert left(found, {("bai", one.kernel.id): one}).others == {"cuda.device": 1}
    assert left(found, {}).others == {"cuda.device": 3}


def test_a_request_for_nodes_asks_by_count_where_no_claim_can() -> None:
    wanted = NodeRequest("repo", "lab", "Session/p/x", "bai", (GPU,), (("pool", "a"),), ())
    counted = frozenset({"cuda.device"})
    assert not list(claim_manifests(wanted, "t", counted))
    (template,) = template_manifests(wanted, "t", counted)
    spec = template["template"]["spec"]
    assert spec["containers"][0]["resources"]["limits"][NVIDIA] == "40" and "resourceClaims" not in spec
    (template,) = template_manifests(wanted, "t")
    assert NVIDIA not in template["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert len(list(claim_manifests(wanted, "t"))) == 2


def asking(name: str, count: int) -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": "1Gi", NVIDIA: str(count)}
    return stranger(name, resources={"requests": amounts, "limits": amounts})


def test_a_running_pod_keeps_its_count_when_it_is_adopted() -> None:
    nodes = (counting(H100, nvidia_gpu="4"),)
    found = imported(asking("b", 1), asking("a", 2), asking("c", 2), nodes=nodes, slices=())
    held = {
        each.name: (each.held.devices, each.document["spec"]["resources"]["cuda.device"])
        for each in found.pods
    }
    assert held == {
        "a": (tuple((name, "cuda.device") for name in ids(0, 1)), 2),
        "b": (((ids(2)[0], "cuda.device"),), 1),
    }
    assert list(found.refused) == ["team-a/c"]  # More than there is.
    assert (
        session(asking("a", 2), nodes=nodes, slices=()).document["spec"]["resourceGroup"].startswith("nvidia")
    )
    assert "device plugin does not tell" in why_not(asking("x", 1))


def test_numbers_of_pods_that_are_adopted_already_stay_theirs() -> None:
    mine = asking("a", 1)
    grants = (DeviceGrant(ids(0)[0], "cuda.device"),)
    placement = canonical_json(KernelPlacement("main1", "n0", (), 0, (), 0, grants))
    labels = replace(LABELS, resource="Session/a/a", placement=placement)
    mine["metadata"] |= {
        "labels": written.adopted(labels), "annotations": {written.LABELS: written.to_annotation(labels)},
    }  # fmt: skip
    found = imported(mine, asking("b", 1), nodes=(counting(nvidia_gpu="4"),), slices=())
    (other,) = (each for each in found.pods if each.name == "b")
    assert other.held.devices == ((ids(1)[0], "cuda.device"),)
    assert found.context.known.counted["u-a"] == ((ids(0)[0], "cuda.device"),)


@pytest.mark.parametrize("text", ["", "null", "[]", '{"devices": 3}', '{"devices": [3]}', "[" * 10_000])
def test_a_placement_that_cannot_be_read_holds_nothing(text: str) -> None:
    found = parse_pod(
        pod("Running", {"running": {}}, labels=replace(LABELS, placement=text), spec={"containers": [
            {"name": "main", "image": "i", "resources": {"requests": {NVIDIA: "1"}}},
        ]})
    )  # fmt: skip
    assert found is not None and found.held == () and found.counted == {NVIDIA: 1}


def test_ids_are_read_back() -> None:
    found = parse_anonymous("gpu-1.example:nvidia.com/mig-1g.10gb:12")
    assert found is not None and tuple(found) == ("gpu-1.example", "nvidia.com/mig-1g.10gb", 12)
    for other in ("GPU-" + "a" * 32, "0000:41:00.0", "MIG-x", "pool/name", "n0:nvidia.com/gpu:01", "gpu3"):
        assert not is_anonymous(other)


def test_json_of_a_placement_is_what_the_label_has() -> None:
    assert json.loads(own(1).kernel.labels.placement)["devices"][0]["id"] == ids(1)[0]


def test_nothing_is_done_for_each_pair() -> None:
    def work(size: int) -> int:
        names = [f"n{number:04}" for number in range(size)]
        pods = [guest(1, nodeName=name) for name in names]
        nodes = [replace(parse_node(counting(nvidia_gpu="2")), name=name) for name in names]
        return instructions(lambda: counted_use(nodes, NONE, [], pods))

    assert instructions_per_pair(work, 32) < MOST_FOR_A_PAIR


def test_numbers_of_running_pods_are_found_without_looking_at_each_pair() -> None:
    def work(size: int) -> int:
        pods = [asking(f"{'x' * 60}-{number:04}", 1) for number in range(size)]
        for number, each in enumerate(pods):
            each["spec"]["nodeName"] = f"n{number:04}"
        nodes = [counting(nvidia_gpu="2") for _ in range(size)]
        for number, each in enumerate(nodes):
            each["metadata"]["name"] = f"n{number:04}"
        return instructions(lambda: imported(*pods, nodes=nodes, slices=()))

    assert instructions_per_pair(work, 32) < MOST_FOR_A_PAIR
