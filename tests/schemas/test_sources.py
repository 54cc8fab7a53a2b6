"""Where documents come from: directories and commits, read alike, and nothing outside of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from git import Repo

from schemas.files.yaml_reader import LARGEST_FILE
from schemas.kinds.node import NodePool
from schemas.kinds.session import Session
from schemas.loading.loader import load_commit, load_directory
from schemas.problems.errors.repository import CannotRead, InvalidRepository
from schemas.repository.repository import Repository
from tests.schemas.examples import HARDWARE

BASE = """\
apiVersion: bai/v1
kind: Cluster
metadata: {name: lab}
spec: {provider: docker}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: main}
---
apiVersion: bai/v1
kind: Project
metadata: {name: vision}
"""
SESSION = """\
apiVersion: bai/v1
kind: Session
metadata: {name: train, project: vision}
spec: {command: [a]}
"""
POOL = """\
apiVersion: bai/v1
kind: NodePool
metadata: {name: pool}
spec:
  namePattern: gpu-[01-03]
  addressPattern: 10.0.0.[7-9]
  exclude: [gpu-02]
  reserved: {cpus: "0"}
  hardwareFrom: captures/gpu.yaml
"""


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def commit(root: Path) -> str:
    repo = Repo.init(root)
    repo.git.add("-A", "-f")
    settings = ["user.name=a", "user.email=a@example.org", "commit.gpgsign=false"]
    repo.git(c=settings).commit("-qm", "x", "--no-verify")
    made = repo.head.commit.hexsha
    repo.close()
    return made


def problems(load: Callable[[], Repository]) -> str:
    with pytest.raises(InvalidRepository) as caught:
        load()
    return "\n".join(map(str, caught.value.problems))


FILES = {
    "base.yaml": BASE,
    "deep/er/train.yml": SESSION,
    "deep/pool.yaml": POOL,
    "deep/captures/gpu.yaml": json.dumps(HARDWARE),
    ".hidden/x.yaml": "not: [yaml",
    "notes.txt": "not: [yaml",
    ".dot.yaml": "not: [yaml",
}


def test_a_directory_and_its_commit_are_read_alike(tmp_path: Path) -> None:
    here = load_directory(write(tmp_path, FILES))
    revision = commit(tmp_path)
    there = load_commit(tmp_path, "HEAD")
    assert (there.resources, there.machines, there.locations) == (
        here.resources,
        here.machines,
        here.locations,
    )
    assert (here.commit, there.commit) == ("", revision)
    assert list(here.resources) == [
        "Cluster/lab",
        "NodePool/pool",
        "Project/vision",
        "ResourceGroup/main",
        "Session/vision/train",
    ]
    assert str(here.locations["ResourceGroup/main"]) == "base.yaml:6:1"


def test_a_commit_is_read_without_its_checkout(tmp_path: Path) -> None:
    first = commit(write(tmp_path, FILES))
    (tmp_path / "base.yaml").write_text("changed: [")
    (tmp_path / "deep" / "er" / "train.yml").unlink()
    assert "Session/vision/train" in load_commit(tmp_path / ".git", first).resources
    bare = Repo.clone_from(str(tmp_path), str(tmp_path / "bare.git"), bare=True)
    bare.close()
    assert load_commit(tmp_path / "bare.git", first[:10]).commit == first


def test_a_folder_of_a_commit(tmp_path: Path) -> None:
    write(tmp_path, {f"a/b/{name}": text for name, text in FILES.items()} | {"other.yaml": "not: [yaml"})
    commit(tmp_path)
    loaded = load_commit(tmp_path, "HEAD", "a/b/")
    assert str(loaded.locations["Session/vision/train"]) == "deep/er/train.yml:1:1"
    assert load_directory(tmp_path / "a" / "b").resources == loaded.resources


@pytest.mark.parametrize(
    ("revision", "folder"),
    [("nope", ""), ("--help", ""), ("", ""), ("HEAD^{tree}", ""), ("HEAD", "nowhere"), ("HEAD", "../x")],
)
def test_no_such_commit(tmp_path: Path, revision: str, folder: str) -> None:
    commit(write(tmp_path, FILES))
    with pytest.raises(CannotRead):
        load_commit(tmp_path, revision, folder)


def test_no_such_directory(tmp_path: Path) -> None:
    for path in (tmp_path / "none", write(tmp_path, {"file.yaml": BASE}) / "file.yaml"):
        with pytest.raises(CannotRead):
            load_directory(path)
    with pytest.raises(CannotRead, match="No such file"):
        load_commit(tmp_path / "none", "HEAD")
    with pytest.raises(CannotRead, match="not a git repository"):
        load_commit(tmp_path, "HEAD")


def test_an_empty_directory_is_an_empty_repository(tmp_path: Path) -> None:
    assert load_directory(tmp_path).resources == {}


def test_a_pool_becomes_its_nodes(tmp_path: Path) -> None:
    loaded = load_directory(write(tmp_path, FILES))
    assert list(loaded.machines) == ["Node/gpu-01", "Node/gpu-03"]
    first, last = loaded.nodes_of("lab")
    assert (first.name, first.spec.address) == ("gpu-01", "10.0.0.7")
    assert (last.name, last.spec.address) == ("gpu-03", "10.0.0.9")
    assert first.spec.hardware is not None
    assert first.spec.hardware is last.spec.hardware
    assert first.spec.reserved.cpus == (0,)
    pool = loaded.resources["NodePool/pool"]
    assert isinstance(pool, NodePool)
    assert pool.spec.hardware is None


@pytest.mark.parametrize("place", ["deep/captures/gpu.yaml", "captures/gpu.yaml"])
def test_hardware_is_found_beside_the_document_or_at_the_root(tmp_path: Path, place: str) -> None:
    files = dict(FILES)
    files[place] = files.pop("deep/captures/gpu.yaml")
    loaded = load_directory(write(tmp_path, files))
    assert loaded.machines["Node/gpu-01"].spec.hardware is not None


def test_reserved_cpus_are_held_against_captured_hardware(tmp_path: Path) -> None:
    files = FILES | {"deep/pool.yaml": POOL.replace('cpus: "0"', 'cpus: "0,99"')}
    assert "pool.yaml:8:20: BAI-V032" in problems(lambda: load_directory(write(tmp_path, files)))


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    files = {"base.yaml": BASE, "fits.yaml": "#" * LARGEST_FILE, "big.yaml": "#" * (LARGEST_FILE + 1)}
    [here] = problems(lambda: load_directory(write(tmp_path, files))).splitlines()
    commit(tmp_path)
    [there] = problems(lambda: load_commit(tmp_path, "HEAD")).splitlines()
    assert here.startswith("big.yaml:1:1: BAI-V002")
    assert there.startswith("big.yaml:1:1: BAI-V002")


def test_a_commit_whose_content_is_missing(tmp_path: Path) -> None:
    """As in a clone that was interrupted, or a disk that loses files."""
    revision = commit(write(tmp_path, {"base.yaml": BASE}))
    blob = Repo(tmp_path).commit(revision).tree["base.yaml"].hexsha
    (tmp_path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(CannotRead, match=blob):
        load_commit(tmp_path, "HEAD")


def test_links_are_refused_in_commits_too(tmp_path: Path) -> None:
    root = write(tmp_path / "r", {"base.yaml": BASE, "notes.txt": "x"})
    write(tmp_path, {"secret.yaml": SESSION})
    for name, target in {
        "out.yaml": "../secret.yaml",
        "absolute.yaml": "/etc/passwd",
        "inside.yaml": "base.yaml",
        "gone.yaml": "nowhere.yaml",
        "hides.yaml": "notes.txt",
        "folder": "..",
    }.items():
        (root / name).symlink_to(target)
    here = problems(lambda: load_directory(root))
    commit(root)
    there = problems(lambda: load_commit(root, "HEAD"))
    assert here == there
    refused = ["absolute.yaml", "folder", "gone.yaml", "hides.yaml", "out.yaml"]
    assert [line.partition(":")[0] for line in here.splitlines()] == refused


def test_hardware_through_a_link_stays_inside(tmp_path: Path) -> None:
    root = write(tmp_path / "r", {k: v for k, v in FILES.items() if "captures" not in k})
    write(tmp_path, {"gpu.yaml": json.dumps(HARDWARE)})
    (root / "deep" / "captures").mkdir()
    (root / "deep" / "captures" / "gpu.yaml").symlink_to("../../../gpu.yaml")
    assert "BAI-V040 (spec.hardwareFrom)" in problems(lambda: load_directory(root))


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(write(tmp_path, {"base.yaml": BASE}) / "pipe.yaml")
    assert problems(lambda: load_directory(tmp_path)).startswith("pipe.yaml:1:1: BAI-V001")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (write(tmp_path, {"base.yaml": BASE, "mine.yaml": BASE}) / "mine.yaml").chmod(0)
    assert problems(lambda: load_directory(tmp_path)).startswith("mine.yaml:1:1: BAI-V001")


def test_a_strange_file_name_cannot_drive_a_terminal(tmp_path: Path) -> None:
    name = os.fsdecode(b"\x1b[31m\xff.yaml")
    (tmp_path / name).write_text("a: [")
    said = problems(lambda: load_directory(tmp_path))
    assert "\x1b" not in said
    said.encode("utf-8")
    commit(tmp_path)
    assert problems(lambda: load_commit(tmp_path, "HEAD")) == said


def test_who_belongs_where(tmp_path: Path) -> None:
    more = """\
apiVersion: bai/v1
kind: StorageHost
metadata: {name: disk}
spec: {type: nfs, root: /srv/x}
---
apiVersion: bai/v1
kind: Volume
metadata: {name: data}
---
apiVersion: bai/v1
kind: Volume
metadata: {name: data, project: vision}
---
apiVersion: bai/v1
kind: User
metadata: {name: jo}
spec: {email: Jo@example.org, projects: [vision]}
"""
    loaded = load_directory(write(tmp_path, FILES | {"more.yaml": more}))
    session = loaded.resources["Session/vision/train"]
    assert isinstance(session, Session)
    group = loaded.group_of(session)
    assert group is not None
    assert group.name == "main"
    assert {loaded.cluster_of(item) for item in (session, group, *loaded.machines.values())} == {"lab"}
    assert loaded.cluster_of(loaded.resources["Project/vision"]) is None
    assert loaded.group_of_node(loaded.machines["Node/gpu-01"]) == "main"
    volume = loaded.volume_of(session, "data")
    assert volume is not None
    assert volume.identity == "Volume/vision/data"
    assert loaded.cluster_of(volume) == "lab"
    assert loaded.volume_of(session, "other") is None
    user = loaded.user_of("jo@EXAMPLE.org")
    assert user is not None
    assert user == loaded.user_of("jo")
    assert loaded.user_of(None) is None
