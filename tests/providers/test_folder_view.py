"""Folders on a page, and files that come into them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from providers.machines.files import folder_view
from providers.machines.files.folder_listing import parse_listing


def opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def giving(*pieces: bytes) -> Callable[[int], bytes]:
    """Reads these, then the end."""
    left = list(pieces)
    return lambda size: left.pop(0) if left else b""


def test_the_first_by_name_are_kept_of_many(tmp_path: Path) -> None:
    for number in range(1200):
        os.close(os.open(tmp_path / f"f{number:06}", os.O_CREAT))
    folder = opened(tmp_path)
    found = parse_listing(folder_view.list_folder(folder, 300))
    os.close(folder)
    assert found.count == 1200 and len(found.entries) == 300
    assert found.entries[0].name == "f000000" and found.entries[-1].name == "f000299"


def test_what_does_not_come_whole_leaves_nothing(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    with pytest.raises(OSError, match="whole"):
        folder_view.receive_file(folder, b"new", 10, giving(b"half"))
    os.close(folder)
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_a_files_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"kept")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "new").symlink_to(tmp_path / "outside")
    folder = opened(inner)
    folder_view.receive_file(folder, b"new", 3, giving(b"a", b"bc"))
    os.close(folder)
    assert (tmp_path / "outside").read_bytes() == b"kept"
    assert (inner / "new").read_bytes() == b"abc" and not (inner / "new").is_symlink()


@pytest.mark.parametrize(
    "answer",
    [None, [], "x", {"entries": [], "count": None}, {"entries": [1], "count": 1},
     {"entries": [["zz", "file", 1, 1]], "count": 1}, {"entries": [["61", "door", 1, 1]], "count": 1},
     {"entries": [["61", ["file"], 1, 1]], "count": 1}, {"entries": [["61", "file", 1e400, 1]], "count": 1}],
)  # fmt: skip
def test_nonsense_is_told_as_such(answer: object) -> None:
    with pytest.raises(ValueError, match=r"list of files|hexadecimal"):
        parse_listing(answer)
