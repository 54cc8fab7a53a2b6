"""Volumes under kills: whatever is changed and wherever an apply dies, no file is ever lost or doubled."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.storage.base import TrashedVolume, VolumeFolder
from providers.storage.nodes import NodeStorage
from tests.harness.examples import seeds
from tests.reconciler.lab import session, summary
from tests.reconciler.test_volumes import VolumeLab, volume

SEEDS, QUICK_SEEDS = 12, 5
ROUNDS = 6


class Mortal(NodeStorage):
    """Dies before or after its n-th effect; never, with 0."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(lambda name: None)
        self.left, self.late = chance.randint(0, 3), chance.random() < 0.5

    def make(self, folder: VolumeFolder) -> None:
        self._die(late=False)
        super().make(folder)
        self._die(late=True)

    def trash(self, folder: VolumeFolder, record: TrashedVolume) -> None:
        self._die(late=False)
        super().trash(folder, record)
        self._die(late=True)

    def _die(self, *, late: bool) -> None:
        if late == self.late and self.left:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[VolumeLab]:
    made = VolumeLab(tmp_path)
    yield made
    made.store.close()


def rewrite(lab: VolumeLab, chance: random.Random) -> None:
    """Other documents than before, valid ones."""
    there = [name for name in ("a", "b") if chance.random() < 0.6]
    for name in ("a", "b"):
        (lab.folder / f"{name}.yaml").unlink(missing_ok=True)
        if name in there:
            lab.write({name: volume(name, f'mode: "{chance.choice(("0700", "0755"))}"')})
    (lab.folder / "s.yaml").unlink(missing_ok=True)
    if chance.random() < 0.6:
        mounts = ", ".join(f"{{volume: {name}, path: /{name}}}" for name in there if chance.random() < 0.7)
        lab.write({"s": session("s", f"mounts: [{mounts}]")})


def marked(lab: VolumeLab, marks: list[str]) -> None:
    """A file of its own in every folder that has none yet."""
    for name in ("a", "b"):
        folder = lab.root / "p" / name
        if folder.is_dir() and not list(folder.iterdir()):
            marks.append(f"mark-{len(marks)}")
            (folder / marks[-1]).write_text(name)


def files(lab: VolumeLab) -> list[str]:
    return sorted(path.name for path in lab.root.rglob("mark-*"))


@pytest.mark.parametrize("seed", seeds(QUICK_SEEDS, count=SEEDS, beyond=pytest.mark.slow))
def test_nothing_is_lost(lab: VolumeLab, seed: int) -> None:
    chance = random.Random(seed)
    marks: list[str] = []
    for _ in range(ROUNDS):
        rewrite(lab, chance)
        lab.storage = Mortal(chance)
        try:
            lab.apply()
        except KeyboardInterrupt:
            assert files(lab) == sorted(marks)
        marked(lab, marks)
    lab.storage = NodeStorage(lambda name: None)
    for _ in range(3):
        lab.apply()
    assert summary(lab.plan()) == {}
    marked(lab, marks)
    assert files(lab) == sorted(marks)
    wanted = {name for name in ("a", "b") if (lab.folder / f"{name}.yaml").exists()}
    assert {path.name for path in (lab.root / "p").glob("*")} == wanted
    places = [entry.volume for entry in lab.trashed()]
    assert len(places) == len(list((lab.root / ".bai-trash").glob("*"))), "no entry is left half made"
