"""Who may commit documents, and wants the machines: files of their system, what bai itself keeps, and more
devices than he was given."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.environment import kernel_environment
from planner.types import DeviceGrant
from providers.base import Mount
from providers.process.options import open_process
from providers.storage.base import Folder, Trash, Trashed
from providers.storage.mounts import problem_here
from providers.storage.node import allowed
from providers.storage.nodes import NodeStorage
from schemas.errors import InvalidOption, VolumeRefused
from tests.bai.conftest import CLUSTER, Repo
from tests.planner.test_environment import HARDWARE, TRIO, facts, placement

OURS = 4200
"""Linux user of the committer's project."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: others' folders")


# Storage hosts


SYSTEM = [
    "/", "/.", "//", "/etc", "//etc", "/etc/", "/etc/cron.d", "/proc/self/root/etc", "/proc/self/root",
    "/lib", "/usr/lib", "/var", "/var/lib", "/var/lib/bai/process", "/root", "/root/.ssh", "/dev/shm",
    "/run", "/boot", "/sbin", "/home", "LINK/etc", "LINK/var/lib", "CHAIN",
]  # fmt: skip


@pytest.fixture
def nobody_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's owner may."""
    monkeypatch.setattr(allowed, "LIST", str(tmp_path / "storage-roots"))


@pytest.mark.usefixtures("nobody_lists")
@pytest.mark.parametrize("root", SYSTEM)
def test_a_storage_host_in_the_system(tmp_path: Path, root: str) -> None:
    (tmp_path / "link").symlink_to("/")
    (tmp_path / "chain").symlink_to("link/etc")
    root = root.replace("LINK", str(tmp_path / "link")).replace("CHAIN", str(tmp_path / "chain"))
    storage = NodeStorage(lambda name: None)
    folder = Folder("Volume/mine/v", "here", root, "bai-attack", uid=OURS, mode=0o777)
    seen = storage.look([folder])["Volume/mine/v"]
    assert seen.state == "refused", seen
    record = Trashed("Volume/mine/v", "e", "h", "bai-attack", 0.0)
    trash = Trash("h", "here", root)
    verbs: list[Callable[[], Any]] = [
        lambda: storage.make(folder), lambda: storage.trash(folder, record), lambda: storage.trashed(trash),
        lambda: storage.restore(trash, "e"), lambda: storage.purge(trash, "e"),
    ]  # fmt: skip
    for verb in verbs:
        with pytest.raises(VolumeRefused):
            verb()
    assert problem_here([Mount(f"{root}/bai-attack", "/data", root=root)])
    assert not os.path.lexists(f"{root}/bai-attack")


@pytest.mark.usefixtures("nobody_lists")
def test_somebodys_home_is_no_storage_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowed, "HOMES", str(tmp_path))
    storage = NodeStorage(lambda name: None)
    wanted = {"ada": "refused", "ada/.ssh": "refused", "ada/data/.x": "refused", "ada/data": "absent"}
    for name, state in wanted.items():
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        seen = storage.look([Folder("Volume/v", "here", str(tmp_path / name), "v")])["Volume/v"]
        assert seen.state == state, (name, seen.why)


def test_the_nodes_owner_says_which_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowed, "LIST", str(tmp_path / "storage-roots"))
    for name in ("disk/a", "disk-2", "real"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    listed = tmp_path / "storage-roots"
    listed.write_text(f"# disks\n{tmp_path}/disk  # this one\n{tmp_path}/link\n/etc/bai\n")

    def why(root: str) -> str:
        return NodeStorage(lambda name: None).look([Folder("Volume/v", "here", root, "v")])["Volume/v"].why

    for fine in ("disk", "disk/a", "real", "link"):
        assert why(f"{tmp_path}/{fine}") == ""
    for bad in ("disk-2", ".", "disk/.."):
        assert why(f"{tmp_path}/{bad}")
    assert "in none of the folders that the node's owner lists" in why("/etc")
    listed.chmod(0o666)
    assert "writable to nobody else" in why(f"{tmp_path}/disk")
    listed.chmod(0o644)
    listed.write_text("etc\n")
    assert "not an absolute folder" in why(f"{tmp_path}/disk")


# What bai keeps


def test_a_document_does_not_choose_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of the committer's own would be told bai's password, and tell bai what it remembers."""
    monkeypatch.delenv("BAI_STATE", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        repo = Repo(tmp_path, {"PGPASSWORD": "hunter2", "XDG_STATE_HOME": str(tmp_path / "state")})
        state = f"postgresql://bai@127.0.0.1:{server.getsockname()[1]}/bai?sslmode=disable&connect_timeout=5"
        wanted = f"{{provider: process, state: '{state}'}}"
        repo.write("c.yaml", CLUSTER.replace("{provider: process}", wanted))
        for words in (("plan",), ("apply", "--yes"), ("state", "list"), ("reconcile", "--once")):
            said = repo(*words)
            assert said.code == 1 and "documents do not choose the store" in said.err + said.out, said
        with pytest.raises(BlockingIOError):
            server.accept()
    assert not (tmp_path / ".bai").exists()


@pytest.mark.parametrize("link", [".bai", ".bai/store.db", ".bai/store.key"])
def test_a_link_in_the_place_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str) -> None:
    """Git makes it where a commit has one: another cluster's store would be read and written."""
    monkeypatch.delenv("BAI_STATE", raising=False)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    repo = Repo(tmp_path / "repo", {"XDG_STATE_HOME": str(tmp_path / "state")})
    repo.write("c.yaml", CLUSTER)
    (repo.root / link).parent.mkdir(exist_ok=True)
    (repo.root / link).symlink_to(theirs if link == ".bai" else theirs / Path(link).name)
    for words in (("plan",), ("apply", "--yes")):
        said = repo(*words)
        assert said.code == 1 and "is a link" in said.err, said
    assert list(theirs.iterdir()) == []


@needs_root
@pytest.mark.parametrize("way", ["theirs", "theirs/link/x", "open/x", "link"])
def test_records_of_sessions_are_not_a_sessions(tmp_path: Path, way: str) -> None:
    """A folder that a session may write to, as a volume: bai would believe what stands in its records."""
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", OURS, OURS)
    (tmp_path / "safe").mkdir()
    (tmp_path / "theirs" / "link").symlink_to(tmp_path / "safe")
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(InvalidOption, match="replace what is in it"):
        open_process({}, state_root=tmp_path / way)
    with pytest.raises(InvalidOption, match="replace what is in it"):
        open_process({"root": str(tmp_path / way)})
    (tmp_path / "safe").chmod(0o775)
    open_process({}, state_root=tmp_path / "safe" / "new")
    os.chown(tmp_path / "safe", 0, OURS)
    with pytest.raises(InvalidOption, match="others may write to"):
        open_process({}, state_root=tmp_path / "safe" / "new")


# Devices, rights and numbers


@pytest.mark.parametrize("devices", [(), (DeviceGrant("GPU-aaaa", "cuda.device"),)])
def test_a_variable_gives_no_other_gpus(devices: tuple[DeviceGrant, ...]) -> None:
    """Engines' runtimes give a container all that NVIDIA_VISIBLE_DEVICES names."""
    place = placement("n1", devices=devices)
    for wish in ("all", "0,1,2,3", ""):
        env = kernel_environment(facts(), TRIO[0], place, HARDWARE, {"NVIDIA_VISIBLE_DEVICES": wish})
        assert env["NVIDIA_VISIBLE_DEVICES"] == ("GPU-aaaa" if devices else "void")
