"""Files in and out of pods of a real cluster."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bai.cli.sessions.archive import unpack
from providers.kubernetes.interaction import files
from providers.kubernetes.interaction.copy import copy_in, copy_out
from providers.kubernetes.interaction.files import list_files
from providers.kubernetes.objects.names import PodRef
from schemas.problems.errors.kernel import CopyRefused, FilesRefused, KernelNotFound, NotRunning
from tests.providers.archives import packed, unpacked
from tests.providers.kubernetes.interaction.conftest import Pods
from tests.providers.kubernetes.specs import SLEEP
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("kubernetes")
EVIL = """#!/bin/ash
cat /evil.tar
"""


def test_files_go_in_and_out(pods: Pods) -> None:
    script = "mkdir -p /tmp/d; echo x >/tmp/d/f; chmod 600 /tmp/d/f; touch /tmp/-x; touch /tmp/up; " + SLEEP
    pod = pods.run(script, workingDir="/tmp", securityContext={"runAsUser": 1000, "runAsGroup": 1000})
    until(lambda: "up" in pods.said(pod, "ls", "/tmp"), "it has begun")
    found = unpacked(copy_out(pods.client, pod, "/tmp/d"))
    assert set(found) == {"d", "d/f"} and found["d/f"].mode & 0o777 == 0o600
    copy_in(pods.client, pod, "d", packed({"a/b": b"1", "c": b"2" * 3_000_000}))
    assert {"f", "a/b", "c"} <= unpacked(copy_out(pods.client, pod, "d/.")).keys()
    found = unpacked(copy_out(pods.client, pod, "d/c"))
    assert (found["c"].uid, found["c"].gid, found["c"].mode & 0o777) == (1000, 1000, 0o640)
    assert set(unpacked(copy_out(pods.client, pod, "-x"))) == {"-x"}


def test_what_cannot_be_copied_is_refused(pods: Pods) -> None:
    pod = pods.run()
    for path in ("/nope", "nope", "/nope/."):
        with pytest.raises(CopyRefused, match=r"(?i)no such file"):
            list(copy_out(pods.client, pod, path))
    for path, why in (
        ("/nope", "(?i)no such file|can't change"),
        ("/bin/busybox", "(?i)not a dir|can't change"),
    ):
        with pytest.raises(CopyRefused, match=why):
            copy_in(pods.client, pod, path, packed({"a": b""}))
    with pytest.raises(CopyRefused, match="tar"):
        copy_in(pods.client, pod, "/tmp", iter([b"this is no archive" * 1000]))
    with pytest.raises(CopyRefused, match="NUL"):
        list(copy_out(pods.client, pod, "/a\0b"))
    with pytest.raises(KernelNotFound):
        list(copy_out(pods.client, PodRef(pods.namespace, "nobody"), "/"))
    pods.said(pod, "rm", "/bin/sh", "/bin/tar")  # A shell of busybox has a tar of its own.
    with pytest.raises(CopyRefused, match="its image has no tar"):
        list(copy_out(pods.client, pod, "/etc"))
    with pytest.raises(NotRunning):
        list(copy_out(pods.client, pods.ended(), "/"))


def test_a_copy_that_is_left_off_leaves_nothing_behind(pods: Pods) -> None:
    pod = pods.run()
    pods.said(
        pod, "sh", "-c", "head -c 200000000 /dev/zero > /dev/shm/big || head -c 60000000 /dev/zero > /tmp/big"
    )
    chunks = copy_out(pods.client, pod, "/.")
    assert next(chunks)
    chunks.close()  # type: ignore[attr-defined]
    until(lambda: "tar -C" not in pods.said(pod, "ps"), "its tar has ended")


def test_what_fails_while_an_archive_is_read_is_what_is_raised(pods: Pods) -> None:
    pod = pods.run()

    def broken() -> Iterator[bytes]:
        yield from packed({"a": b"1" * 100_000})
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        copy_in(pods.client, pod, "/tmp", broken())


def test_a_containers_own_tar_writes_nothing_beside_the_target(pods: Pods, tmp_path: Path) -> None:
    """An attack: the session replaces `tar`, and whoever copies from it unpacks what it made up."""
    pod = pods.run()
    evil = tmp_path / "evil.tar"
    with tarfile.open(evil, "w") as archive:
        for name in ("../outside", "/tmp/outside-of-bai"):
            archive.addfile(tarfile.TarInfo(name))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo("link/through"))
    copy_in(pods.client, pod, "/", packed({"evil.tar": evil.read_bytes(), "evil": EVIL.encode()}, 0o755))
    pods.said(pod, "sh", "-c", "rm /bin/sh /bin/tar; mv /evil /bin/tar")
    target = tmp_path / "target"
    target.mkdir()
    done = unpack(copy_out(pods.client, pod, "/etc"), target)
    assert len(done.left_out) >= 3, done.left_out
    assert sorted(each.name for each in tmp_path.iterdir()) == ["evil.tar", "target"]
    assert not Path("/tmp/outside-of-bai").exists()


def test_what_a_containers_tar_complains_drives_no_terminal(pods: Pods) -> None:
    pod = pods.run()
    script = b"#!/bin/ash\nprintf '\\033[2Jgone\\n' >&2; head -c 1000000 /dev/zero >&2; exit 1\n"
    copy_in(pods.client, pod, "/", packed({"evil": script}, 0o755))
    pods.said(pod, "sh", "-c", "rm /bin/sh /bin/tar; mv /evil /bin/tar")
    with pytest.raises(CopyRefused) as refused:
        list(copy_out(pods.client, pod, "/etc"))
    assert "\\u001b[2Jgone" in refused.value.message and len(refused.value.message) < 300


def replace_shell(pods: Pods, pod: PodRef, script: str) -> None:
    """What looks into folders is something else from now on."""
    text = f"#!/bin/ash\necho $$ >&2\n{script}\n".encode()
    copy_in(pods.client, pod, "/", packed({"evil": text}, 0o755))
    pods.said(pod, "mv", "/evil", "/bin/sh")


@pytest.mark.parametrize(
    "script",
    ["", "printf 'door\\0f\\0001\\000'", "printf 'file 81a4 1e99 x\\0f\\0001\\000'", "printf '\\000'",
     "head -c 70000000 /dev/zero",
     "printf 'file 81a4 %0999999d 1\\0f\\0001\\000' 1"],
)  # fmt: skip
def test_a_container_that_makes_up_files_is_told_as_such(pods: Pods, script: str) -> None:
    pod = pods.run()
    replace_shell(pods, pod, script)
    with pytest.raises(FilesRefused, match="no list of files"):
        list_files(pods.client, pod, "/etc", 10)


def test_a_list_that_a_container_holds_up_is_given_up(pods: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = pods.run()
    replace_shell(pods, pod, "sleep 3000")
    monkeypatch.setattr(files, "STALL", 2.0)
    with pytest.raises(FilesRefused, match="was stopped"):
        list_files(pods.client, pod, "/etc", 10)
