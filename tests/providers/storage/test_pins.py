"""Folders held in place for engines: the very folder, where only root gets, and never a file less."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.base import Mount
from providers.storage import pins
from providers.storage.node import pins as node_pins
from providers.storage.node.mounts import read_mounts

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
KERNEL = "s-main1-0-g1"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where pins are, moved to a place of this test's."""
    folder = tmp_path / "bai" / "mounts"
    monkeypatch.setattr(pins, "PLACE", str(folder))
    yield folder
    for each in reversed(below(tmp_path)):
        subprocess.run(["umount", "--lazy", each], check=False)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "disk" / "p" / "data"
    for name in ("work", "other"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text(name)
    return folder


def sub(volume: Path, path: str) -> Mount:
    root = volume.parents[1]
    return Mount(str(volume / path), "/data", root=str(root), sub_path=path)


def below(folder: Path) -> list[str]:
    return [each.point for each in read_mounts() if each.point.startswith(f"{folder}/")]


def held(volume: Path, *paths: str) -> list[Path]:
    sources, why = pins.pin_mounts(None, KERNEL, [sub(volume, path) for path in paths])
    assert why == ""
    return [Path(source) for source in sources]


def test_it_is_the_very_folder_whatever_takes_its_place(place: Path, volume: Path, tmp_path: Path) -> None:
    one, two = held(volume, "work", "other")
    (volume / "work").rename(volume / "aside")
    (volume / "work").symlink_to("/etc")
    assert (one / "file").read_text() == "work" and (two / "file").read_text() == "other"
    (one / "new").touch()
    assert (volume / "aside" / "new").exists()
    assert place.stat().st_mode & 0o777 == 0o700


def test_letting_go_leaves_every_file_and_nothing_else(place: Path, volume: Path, tmp_path: Path) -> None:
    held(volume, "work", "other")
    assert pins.unpin_mounts(None, KERNEL) == "" == pins.unpin_mounts(None, KERNEL)
    assert not place.parent.exists() and below(tmp_path) == []
    assert [(volume / name / "file").read_text() for name in ("work", "other")] == ["work", "other"]


def test_what_another_kernel_has_stays(place: Path, volume: Path) -> None:
    held(volume, "work")
    [other], _ = pins.pin_mounts(None, "t-main1-0-g1", [sub(volume, "other")])
    assert pins.unpin_mounts(None, KERNEL) == ""
    assert os.listdir(place) == ["t-main1-0-g1"] and Path(other, "file").exists()


def test_holding_anew_takes_the_place_of_what_was_held(place: Path, volume: Path, tmp_path: Path) -> None:
    held(volume, "work")
    [now] = held(volume, "other")
    assert (now / "file").read_text() == "other"
    assert len(below(place)) == 2


def test_mounts_stacked_by_somebody_all_go(place: Path, volume: Path, tmp_path: Path) -> None:
    held(volume, "work")
    subprocess.run(["mount", "--bind", str(volume / "other"), str(place / KERNEL)], check=True)
    assert pins.unpin_mounts(None, KERNEL) == ""
    assert below(tmp_path) == [] and (volume / "other" / "file").exists()


def test_what_cannot_be_unmounted_is_not_removed(
    place: Path, volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep that takes a mount for a folder would delete a volume."""
    held(volume, "work")
    monkeypatch.setattr(node_pins, "_unmount", lambda at: False)
    assert "busy" in pins.unpin_mounts(None, KERNEL)
    assert (volume / "work" / "file").exists() and (place / KERNEL / "0" / "file").exists()


def test_files_where_pins_would_be_are_not_removed(place: Path, volume: Path) -> None:
    (place / KERNEL).mkdir(parents=True)
    (place / KERNEL / "file").touch()
    assert "not empty" in pins.unpin_mounts(None, KERNEL)
    assert (place / KERNEL / "file").exists()


def test_a_link_is_refused_and_nothing_stays(place: Path, volume: Path, tmp_path: Path) -> None:
    (volume / "way").symlink_to(tmp_path)
    sources, why = pins.pin_mounts(None, KERNEL, [sub(volume, "work"), sub(volume, "way/disk")])
    assert sources == [] and why == "p/data/way is a link (links are not followed)"
    assert not place.exists() and below(tmp_path) == []


@pytest.mark.parametrize("name", ["..", "a/b", "/etc", ""])
def test_only_kernels_have_a_place(place: Path, volume: Path, name: str) -> None:
    assert pins.pin_mounts(None, name, [sub(volume, "work")])[1]
    assert pins.unpin_mounts(None, name)


def test_nobody_writes_beside_what_is_held(place: Path, volume: Path) -> None:
    held(volume, "work")
    with pytest.raises(OSError, match="Read-only"):
        (place / KERNEL / "x").touch()


def test_what_is_mounted_inside_comes_along_and_stays_mounted(
    place: Path, volume: Path, tmp_path: Path
) -> None:
    """Mounts of a real machine are shared: unmounting a copy with what is below would unmount that itself."""
    disk = str(tmp_path / "disk")
    subprocess.run(["mount", "--bind", disk, disk], check=True)
    subprocess.run(["mount", "--make-shared", disk], check=True)
    (volume / "work" / "deep").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "deep", str(volume / "work" / "deep")], check=True)
    (volume / "work" / "deep" / "file").touch()
    [at] = held(volume, "work")
    assert (at / "deep" / "file").exists()
    assert pins.unpin_mounts(None, KERNEL) == ""
    assert (volume / "work" / "deep" / "file").exists()


def test_who_is_not_root_is_told(place: Path, volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*words: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(node_pins, "_mount", refused)
    assert pins.pin_mounts(None, KERNEL, [sub(volume, "work")]) == (
        [],
        "only root can hold its folder in place",
    )
    assert not place.exists()
