"""Quotas of file systems that cannot be had here: stand-ins for their commands, by their manuals."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.storage.node import quota
from providers.storage.node.mounts import MountEntry
from providers.storage.node.quota import QuotaFolder
from providers.storage.node.walk import FolderRefused

MIB = 1 << 20
STANDIN = """#!{python}
import json, os, sys
state = {state!r}
known = json.load(open(state)) if os.path.exists(state) else {{"asked": []}}
words = sys.argv[1:]
known["asked"].append(words)
{body}
json.dump(known, open(state, "w"))
"""
LFS = """
if words[:2] == ["project", "-d"]:
    print("%8d %s %s" % (known.get("project", 0), "P" if known.get("project") else "-", words[2]))
elif words[0] == "project":
    known["project"] = int(words[words.index("-p") + 1])
elif words[0] == "setquota":
    known["limit"] = int(words[words.index("-B") + 1].rstrip("k"))
elif words[0] == "quota":
    print("   /mnt/lustre")
    print("        2048*  0  %d  -  7 0 0 -" % known["limit"])
"""
WEKA = """
if "set" in words:
    known["hard"] = int(words[words.index("--hard") + 1].rstrip("B"))
elif "unset" in words:
    known.pop("hard")
elif "list" in words:
    print(json.dumps([{"hard_limit_bytes": known["hard"], "total_bytes": 4096}] if "hard" in known else []))
"""


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in {"lfs": LFS, "weka": WEKA}.items():
        text = STANDIN.format(python=sys.executable, state=str(tmp_path / f"{name}.json"), body=body)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "data").mkdir()
    opened = os.open(tmp_path / "data", os.O_RDONLY)
    yield opened
    os.close(opened)


def place(kind: str, folder: int, options: str = "rw") -> QuotaFolder:
    mount = MountEntry("0:50", "/", "/mnt/lustre", kind, "server:/", options)
    return QuotaFolder(mount, folder, folder, "/mnt/lustre/data", "Volume/data")


def test_lustre_gives_the_folder_a_project(standin: Path, folder: int) -> None:
    here = place("lustre", folder)
    assert quota.read_limit(here).most == 0
    assert quota.set_limit(here, 0) == ""
    assert quota.set_limit(here, 10 * MIB) == ""
    found = quota.read_limit(here)
    assert (found.means, found.most, found.used) == ("lustre", 10 * MIB, 2 * MIB)
    asked = json.loads((standin / "lfs.json").read_text())["asked"]
    marked = next(words for words in asked if words[0] == "project" and "-s" in words)
    assert "-r" in marked and marked[-1] == "/mnt/lustre/data"
    assert quota.set_limit(here, 0) == ""
    assert quota.read_limit(here).most == 0


def test_weka_limits_the_folder(standin: Path, folder: int) -> None:
    here = place("wekafs", folder)
    assert quota.read_limit(here).most == 0
    quota.set_limit(here, 10 * MIB)
    assert quota.read_limit(here)[2:] == (10 * MIB, 4096)
    quota.set_limit(here, 0)
    assert quota.read_limit(here).most == 0
    quota.set_limit(here, 0)


def test_cephfs_is_told_by_an_attribute(standin: Path, folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "_CEPH", "user.ceph.quota.max_bytes")
    try:
        os.setxattr(f"/proc/self/fd/{folder}", "user.test", b"x")
    except OSError:
        pytest.skip("no extended attributes for temporary files here")
    here = place("ceph", folder)
    assert quota.read_limit(here).most == 0
    quota.set_limit(here, 10 * MIB)
    assert (quota.read_limit(here).means, quota.read_limit(here).most) == ("ceph", 10 * MIB)


@pytest.mark.parametrize(
    ("kind", "options", "why"),
    [
        ("nfs4", "rw", "set one on the server"),
        ("tmpfs", "rw", "tmpfs has no quotas for folders"),
        ("ext4", "rw", "ext4 at /mnt/lustre is mounted without prjquota"),
        ("lustre", "rw", "the command lfs is not installed"),
        ("wekafs", "rw", "the command weka is not installed"),
    ],
)
def test_what_cannot_be_held_is_said(
    folder: int, monkeypatch: pytest.MonkeyPatch, kind: str, options: str, why: str
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    here = place(kind, folder, options)
    assert why in quota.set_limit(here, MIB)
    assert why in quota.read_limit(here).unheld
    assert quota.set_limit(here, 0) == ""


def test_a_command_that_fails_is_refused_with_its_words(standin: Path, folder: int) -> None:
    (standin / "bin" / "lfs").write_text("#!/bin/sh\necho 'Permission denied' >&2; exit 1\n")
    with pytest.raises(FolderRefused, match="lfs: Permission denied"):
        quota.set_limit(place("lustre", folder), MIB)
    assert "Permission denied" in quota.read_limit(place("lustre", folder)).unheld
