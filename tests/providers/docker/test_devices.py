"""Devices as a node's /sys tells them, on a made-up one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from providers.docker.container import devices
from providers.docker.container.config import container_payload
from providers.docker.container.edits import ContainerEdits
from providers.docker.container.user import ROOT
from providers.docker.engine.engine import Engine
from providers.machines.base import Done
from schemas.kinds.parts.docker import Docker
from schemas.problems.errors.kernel import KernelRefused
from tests.providers.docker.specs import kernel


@dataclass
class Node:
    """A machine whose /sys is a folder."""

    sys: Path
    node: str = "n1"
    options: Docker = field(default_factory=Docker)

    @property
    def machine(self) -> Node:
        return self

    def run(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Done:
        words = [word.replace("/sys/", f"{self.sys}/") for word in argv]
        done = subprocess.run(words, check=False, capture_output=True, env={**os.environ, **(env or {})})
        return Done(done.returncode, done.stdout, done.stderr)

    def folder(self, path: str) -> Path:
        made = self.sys / path
        made.mkdir(parents=True)
        return made


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path)
    for number in range(2):
        made.folder(f"class/infiniband/mlx5_{number}/device/infiniband_verbs/uverbs{number}")
    made.folder("class/infiniband/strange/device")
    amd = made.folder("bus/pci/devices/0000:03:00.0")
    (amd / "vendor").write_text("0x1002\n")
    made.folder("bus/pci/devices/0000:03:00.0/drm/card1")
    made.folder("bus/pci/devices/0000:03:00.0/drm/renderD129")
    return made


def give(node: Node, **fields: tuple[str, ...]) -> ContainerEdits:
    return devices.prepare(cast(Engine, node), kernel(**fields))


def test_only_the_nics_of_the_mapping_are_given(node: Node) -> None:
    found = give(node, nics=("mlx5_1",))
    assert found.devices == ("/dev/infiniband/uverbs1", "/dev/infiniband/rdma_cm")
    assert (found.ulimits, found.capabilities) == ({"memlock": (-1, -1)}, ("IPC_LOCK",))
    host = container_payload(kernel(nics=("mlx5_1",)), Docker(), ROOT, found)["HostConfig"]
    assert {"Name": "memlock", "Soft": -1, "Hard": -1} in host["Ulimits"] and "IPC_LOCK" in host["CapAdd"]
    own = container_payload(kernel(ulimits={"memlock": (1, 1)}), Docker(), ROOT, found)["HostConfig"]
    assert own["Ulimits"] == [{"Name": "memlock", "Soft": 1, "Hard": 1}]


@pytest.mark.parametrize("name", ["strange", "none"])
def test_a_nic_without_verbs_is_refused(node: Node, name: str) -> None:
    with pytest.raises(KernelRefused, match=f"{name} is not an RDMA device"):
        give(node, nics=("mlx5_0", name))


def test_gpus_by_their_pci_address(node: Node) -> None:
    found = give(node, devices=("0000:03:00.0",))
    assert found.devices == ("/dev/dri/card1", "/dev/dri/renderD129", "/dev/kfd")
    assert not found.ulimits and not found.capabilities
    with pytest.raises(KernelRefused, match=r"0000:04:00\.0 is not a GPU"):
        give(node, devices=("0000:04:00.0",))


def test_what_nobody_knows_is_refused_and_nothing_is_asked_for_nothing(node: Node) -> None:
    with pytest.raises(KernelRefused, match="gpu0"):
        give(node, devices=("gpu0",))
    node.sys = Path("/nonexistent")
    assert give(node) == ContainerEdits() and give(node, devices=("/dev/fuse",)) == ContainerEdits()
