"""What a spec means to the engine, without any engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.base import Mount, Network, Published, RestartRule
from providers.docker.container.config import (
    container_payload,
    restart_policy,
    update_differences,
    update_payload,
)
from providers.docker.container.edits import NO_EDITS, BindMount, ContainerEdits
from providers.docker.container.user import ROOT, ContainerUser
from providers.docker.labels import from_engine_labels, to_engine_labels
from schemas.kinds.parts.docker import DEFAULT_CAPABILITIES, Docker
from tests.providers.docker.specs import LABELS, kernel

PLAIN = Docker()


def made(
    *command: str,
    options: Docker = PLAIN,
    user: ContainerUser = ROOT,
    edits: ContainerEdits = NO_EDITS,
    **fields: Any,
) -> dict[str, Any]:
    return container_payload(kernel("k", *command, **fields), options, user, edits)


def host(**fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = made(**fields)["HostConfig"]
    return found


def test_exclusive_cores_are_a_cpuset_without_quota() -> None:
    found = host(cpus=(0, 1, 2, 8), memory_nodes=(1,), memory=2**30)
    assert (found["CpusetCpus"], found["CpusetMems"]) == ("0-2,8", "1")
    assert (found["Memory"], found["MemorySwap"]) == (2**30, 2**30)
    assert "CpuQuota" not in found and found["CpuShares"] == 0


def test_shared_cpu_is_a_weight_and_a_ceiling() -> None:
    found = host(cpu_milli=500)
    assert (found["CpuShares"], found["CpuPeriod"], found["CpuQuota"]) == (512, 100_000, 50_000)
    assert host(cpu_milli=1)["CpuQuota"] == 1000 and host(cpu_milli=1)["CpuShares"] == 2


def test_nothing_more_than_the_small_default_is_allowed() -> None:
    found = host()
    assert found["CapDrop"] == ["ALL"] and found["CapAdd"] == sorted(DEFAULT_CAPABILITIES)
    assert found["SecurityOpt"] == ["no-new-privileges"]
    assert not {"MKNOD", "NET_RAW", "SYS_ADMIN", "SETFCAP"} & set(found["CapAdd"])
    more = host(capabilities=("CAP_SYS_PTRACE",), options=Docker(capabilities=("CHOWN",)))
    assert more["CapAdd"] == ["CHOWN", "SYS_PTRACE"]
    assert host(options=Docker(capabilities=()))["CapAdd"] == []


def test_what_is_hidden_is_not_left_to_the_version_of_the_engine() -> None:
    found = host(edits=ContainerEdits(masked=("/sys/devices/system/cpu/cpu0/thermal_throttle",)))
    assert {"/proc/kcore", "/sys/devices/system/cpu/cpu0/thermal_throttle"} <= set(found["MaskedPaths"])
    assert {"/proc/sys", "/proc/sysrq-trigger"} <= set(found["ReadonlyPaths"])


def test_a_root_that_is_read_only_leaves_tmp_to_write() -> None:
    assert host()["ReadonlyRootfs"] is False and "Tmpfs" not in host()
    found = host(read_only_root=True)
    assert found["ReadonlyRootfs"] is True and list(found["Tmpfs"]) == ["/tmp"]


def test_mounts_are_private_and_their_sources_are_never_made_by_the_engine() -> None:
    (found,) = host(mounts=(Mount("/srv/v/a", "/data", read_only=True, root="/srv"),))["Mounts"]
    assert found == {
        "Type": "bind", "Source": "/srv/v/a", "Target": "/data", "ReadOnly": True,
        "BindOptions": {"Propagation": "rprivate"},
    }  # fmt: skip


def test_secrets_are_nowhere() -> None:
    assert "hunter2" not in str(made(secret_env={"PASSWORD": "hunter2"}))


def test_a_users_own_variables_win_over_what_devices_ask_for() -> None:
    found = made(env={"A": "mine"}, edits=ContainerEdits(env={"A": "theirs", "B": "theirs"}))["Env"]
    assert sorted(found) == ["A=mine", "B=theirs"]


def test_networks() -> None:
    assert "NetworkMode" not in host()
    assert host(network=Network("host"))["NetworkMode"] == "host"
    own = Network(
        "bridge", "net", aliases=("main1",), published=(Published(80, 20_000), Published(53, 20_001, True))
    )
    found = made(network=own)
    assert found["HostConfig"]["NetworkMode"] == "net"
    assert found["NetworkingConfig"] == {"EndpointsConfig": {"net": {"Aliases": ["main1"]}}}
    assert found["HostConfig"]["PortBindings"] == {
        "80/tcp": [{"HostPort": "20000"}],
        "53/udp": [{"HostPort": "20001"}],
    }
    assert set(found["ExposedPorts"]) == {"80/tcp", "53/udp"}
    assert "PortBindings" not in host(network=replace(own, mode="host"))
    assert host(network=Network(hosts={"sub1": "10.0.0.2"}))["ExtraHosts"] == ["sub1:10.0.0.2"]


@pytest.mark.parametrize(
    ("rule", "name", "most"),
    [
        (RestartRule(), "no", 0),
        (RestartRule("on-failure", 3), "on-failure", 3),
        (RestartRule("on-failure"), "on-failure", 0),
        (RestartRule("always"), "unless-stopped", 0),
        (RestartRule("always", 5), "on-failure", 5),
    ],
)
def test_restart_policies(rule: RestartRule, name: str, most: int) -> None:
    assert restart_policy(rule) == {"Name": name, "MaximumRetryCount": most}


def test_what_is_so_already_is_not_changed_again() -> None:
    spec = kernel(cpus=(1,), memory=2**30, pids=100)
    assert (
        update_differences(
            spec, container_payload(spec, Docker(), ROOT)["HostConfig"], shared=(), everybody=(0, 1, 2, 3)
        )
        == {}
    )
    assert (
        update_differences(
            kernel(),
            container_payload(kernel(), Docker(), ROOT)["HostConfig"],
            shared=(),
            everybody=(0, 1, 2, 3),
        )
        == {}
    )
    shared = kernel(cpu_milli=1500)
    assert (
        update_differences(
            shared, container_payload(shared, Docker(), ROOT)["HostConfig"], shared=(), everybody=(0, 1, 2, 3)
        )
        == {}
    )


def test_from_cores_of_its_own_to_a_share_and_back() -> None:
    alone, shared = kernel(cpus=(1, 2)), kernel(cpu_milli=500)
    there = update_differences(
        shared, container_payload(alone, Docker(), ROOT)["HostConfig"], shared=(), everybody=(0, 1, 2, 3)
    )
    assert there == {"CpusetCpus": "0-3", "CpuShares": 512, "CpuPeriod": 100_000, "CpuQuota": 50_000}
    back = update_differences(
        alone, container_payload(shared, Docker(), ROOT)["HostConfig"], shared=(), everybody=(0, 1, 2, 3)
    )
    assert back == {"CpusetCpus": "1-2", "CpuShares": 1024, "CpuQuota": -1}


def test_memory_and_swap_change_together() -> None:
    small, big = kernel(memory=2**28), kernel(memory=2**30)
    found = update_differences(
        big, container_payload(small, Docker(), ROOT)["HostConfig"], shared=(), everybody=(0, 1, 2, 3)
    )
    assert found == {"Memory": 2**30, "MemorySwap": 2**30}


@given(
    st.integers(0, 10**6),
    st.lists(st.integers(0, 63), unique=True),
    st.integers(0, 2**40),
    st.integers(0, 10**5),
)
def test_an_update_ends_where_a_creation_does(milli: int, cpus: list[int], memory: int, pids: int) -> None:
    spec = kernel(cpus=tuple(sorted(cpus)), cpu_milli=0 if cpus else milli, memory=memory, pids=pids)
    wanted = update_payload(spec, tuple(range(64)))
    assert (
        update_differences(
            spec,
            {**container_payload(spec, Docker(), ROOT)["HostConfig"], **wanted},
            shared=(),
            everybody=tuple(range(64)),
        )
        == {}
    )


def test_labels_come_back() -> None:
    assert from_engine_labels(to_engine_labels("k", LABELS)) == LABELS
    assert (
        from_engine_labels({}) is None and from_engine_labels({"bai.id": "k", "bai.generation": "x"}) is None
    )


def test_what_adds_up() -> None:
    found = ContainerEdits(devices=("/dev/a",), ipc="private") + ContainerEdits(
        devices=("/dev/a", "/dev/b"), binds=(BindMount("/x", "/y"),)
    )
    assert found == ContainerEdits(
        devices=("/dev/a", "/dev/b"), ipc="private", binds=(BindMount("/x", "/y"),)
    )


def test_device_nodes_and_requests() -> None:
    request = {"Driver": "nvidia", "DeviceIDs": ["GPU-1"], "Capabilities": [["gpu"]]}
    found = host(
        devices=("/dev/fuse", "GPU-1"),
        edits=ContainerEdits(requests=(request,), devices=("/dev/infiniband/uverbs0",)),
    )
    assert [each["PathOnHost"] for each in found["Devices"]] == ["/dev/fuse", "/dev/infiniband/uverbs0"]
    assert found["DeviceRequests"] == [request]


SUB = Mount("/srv/v/a/x/y", "/data", read_only=True, root="/srv", sub_path="x/y")


def test_a_subpath_is_given_beneath_its_volume_never_as_a_path() -> None:
    """The path of a volume's own folder is safe: sessions see only what is inside."""
    found, again = host(mounts=(SUB, replace(SUB, target="/again")))["Mounts"]
    assert (found["Type"], found["Target"], found["ReadOnly"]) == ("volume", "/data", True)
    options = found["VolumeOptions"]
    assert options["DriverConfig"]["Options"] == {"type": "none", "device": "/srv/v/a", "o": "rbind,rprivate"}
    assert options["Subpath"] == "x/y" and options["NoCopy"] is True
    assert found["Source"] == again["Source"]


def test_another_folder_is_another_volume() -> None:
    """Engines take a volume that has the name, whatever its options are."""
    one, other = host(mounts=(SUB, replace(SUB, source="/srv/w/a/x/y")))["Mounts"]
    assert one["Source"] != other["Source"]


def test_a_subpath_that_the_node_holds_is_mounted_from_there() -> None:
    (found,) = host(mounts=(SUB,), edits=ContainerEdits(held={SUB.source: "/run/bai/mounts/k/0"}))["Mounts"]
    assert (found["Type"], found["Source"], found["ReadOnly"]) == ("bind", "/run/bai/mounts/k/0", True)
