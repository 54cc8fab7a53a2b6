"""Folders on a node that is reached over SSH: the node needs Python, and nothing of bai."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from providers.base import Mount
from providers.gpu import shares
from providers.gpu.gpu_share import GpuShare
from providers.machines.connections import ClusterMachines
from providers.storage.base import TrashedVolume, TrashLocation, VolumeFolder
from providers.storage.mounts import mount_problem
from providers.storage.nodes import NodeStorage
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.node import VolumeRefused
from tests.lab.sshd import SshdNodes

pytestmark = pytest.mark.xdist_group("sshd")


def test_a_volumes_whole_life(sshd_nodes: SshdNodes, tmp_path: Path) -> None:
    one, two = sshd_nodes(2)
    machines = ClusterMachines([one.endpoint(), two.endpoint()])
    storage = NodeStorage(machines.get)
    root = tmp_path / "root"
    root.mkdir()
    first = VolumeFolder("Volume/a", one.endpoint().name, str(root), "a", mode=0o750, host="disk")
    second = replace(first, volume="Volume/b", node=two.endpoint().name, path="b")
    storage.make(first)
    (root / "a" / "file").write_text("x" * 10_000)
    seen = storage.observe([first, second], usage=True)
    assert (seen["Volume/a"].state, seen["Volume/a"].mode) == ("there", 0o750)
    assert seen["Volume/b"].state == "absent"
    assert (seen["Volume/a"].used or 0) >= 10_000
    assert (
        mount_problem(machines.get(one.endpoint().name), [Mount(f"{root}/a/sub", "/data", root=str(root))])
        == ""
    )
    assert (root / "a" / "sub").is_dir()
    storage.trash(first, TrashedVolume("Volume/a", "gone", "disk", "a", 1.0))
    trash = TrashLocation("disk", one.endpoint().name, str(root))
    assert [entry.entry for entry in storage.trashed(trash)] == ["gone"]
    storage.restore(trash, "gone")
    assert (root / "a" / "file").exists()
    with pytest.raises(VolumeRefused, match="not mounted"):
        storage.make(replace(second, file_systems=("lustre",)))
    machines.close()


def test_files_of_a_volume_go_in_and_out(sshd_nodes: SshdNodes, tmp_path: Path) -> None:
    (one,) = sshd_nodes(1)
    machines = ClusterMachines([one.endpoint()])
    storage, inside = NodeStorage(machines.get), tmp_path / "root" / "a"
    inside.mkdir(parents=True)
    folder = VolumeFolder("Volume/a", one.endpoint().name, str(tmp_path / "root"), "a", host="disk")

    def broken() -> Iterator[bytes]:
        yield b"x" * 300_000
        raise InterruptedError

    with pytest.raises(InterruptedError):
        storage.write_file(folder, "new", 1_000_000, broken())
    assert list(inside.iterdir()) == []
    storage.write_file(folder, "raw\udcff", 2_000_000, iter([b"ab" * 500_000] * 2))
    assert [each.name for each in storage.list_files(folder, "", 10).entries] == ["raw\udcff"]
    found = storage.read_file(folder, "raw\udcff")
    assert (found.size, b"".join(found.pieces)) == (2_000_000, b"ab" * 1_000_000)
    assert len(b"".join(storage.read_folder(folder, ""))) > 2_000_000
    with pytest.raises(VolumeRefused, match="room for"):
        storage.write_file(replace(folder, quota=2_100_000), "more", 200_000, iter([b"x" * 200_000]))
    with pytest.raises(VolumeRefused):
        storage.read_file(folder, "../a")
    machines.close()


def test_a_node_that_is_away_is_unknown(sshd_nodes: SshdNodes, tmp_path: Path) -> None:
    (one,) = sshd_nodes(1)
    gone = replace(one.endpoint(port=9, connectTimeout="1s"), name="gone")
    storage = NodeStorage(ClusterMachines([gone]).get)
    folder = VolumeFolder("Volume/a", "gone", str(tmp_path), "a")
    assert storage.observe([folder])["Volume/a"].state == "unknown"


def test_what_it_can_enforce_is_asked_over_the_same_connection(sshd_nodes: SshdNodes, tmp_path: Path) -> None:
    (one,) = sshd_nodes(1)
    machine = ClusterMachines([one.endpoint()]).get(one.endpoint().name)
    place = shares.ShareHost(
        machine, "docker", "n1", root=str(tmp_path / "mps"), hami_root=str(tmp_path / "hami"),
        libraries=(str(tmp_path / "libvgpu.so"),),
    )  # fmt: skip
    found = shares.available_means(place)
    assert set(found.missing) == {"mps", "hami", "mig"}
    share = GpuShare("hami", {"GPU-a": 500})
    with pytest.raises(KernelRefused, match="is not at"):
        shares.prepare(place, "one", share)
    (tmp_path / "libvgpu.so").write_bytes(b"")
    given = shares.prepare(place, "one", share)
    assert Path(next(each.source for each in given.binds if each.target == "/run/hami")).is_dir()
    shares.release(place, "one")
    assert list((tmp_path / "hami" / "kernels").iterdir()) == []
    machine.close()
