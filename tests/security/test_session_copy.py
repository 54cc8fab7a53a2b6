"""A session whose files somebody copies to his own machine (`bai cp`), and who wants to write there."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from bai.cli.sessions.archive import unpack

pytestmark = pytest.mark.skipif(
    not hasattr(tarfile, "data_filter"), reason="this Python cannot unpack archives safely (3.11.4 can)"
)
MARK = b"from the session"
LONG = "d" * 247


def archive(*members: tuple[str, bytes, str]) -> bytes:
    """Name, type and where it links to of each; files hold `MARK`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, link in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode = kind, link, 0o755
            member.size = len(MARK) if kind == tarfile.REGTYPE else 0
            tar.addfile(member, io.BytesIO(MARK) if member.size else None)
    return packed.getvalue()


def too_long() -> list[tuple[str, bytes, str]]:
    """A link that leads out by a path longer than the system takes, which Python up to 3.11.12 does not see
    (CVE-2025-4517)."""
    found: list[tuple[str, bytes, str]] = [(".", tarfile.DIRTYPE, "")]
    here = ""
    for step in "abcdefghijklmnop":
        found += [(f"{here}{LONG}", tarfile.DIRTYPE, ""), (f"{here}{step}", tarfile.SYMTYPE, LONG)]
        here += f"{LONG}/"
    up = "/".join("abcdefghijklmnop") + "/" + "l" * 254
    return [*found, (up, tarfile.SYMTYPE, "../" * 16), ("escape", tarfile.SYMTYPE, f"{up}/../victim")]


FILE, LINK, HARD = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


@pytest.mark.parametrize(
    "members",
    [
        [("escape/file", FILE, ""), ("link", HARD, "escape/file"), ("link", FILE, "")],
        [("./escape//file", FILE, "")],
        [("link", LINK, "escape/file"), ("link", FILE, "")],
        [("Link", LINK, "escape/file"), ("link", FILE, "")],
        [("link", HARD, "escape"), ("link/file", FILE, "")],
    ],
)
def test_links_of_an_archive_lead_nowhere(tmp_path: Path, members: list[tuple[str, bytes, str]]) -> None:
    for name in ("into", "victim"):
        (tmp_path / name).mkdir()
    (tmp_path / "victim" / "file").write_text("mine")
    unpack(iter([archive(*too_long(), *members)]), tmp_path / "into")
    assert (tmp_path / "victim" / "file").read_text() == "mine"
    assert sorted(each.name for each in (tmp_path / "victim").iterdir()) == ["file"]


def test_links_of_a_folder_are_copied_as_they_are(tmp_path: Path) -> None:
    members = [("d", tarfile.DIRTYPE, ""), ("d/f", FILE, ""), ("d/l", LINK, "f"), ("d/h", HARD, "d/f")]
    assert unpack(iter([archive(*members)]), tmp_path).left_out == []
    assert (tmp_path / "d/l").readlink() == Path("f")
    assert (tmp_path / "d/h").read_bytes() == (tmp_path / "d/l").read_bytes() == MARK
