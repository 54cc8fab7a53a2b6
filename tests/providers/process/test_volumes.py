"""Volumes are seen where they were asked for, and never lead out of their storage host's root."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from providers.base import Mount
from providers.process.provider import ProcessProvider
from schemas.problems.errors.kernel import KernelRefused
from tests.providers.process.kernels import UID, ended, output, script, spec


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    root = tmp_path / "storage"
    (root / "data").mkdir(parents=True)
    (root / "data" / "file").write_text("content")
    if os.geteuid() == 0:
        os.chown(root / "data", UID, UID)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("private key")
    return root


def mount(storage: Path, below: str, target: str, **fields: bool) -> Mount:
    return Mount(str(storage / below), target, root=str(storage), **fields)


def test_a_volume_is_seen_and_written_through(provider: ProcessProvider, storage: Path) -> None:
    mounts = (mount(storage, "data", "/home/work/data"),)
    provider.create(script("cat data/file && echo new > data/made", mounts=mounts))
    assert ended(provider, spec().id).exit_code == 0
    assert output(provider, spec().id) == b"content"
    provider.remove(spec().id)
    assert (storage / "data" / "made").read_text() == "new\n"
    assert (storage / "data" / "file").read_text() == "content"


def test_a_missing_folder_under_the_root_is_made(provider: ProcessProvider, storage: Path) -> None:
    provider.create(script("echo x > out/x", mounts=(mount(storage, "new/deep", "/home/work/out"),)))
    assert ended(provider, spec().id).exit_code == 0
    assert (storage / "new" / "deep" / "x").exists()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("../private", "/home/work/x"),
        ("data/../../private", "/home/work/x"),
        ("link", "/home/work/x"),
        ("link/deeper", "/home/work/x"),
        ("data/file", "/home/work/x"),
        ("data", "/home/work/../../etc"),
        ("data", "../x"),
        ("data", "/"),
        ("data", "x\0y"),
    ],
)
def test_ways_out_are_refused(
    make: Callable[..., ProcessProvider], storage: Path, source: str, target: str
) -> None:
    (storage / "link").symlink_to(storage.parent / "private")
    provider = make("groups")
    with pytest.raises(KernelRefused):
        provider.create(spec(mounts=(mount(storage, source, target),)))
    assert provider.observe().kernels == ()
    assert sorted(path.name for path in (storage.parent / "private").iterdir()) == ["key"]


def test_a_source_outside_its_root_is_refused(make: Callable[..., ProcessProvider], storage: Path) -> None:
    for source, root in ((storage.parent / "private", storage), (storage / "link", Path())):
        (storage / "link").unlink(missing_ok=True)
        (storage / "link").symlink_to(storage.parent / "private")
        chosen = "" if root == Path() else str(root)
        with pytest.raises(KernelRefused):
            make("groups").create(spec(mounts=(Mount(str(source), "/home/work/x", root=chosen),)))


def test_a_link_target_may_not_lie_behind_another_mount(
    make: Callable[..., ProcessProvider], storage: Path
) -> None:
    (storage / "other").mkdir()
    mounts = (mount(storage, "data", "/home/work/a"), mount(storage, "other", "/home/work/a/b"))
    with pytest.raises(KernelRefused, match="taken"):
        make("groups").create(spec(mounts=mounts))
    assert [path.name for path in (storage / "data").iterdir()] == ["file"]


def test_in_a_sandbox_only_its_own_files_are_there(
    make: Callable[..., ProcessProvider], storage: Path, tmp_path: Path
) -> None:
    provider = make("sandbox")
    mark = uuid.uuid4().hex
    mounts = (
        mount(storage, "data", "/mnt/read", read_only=True),
        mount(storage, "data", "/home/work/a"),
        mount(storage, "other", "/home/work/a/b"),
    )
    checks = [
        f"! test -e {tmp_path}",
        f"! test -e {provider.root.path}",
        "! touch /usr/x 2>/dev/null",
        "! touch /etc/x 2>/dev/null",
        f"touch /tmp/{mark} /dev/shm/{mark} ./x",
        "test $(cat /mnt/read/file) = content",
        "! touch /mnt/read/x 2>/dev/null",
        "touch a/b/x",
        "test $(ls /proc | grep -c '^[0-9]') -lt 8",
        "! test -e /dev/sda && ! test -e /dev/vda && ! test -e /dev/nvidia0",
        'test -z "$(ls /root 2>/dev/null)"',
        'test "$HOME" = /home/work',
        "! mount -t tmpfs none /mnt 2>/dev/null",
        "! mknod /tmp/disk b 8 0 2>/dev/null",
    ]
    text = "\n".join(f"({check}) || echo failed: {check!r}" for check in checks)
    provider.create(script(text, mounts=mounts))
    ended(provider, spec().id)
    assert output(provider, spec().id) == b""
    assert not Path(f"/tmp/{mark}").exists()
    assert not Path(f"/dev/shm/{mark}").exists()


def test_device_nodes_asked_for_are_there(make: Callable[..., ProcessProvider]) -> None:
    provider = make("sandbox")
    provider.create(script("test -c /dev/kmsg && test -c /dev/null", devices=("/dev/kmsg",)))
    assert ended(provider, spec().id).exit_code == 0
    other = script("test -e /dev/kmsg || test -e /dev/etc", name="s-other-g1", devices=("/dev/../etc",))
    provider.create(other)
    assert ended(provider, other.id).exit_code == 1
