"""What is kept of runs, and what is not taken away from those that go on."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from providers.ansible import artefacts
from providers.ansible.artefacts import RUNNER, new_run_folder, tidy_run_folder
from providers.ansible.secrets import Mask


def test_the_oldest_runs_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artefacts, "KEPT", 3)
    made = [named(new_run_folder(tmp_path, f"n{number}"), number) for number in range(5)]
    newest = new_run_folder(tmp_path, "newest")
    assert sorted(tmp_path.glob("runs/*")) == sorted([made[3], made[4], newest])


def test_a_long_run_among_many_short_ones_keeps_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver is built for an hour on one node while a hundred others are brought up."""
    monkeypatch.setattr(artefacts, "KEPT", 2)
    long = named(new_run_folder(tmp_path, "long"), 0)
    (long / RUNNER).mkdir()
    killed = named(new_run_folder(tmp_path, "killed"), 1)
    (killed / RUNNER).mkdir()
    ago = time.time() - 2 * 24 * 3600
    os.utime(killed / RUNNER, (ago, ago))
    for number in range(2, 6):
        named(new_run_folder(tmp_path, "short"), number)
    assert (long / RUNNER).is_dir() and not killed.exists()
    tidy_run_folder(long, Mask(()))
    new_run_folder(tmp_path, "short")
    assert not long.exists()


def named(folder: Path, number: int) -> Path:
    """As if it had been made at another second: names tell the order."""
    return folder.rename(folder.with_name(f"20260101-00000{number}-{folder.name.split('-', 2)[2]}"))
