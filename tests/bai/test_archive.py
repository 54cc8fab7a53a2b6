"""What bai cp packs and unpacks: nothing lands outside of the target, whoever made the archive."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bai.cli.sessions.archive import TransferCount, pack, unpack
from schemas.problems.errors.command import CommandError

pytestmark = pytest.mark.skipif(
    not hasattr(tarfile, "data_filter"), reason="this Python cannot unpack archives safely (3.11.4 can)"
)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, link, mode
    return made


def archive(*members: tarfile.TarInfo, content: bytes = b"evil") -> Iterator[bytes]:
    """In small pieces, as a network brings them."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as stream:
        for one in members:
            one.size = len(content) if one.isreg() else 0
            stream.addfile(one, io.BytesIO(content))
    data = made.getvalue()
    return (data[at : at + 700] for at in range(0, len(data), 700))


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_tree_comes_back_as_it_was(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "file").write_bytes(b"x" * 1_000_000)
    (source / "sub" / "run").write_text("#!/bin/sh\n")
    (source / "sub" / "run").chmod(0o775)
    (source / "link").symlink_to("sub/file")
    os.link(source / "sub" / "run", source / "same")
    (source / "sub").chmod(0o550)
    sent = TransferCount()
    done = unpack(pack(source, "source", sent), tmp_path / "copy")
    copy = tmp_path / "copy"
    assert everything(copy) == everything(source)
    assert (copy / "sub" / "run").stat().st_mode & 0o777 == 0o775
    assert (copy / "sub").stat().st_mode & 0o777 == 0o550
    assert (copy / "link").read_bytes() == b"x" * 1_000_000
    assert (copy / "same").stat().st_ino == (copy / "sub" / "run").stat().st_ino
    assert sent.files == done.files == 4 and done.left_out == []


def test_where_things_land(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    file = tmp_path / "f"
    file.write_text("text")
    unpack(pack(file, "f", TransferCount()), tmp_path / "there")
    unpack(pack(file, "f", TransferCount()), tmp_path / "renamed")
    unpack(pack(file, "f", TransferCount()), tmp_path / "renamed")
    unpack(pack(tmp_path / "there", ".", TransferCount()), tmp_path / "fresh")
    found = everything(tmp_path)
    assert {"there/f", "renamed", "fresh/f"} <= found and "fresh/there" not in found


EVIL: dict[str, Callable[[], list[tarfile.TarInfo]]] = {
    "absolute": lambda: [member("/tmp/bai-evil")],
    "above": lambda: [member("../evil")],
    "within": lambda: [member("d", tarfile.DIRTYPE, mode=0o755), member("d/../../evil")],
    "link": lambda: [member("out", tarfile.SYMTYPE, ".."), member("out/evil")],
    "long link": lambda: [
        member("a", tarfile.DIRTYPE, mode=0o755),
        member("a/b", tarfile.SYMTYPE, "../.."),
        member("a/b/evil"),
    ],
    "absolute link": lambda: [member("out", tarfile.SYMTYPE, "/tmp"), member("out/bai-evil")],
    "hard link": lambda: [member("own", tarfile.LNKTYPE, "../precious")],
    "device": lambda: [member("null", tarfile.CHRTYPE)],
    "pipe": lambda: [member("pipe", tarfile.FIFOTYPE)],
}


@pytest.mark.parametrize("rename", [False, True])
@pytest.mark.parametrize("name", EVIL)
def test_no_trick_leads_out(tmp_path: Path, name: str, rename: bool) -> None:
    base = tmp_path / "base"
    target = base / "target"
    target.mkdir(parents=True)
    (base / "precious").write_text("precious")
    (target / "evil-twin").symlink_to(base / "precious")
    members = [member("top", tarfile.DIRTYPE, mode=0o755)] if rename else []
    for one in EVIL[name]():
        one.name = f"top/{one.name}" if rename and not one.name.startswith("/") else one.name
        members.append(one)
    members.append(member("top/good" if rename else "good"))
    done = unpack(archive(*members), target / "new" if rename else target)
    assert done.left_out
    assert {path for path in everything(base) if not path.startswith("target/")} == {"precious", "target"}
    assert (target / ("new/good" if rename else "good")).read_text() == "evil"
    assert (base / "precious").read_text() == "precious"
    assert (base / "precious").stat().st_nlink == 1
    assert not Path("/tmp/bai-evil").exists()


def test_a_link_that_was_there_is_not_written_through(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / "precious").write_text("precious")
    (target / "file").symlink_to(tmp_path / "precious")
    done = unpack(archive(member("file")), target)
    assert done.left_out and (tmp_path / "precious").read_text() == "precious"


def test_set_user_id_is_never_given(tmp_path: Path) -> None:
    unpack(archive(member("f", mode=0o6755)), tmp_path)
    assert (tmp_path / "f").stat().st_mode & 0o7777 == 0o755


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a", "b", "..", ".", ""]), st.booleans()), min_size=1, max_size=6))
def test_whatever_the_names_only_the_target_changes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, bool]]
) -> None:
    base = tmp_path_factory.mktemp("base")
    target = base / "x" / "target"
    target.mkdir(parents=True)
    members = []
    path = ""
    for part, link in steps:
        path = f"{path}/{part}" if path else part or "."
        members.append(
            member(path, tarfile.SYMTYPE, "../..") if link else member(path, tarfile.DIRTYPE, mode=0o755)
        )
        members.append(member(f"{path}/f"))
    with contextlib.suppress(CommandError, OSError):
        unpack(archive(*members), target)
    assert {path for path in everything(base) if not path.startswith("x/target")} == {"x"}


def test_what_is_no_archive_is_said(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="archive"):
        unpack(iter([b"no archive" * 1000]), tmp_path)
    half = b"".join(archive(member("f"), content=b"x" * 50_000))[:20_000]
    with pytest.raises(CommandError, match="archive"):
        unpack(iter([half]), tmp_path)


def test_what_cannot_be_read_is_raised(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(pack(tmp_path / "none", "none", TransferCount()))


def test_who_stops_reading_stops_the_packing(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 5_000_000)
    stream = pack(tmp_path / "big", "big", TransferCount())
    next(stream)
    stream.close()  # type: ignore[attr-defined]
