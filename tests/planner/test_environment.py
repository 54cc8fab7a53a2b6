"""What a kernel finds in its environment, by where it was placed."""

from __future__ import annotations

import pytest

from planner.environment.variables import KernelFacts, SessionFacts, kernel_environment, session_id
from planner.model.types import DeviceGrant, Fractional, KernelPlacement, Placement
from schemas.hardware.model import Gpu, Hardware, Link, Nic, NumaNode

HARDWARE = Hardware(
    numa_nodes=(NumaNode(id=0, cpus=tuple(range(8)), memory=1 << 36),),
    siblings=((0, 4), (1, 5), (2, 6), (3, 7)),
    gpus=(
        Gpu(id="GPU-aaaa", index=0, model="A100", memory=40 << 30),
        Gpu(id="0000:41:00.0", index=1, model="A100", memory=40 << 30),
    ),
    nics=(Nic(id="mlx5_0", interface="eth2", link_layer="ethernet"), Nic(id="mlx5_1", interface="ib0")),
)
TRIO = (
    KernelFacts("main1", "main", 1, "x-main1-g1"),
    KernelFacts("sub1", "sub", 1),
    KernelFacts("sub2", "sub", 2),
)


def facts(kernels: tuple[KernelFacts, ...] = TRIO[:1], **more: object) -> SessionFacts:
    return SessionFacts("repo/here", "Session/p/x", "x", 1, "batch", "single-node", kernels, **more)  # type: ignore[arg-type]


def placement(*nodes: str, **part: object) -> Placement:
    kernels = (
        KernelPlacement(
            kernel.name, node, cpus=(0, 1, 4, 5), cpu_milli=2000, memory_nodes=(0,), memory=1, **part
        )  # type: ignore[arg-type]
        for kernel, node in zip(TRIO, nodes, strict=False)
    )
    return Placement("Session/p/x", "g", tuple(kernels))


def test_a_lone_container() -> None:
    env = kernel_environment(facts(ports={"web": 8080}), TRIO[0], placement("n1"), HARDWARE)
    assert env["BACKENDAI_CLUSTER_SIZE"] == "1"
    assert env["BACKENDAI_SESSION_ID"] == session_id(facts())
    assert env["BACKENDAI_KERNEL_ID"] == "x-main1-g1"
    assert env["BACKENDAI_SERVICE_PORTS"] == "web:8080"
    assert (env["CUDA_VISIBLE_DEVICES"], env["NVIDIA_VISIBLE_DEVICES"], env["GPU_COUNT"]) == ("", "void", "0")
    assert "MASTER_ADDR" not in env and "NCCL_IB_HCA" not in env


BINDING = {"GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PLACES", "OMP_PROC_BIND"}


def test_threads_are_as_many_as_physical_cores_and_not_bound() -> None:
    env = kernel_environment(facts(), TRIO[0], placement("n1"), HARDWARE)
    assert (env["OMP_NUM_THREADS"], env["MKL_NUM_THREADS"], env["OPENBLAS_NUM_THREADS"]) == ("2", "2", "2")
    assert BINDING.isdisjoint(env)


def test_threads_are_bound_to_the_first_logical_cpu_of_each_core_where_asked_for() -> None:
    env = kernel_environment(facts(bind_threads=True), TRIO[0], placement("n1"), HARDWARE)
    assert (env["OMP_NUM_THREADS"], env["OMP_PLACES"], env["OMP_PROC_BIND"]) == ("2", "{0},{1}", "close")


@pytest.mark.parametrize("bind", [False, True])
@pytest.mark.parametrize(("milli", "threads"), [(0, "1"), (200, "1"), (1000, "1"), (1001, "2")])
def test_shared_cpu_is_rounded_up_and_not_bound(milli: int, threads: str, bind: bool) -> None:
    place = Placement("s", "g", (KernelPlacement("main1", "n1", (), milli, (0,), 1),))
    env = kernel_environment(facts(bind_threads=bind), TRIO[0], place, HARDWARE)
    assert env["OMP_NUM_THREADS"] == threads
    assert BINDING.isdisjoint(env)


def test_containers_find_each_other() -> None:
    addresses = {"main1": "127.0.0.1", "sub1": "127.0.0.1", "sub2": "10.0.0.2"}
    envs = [
        kernel_environment(facts(TRIO, addresses=addresses), kernel, placement("n1", "n1", "n2"), HARDWARE)
        for kernel in TRIO
    ]
    assert (
        [env["RANK"] for env in envs]
        == [env["BACKENDAI_CLUSTER_LOCAL_RANK"] for env in envs]
        == ["0", "1", "2"]
    )
    assert [env["BACKENDAI_CLUSTER_IDX"] for env in envs] == ["1", "1", "2"]
    assert len({env["MASTER_PORT"] for env in envs}) == 1 and 20_000 <= int(envs[0]["MASTER_PORT"]) < 30_000
    last = envs[2]
    assert last["BACKENDAI_CLUSTER_HOSTS"] == "main1,sub1,sub2"
    assert last["BACKENDAI_CLUSTER_REPLICAS"] == "main:1,sub:2"
    assert last["BAI_CLUSTER_ADDRESSES"] == "main1=127.0.0.1,sub1=127.0.0.1,sub2=10.0.0.2"
    assert (last["MASTER_ADDR"], last["WORLD_SIZE"]) == ("127.0.0.1", "3")
    named = kernel_environment(facts(TRIO), TRIO[1], placement("n1", "n1", "n1"), HARDWARE)
    assert named["MASTER_ADDR"] == "main1"


def test_devices_by_uuid_else_by_index() -> None:
    devices = (DeviceGrant("GPU-aaaa", "cuda.device"), DeviceGrant("0000:41:00.0", "cuda.device"))
    env = kernel_environment(facts(), TRIO[0], placement("n1", devices=devices), HARDWARE)
    assert env["CUDA_VISIBLE_DEVICES"] == env["NVIDIA_VISIBLE_DEVICES"] == "GPU-aaaa,1"
    assert (env["CUDA_DEVICE_ORDER"], env["GPU_MODEL_NAME"], env["GPU_COUNT"]) == ("PCI_BUS_ID", "A100", "2")


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ("mps", {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=10240M"}),
        ("hami", {"CUDA_DEVICE_SM_LIMIT": "25", "CUDA_DEVICE_MEMORY_LIMIT_0": "10240m"}),
        ("none", {}),
    ],
)
def test_a_part_of_a_device_is_limited_by_the_groups_means(means: str, expected: dict[str, str]) -> None:
    devices = (DeviceGrant("GPU-aaaa", "cuda.shares", 250),)
    rule = Fractional(enforcement=means)  # type: ignore[arg-type]
    env = kernel_environment(facts(fractional=rule), TRIO[0], placement("n1", devices=devices), HARDWARE)
    assert {name: value for name, value in env.items() if "MPS" in name or "_LIMIT" in name} == expected


def test_nccl_is_told_about_nics_only_across_nodes() -> None:
    part = {"devices": (DeviceGrant("GPU-aaaa", "cuda.device"),), "nics": ("mlx5_0",)}
    apart = kernel_environment(facts(TRIO[:2]), TRIO[0], placement("n1", "n2", **part), HARDWARE)
    assert (apart["NCCL_IB_HCA"], apart["NCCL_SOCKET_IFNAME"]) == ("=mlx5_0", "=eth2")
    together = kernel_environment(facts(TRIO[:2]), TRIO[0], placement("n1", "n1", **part), HARDWARE)
    assert not any(name.startswith("NCCL") for name in together)


NEAR = Hardware(
    numa_nodes=HARDWARE.numa_nodes,
    gpus=tuple(Gpu(id=f"GPU-{at}", index=at, numa_node=0) for at in range(2)),
    nics=tuple(Nic(id=f"mlx5_{at}", numa_node=0) for at in range(2)),
    links=(
        Link(a="GPU-0", b="mlx5_0", kind="PIX"),
        Link(a="GPU-1", b="mlx5_0", kind="NODE"),
        Link(a="GPU-1", b="mlx5_1", kind="PXB"),
    ),
)


@pytest.mark.parametrize(
    ("gpus", "nics", "level"),
    [
        ((0,), (0,), "PXB"),
        ((0, 1), (0, 1), "PXB"),
        ((0, 1), (0,), None),
        ((1,), (0,), None),
        ((0,), (), None),
    ],
)
def test_gpudirect_rdma_only_where_every_gpu_has_a_nic_below_its_switch(
    gpus: tuple[int, ...], nics: tuple[int, ...], level: str | None
) -> None:
    part = {
        "devices": tuple(DeviceGrant(f"GPU-{at}", "cuda.device") for at in gpus),
        "nics": tuple(f"mlx5_{at}" for at in nics),
    }
    apart = kernel_environment(facts(TRIO[:2]), TRIO[0], placement("n1", "n2", **part), NEAR)
    assert apart.get("NCCL_NET_GDR_LEVEL") == level
    together = kernel_environment(facts(TRIO[:2]), TRIO[0], placement("n1", "n1", **part), NEAR)
    assert "NCCL_NET_GDR_LEVEL" not in together


@pytest.mark.parametrize("reaches", [True, False])
def test_cufile_reads_directly_only_where_storage_can_reach_the_gpus(reaches: bool) -> None:
    hardware = HARDWARE if reaches else HARDWARE.model_copy(update={"nics": ()})
    gpu = placement("n1", devices=(DeviceGrant("GPU-aaaa", "cuda.device"),))

    def cufile(where: Placement, *, storage: bool) -> dict[str, str]:
        env = kernel_environment(facts(gpudirect_storage=storage), TRIO[0], where, hardware)
        return {name: value for name, value in env.items() if name.startswith("CUFILE")}

    direct = {"CUFILE_ALLOW_COMPAT_MODE": "true", "CUFILE_FORCE_COMPAT_MODE": "false"}
    assert cufile(gpu, storage=True) == (direct if reaches else {"CUFILE_FORCE_COMPAT_MODE": "true"})
    assert cufile(gpu, storage=False) == cufile(placement("n1"), storage=True) == {}


def test_a_users_own_value_wins() -> None:
    env = kernel_environment(facts(), TRIO[0], placement("n1"), HARDWARE, {"OMP_NUM_THREADS": "7", "X": "y"})
    assert (env["OMP_NUM_THREADS"], env["X"]) == ("7", "y")


def test_a_kernel_that_was_not_placed() -> None:
    with pytest.raises(KeyError):
        kernel_environment(facts(TRIO), TRIO[2], placement("n1"), HARDWARE)
