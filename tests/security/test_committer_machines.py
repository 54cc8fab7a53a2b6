"""Who may commit documents, and wants the machines: files of their system, what bai itself keeps, and more
devices than he was given."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.environment.variables import kernel_environment
from planner.model.types import DeviceGrant
from providers.base import File, Mount
from providers.docker.container import runtime_files
from providers.process.options import open_process
from providers.storage.base import TrashedVolume, TrashLocation, VolumeFolder
from providers.storage.mounts import mount_problem_here
from providers.storage.node import allowed
from providers.storage.nodes import NodeStorage
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.node import VolumeRefused
from schemas.problems.errors.provider import InvalidOption, ProviderError
from tests.bai.conftest import CLUSTER, Repo
from tests.planner.test_environment import HARDWARE, TRIO, facts, placement
from tests.providers.docker.specs import here, kernel

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
    folder = VolumeFolder("Volume/mine/v", "here", root, "bai-attack", uid=OURS, mode=0o777)
    seen = storage.observe([folder])["Volume/mine/v"]
    assert seen.state == "refused", seen
    record = TrashedVolume("Volume/mine/v", "e", "h", "bai-attack", 0.0)
    trash = TrashLocation("h", "here", root)
    verbs: list[Callable[[], Any]] = [
        lambda: storage.make(folder), lambda: storage.trash(folder, record), lambda: storage.trashed(trash),
        lambda: storage.restore(trash, "e"), lambda: storage.purge(trash, "e"),
    ]  # fmt: skip
    for verb in verbs:
        with pytest.raises(VolumeRefused):
            verb()
    assert mount_problem_here([Mount(f"{root}/bai-attack", "/data", root=root)])
    assert not os.path.lexists(f"{root}/bai-attack")


@pytest.mark.usefixtures("nobody_lists")
def test_somebodys_home_is_no_storage_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowed, "HOMES", str(tmp_path))
    storage = NodeStorage(lambda name: None)
    wanted = {"ada": "refused", "ada/.ssh": "refused", "ada/data/.x": "refused", "ada/data": "absent"}
    for name, state in wanted.items():
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        seen = storage.observe([VolumeFolder("Volume/v", "here", str(tmp_path / name), "v")])["Volume/v"]
        assert seen.state == state, (name, seen.why)


def test_the_nodes_owner_says_which_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowed, "LIST", str(tmp_path / "storage-roots"))
    for name in ("disk/a", "disk-2", "real"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    listed = tmp_path / "storage-roots"
    listed.write_text(f"# disks\n{tmp_path}/disk  # this one\n{tmp_path}/link\n/etc/bai\n")

    def why(root: str) -> str:
        return (
            NodeStorage(lambda name: None)
            .observe([VolumeFolder("Volume/v", "here", root, "v")])["Volume/v"]
            .why
        )

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


# Volumes of others


THEIRS, DRAWN = 4300, 1_900_000_007
"""Users of two other projects: one by its document, one that is drawn; perhaps the project is gone."""
PROJECTS = ((1_900_000_000, 1_999_999_999), (OURS, OURS), (THEIRS, THEIRS))


def _volume(root: Path, path: str, user: int | None, **more: Any) -> VolumeFolder:
    return VolumeFolder("Volume/v", "here", str(root), path, new_owner=user, projects=PROJECTS, **more)


def _all(folder: Path) -> list[tuple[str, int, int, int]]:
    found = [(each, each.lstat()) for each in sorted((folder, *folder.rglob("*")))]
    return [(str(each), seen.st_uid, seen.st_gid, seen.st_mode) for each, seen in found]


@needs_root
@pytest.mark.usefixtures("nobody_lists")
@pytest.mark.parametrize("user", [OURS, None], ids=["project", "no project"])
@pytest.mark.parametrize("theirs", [THEIRS, DRAWN])
@pytest.mark.parametrize(
    ("said", "root", "path"),
    [
        ({}, "", "a/b/data"),
        ({}, "", "a/b/data/runs"),
        ({}, "", "a/b/data/new/er"),
        ({}, "", "a/b"),
        ({}, "", "a"),
        ({}, "a/b/data", "runs"),
        ({}, "a/b/data/runs", "new"),
        ({"uid": 1007}, "", "a/b/data"),
        ({"gid": 1007}, "", "a/b/data"),
    ],
)
def test_a_volume_that_was_another_projects(
    tmp_path: Path, theirs: int, user: int | None, said: dict[str, int], root: str, path: str
) -> None:
    """Its document is gone or names another path; its data is there: the folder, one in it, one above it, or
    a storage host in it. Links and numbers are tried elsewhere."""
    storage = NodeStorage(lambda name: None)
    old = _volume(tmp_path / "disk", "a/b/data", theirs, **said)
    (tmp_path / "disk").mkdir()
    storage.make(old)
    (Path(old.source) / "runs").mkdir()
    before = _all(tmp_path)
    mine = _volume(tmp_path / "disk" / root, path, user, mode=0o777)
    seen = storage.observe([mine])["Volume/v"]
    assert seen.state == "refused" and "name another path" in seen.why, seen
    with pytest.raises(VolumeRefused, match="another project's"):
        storage.make(mine)
    assert _all(tmp_path) == before
    beside = _volume(tmp_path / "disk", "a/b/mine", user)
    storage.make(beside)
    assert storage.observe([beside])["Volume/v"].state == "there"
    storage.make(old)
    assert storage.observe([old])["Volume/v"].state == "there"


@needs_root
@pytest.mark.usefixtures("nobody_lists")
def test_data_that_is_no_projects_may_become_a_volume(tmp_path: Path) -> None:
    storage = NodeStorage(lambda name: None)
    for owner in (0, 1007, OURS):
        (tmp_path / f"of-{owner}").mkdir()
        os.chown(tmp_path / f"of-{owner}", owner, owner)
        for path in (f"of-{owner}", f"of-{owner}/in/it"):
            storage.make(_volume(tmp_path, path, OURS))
            assert storage.observe([_volume(tmp_path, path, OURS)])["Volume/v"].state == "there"
    shared = _volume(tmp_path, "shared", None, gid=THEIRS)  # Sessions of others cannot mount it.
    storage.make(shared)
    assert storage.observe([shared])["Volume/v"].gid == THEIRS


HOST = "apiVersion: bai/v1\nkind: StorageHost\nmetadata: {name: disk}\nspec: {root: "
HANDED = """apiVersion: bai/v1
kind: Project
metadata: {name: %s}
spec: {domain: default}
---
apiVersion: bai/v1
kind: Volume
metadata: {name: v, project: %s}
spec: {path: data%s}
"""
MOUNTING = """apiVersion: bai/v1
kind: Session
metadata: {name: s, project: b}
spec: {type: batch, command: ["true"], resources: {cpu: 100m, memory: 64MiB}, mounts: [{volume: v, path: /v}]}
"""


@needs_root
def test_another_projects_data_is_handed_over_by_root_alone(tmp_path: Path) -> None:
    """With the command: project a leaves its folder, and b names it."""
    (tmp_path / "disk").mkdir()
    repo = Repo(tmp_path / "repo", {"BAI_STATE": str(tmp_path / "store.db")})
    repo.write("c.yaml", CLUSTER)
    repo.write("h.yaml", f"{HOST}{tmp_path}/disk}}\n")
    repo.write("a.yaml", HANDED % ("a", "a", ""))
    assert repo("apply", "--yes").code == 0
    data = tmp_path / "disk" / "data"
    (data / "secret").write_text("x")
    repo.write("a.yaml", HANDED % ("a", "a", "-2"))
    assert repo("apply", "--yes").code == 0
    repo.write("b.yaml", HANDED % ("b", "b", ""))
    repo.write("s.yaml", MOUNTING)
    said = repo("plan")
    assert "is another project's" in said.out, said
    for _ in range(2):
        said = repo("apply", "--yes")
        assert said.code != 0 and "name another path" in said.out + said.err, said
        assert "1 failed, 1 skipped" in said.out, said  # the session that mounts it
    (repo.root / "s.yaml").unlink()
    owner = data.stat().st_uid
    told = " ".join((said.out + said.err).split())
    found = re.search(r"chown -R (\d+):(\d+) (\S+/data)\b", told)
    assert found is not None and found[3] == str(data) and int(found[1]) != owner
    subprocess.run(found[0].split(), check=True)
    for _ in range(2):
        assert repo("apply", "--yes").code == 0
    said = repo("plan")
    assert said.code == 0 and (data / "secret").read_text() == "x", said


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


@pytest.fixture
def ways(tmp_path: Path) -> Path:
    """A folder with ways on which a session could put its own in place of what is there."""
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", OURS, OURS)
    (tmp_path / "safe").mkdir()
    (tmp_path / "theirs" / "link").symlink_to(tmp_path / "safe")
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    for name, mode in {"open": 0o777, "sticky": 0o1777, "groups": 0o775}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    os.chown(tmp_path / "groups", 0, OURS)
    (tmp_path / "sticky" / "first").mkdir()
    os.chown(tmp_path / "sticky" / "first", OURS, OURS)
    return tmp_path


WAYS = ["theirs", "theirs/x", "theirs/link/x", "open", "open/x", "sticky", "sticky/first", "groups/x", "link"]
SAFE = ["safe", "safe/x", "sticky/x/y"]


@needs_root
@pytest.mark.parametrize("way", WAYS)
def test_records_of_sessions_are_not_a_sessions(ways: Path, way: str) -> None:
    """A folder that a session may write to, as a volume: bai would believe what stands in its records."""
    with pytest.raises(InvalidOption, match="replace what is in it"):
        open_process({}, state_root=ways / way)
    with pytest.raises(InvalidOption, match="replace what is in it"):
        open_process({"root": str(ways / way)})


@needs_root
@pytest.mark.parametrize("way", SAFE)
def test_records_lie_where_nobody_else_replaces_them(ways: Path, way: str) -> None:
    (ways / "safe").chmod(0o775)  # its group is root's
    open_process({}, state_root=ways / way)


KERNEL = "s-main1-0-g1"
FILES = (File("topo.xml", "<x/>", "T"),)


@needs_root
@pytest.mark.parametrize("way", [*WAYS, "safe/../theirs"])
def test_what_containers_are_given_is_not_put_into_a_sessions_folder(ways: Path, way: str) -> None:
    """`docker.state` on a node: root would unpack files there, and delete what has a kernel's name."""
    before = _below(ways)
    engine = here(state=str(ways / "safe"))
    object.__setattr__(engine.options, "state", f"{ways}/{way}")  # as if no rule of documents had stood there
    with pytest.raises(KernelRefused, match=r"replace what is in it|is a link") as refused:
        runtime_files.prepare(engine, kernel(KERNEL, files=FILES), {})
    assert "spec.docker.state" in str(refused.value)
    assert _below(ways) == before


@needs_root
@pytest.mark.parametrize("way", ["theirs", "open", "sticky/first", "link", "theirs/link"])
def test_what_containers_were_given_is_not_deleted_where_a_session_leads(ways: Path, way: str) -> None:
    """A link of the session's, to a folder of the node with a name that it knows."""
    folder = ways / way
    (folder / KERNEL).mkdir()
    (folder / KERNEL / "precious").write_text("x")
    engine = here(state=str(folder))
    runtime_files.sweep(engine, KERNEL)
    with pytest.raises(ProviderError, match=r"replace what is in it|is a link"):
        runtime_files.release(engine, KERNEL, f"{folder}/{KERNEL}")
    assert (folder / KERNEL / "precious").read_text() == "x"


@needs_root
@pytest.mark.parametrize("way", SAFE)
def test_what_containers_are_given_goes_where_nobody_else_replaces_it(ways: Path, way: str) -> None:
    """A link of somebody's with a kernel's name is no way for it."""
    engine = here(state=f"{ways}/{way}")
    (ways / way).mkdir(parents=True, exist_ok=True)
    (ways / way / KERNEL).symlink_to(ways / "theirs")
    [bind] = runtime_files.prepare(engine, kernel(KERNEL, files=FILES), {}).binds
    assert bind.source == f"{ways}/{way}/{KERNEL}" and Path(bind.source, "topo.xml").is_file()
    runtime_files.release(engine, KERNEL, bind.source)
    assert not os.path.lexists(bind.source) and (ways / "theirs" / "link").is_symlink()


@needs_root
def test_a_folder_in_shared_memory_that_somebody_made_first_is_not_used(
    ways: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As /dev/shm/bai-docker is: the next place is taken, or none."""
    places = (f"{ways}/sticky/first", f"{ways}/sticky/ours")
    monkeypatch.setattr(runtime_files, "OWN_FOLDERS", places)
    monkeypatch.setattr(runtime_files, "FOLDERS", places)
    [bind] = runtime_files.prepare(here(), kernel(KERNEL, files=FILES), {}).binds
    assert bind.source == f"{places[1]}/{KERNEL}"
    runtime_files.release(here(), KERNEL, bind.source)
    assert not os.path.lexists(places[1])
    (ways / "sticky" / "first").mkdir(exist_ok=True)
    os.chown(ways / "sticky" / "first", OURS, OURS)
    monkeypatch.setattr(runtime_files, "FOLDERS", places[:1])
    with pytest.raises(KernelRefused, match=f"belongs to user {OURS}"):
        runtime_files.prepare(here(), kernel(KERNEL, files=FILES), {})


def _below(folder: Path) -> list[str]:
    return sorted(str(each) for each in folder.rglob("*"))


# Devices, rights and numbers


@pytest.mark.parametrize("devices", [(), (DeviceGrant("GPU-aaaa", "cuda.device"),)])
def test_a_variable_gives_no_other_gpus(devices: tuple[DeviceGrant, ...]) -> None:
    """Engines' runtimes give a container all that NVIDIA_VISIBLE_DEVICES names."""
    place = placement("n1", devices=devices)
    for wish in ("all", "0,1,2,3", ""):
        env = kernel_environment(facts(), TRIO[0], place, HARDWARE, {"NVIDIA_VISIBLE_DEVICES": wish})
        assert env["NVIDIA_VISIBLE_DEVICES"] == ("GPU-aaaa" if devices else "void")
