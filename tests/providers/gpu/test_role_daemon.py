"""Daemons that a profile keeps up (roles/mps) are those that sessions share; checked against a stand-in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from providers.gpu.node.daemon import MpsDaemon
from providers.gpu.shares import ShareHost, prepare, release
from tests.providers.gpu.standin import bin_
from tests.providers.gpu.test_mps import half

__all__ = ["bin_"]

GPU = "GPU-aaaa"
PROGRAM = Path(__file__).parents[3] / "roles/mps/files/mps_standing"


@pytest.fixture
def place(bin_: Path) -> ShareHost:
    (bin_ / "nvidia-smi").write_text(f"#!/bin/sh\necho {GPU}\n")
    (bin_ / "nvidia-smi").chmod(0o755)
    (bin_ / "mps").mkdir()
    return ShareHost(None, "docker", "n1", root=str(bin_ / "mps"))


def standing(place: ShareHost, verb: str) -> int:
    done = subprocess.run(
        ["sh", str(PROGRAM), verb, "0"], env={**os.environ, "BAI_MPS_ROOT": place.root}, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip
    return done.returncode


def pid(place: ShareHost) -> int:
    return MpsDaemon(Path(place.root) / GPU, GPU).pid()


def test_sessions_share_the_daemon_that_stands(place: ShareHost) -> None:
    assert standing(place, "check") == 1
    assert standing(place, "start") == 0
    running = pid(place)
    assert running
    assert standing(place, "start") == 0
    prepare(place, "one", half(GPU))
    assert pid(place) == running
    release(place, "one")
    assert pid(place) == running
    assert standing(place, "check") == 0


def test_one_that_need_not_stand_any_more_goes_with_its_last_session(place: ShareHost) -> None:
    assert standing(place, "start") == 0
    prepare(place, "one", half(GPU))
    assert standing(place, "stop") == 0
    assert pid(place)
    release(place, "one")
    assert pid(place) == 0
    assert standing(place, "start") == 0
    assert standing(place, "stop") == 0
    assert pid(place) == 0
