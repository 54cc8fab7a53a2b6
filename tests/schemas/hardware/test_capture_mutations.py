"""Captures of machines by chance, mutated on their way: what is read is so, or it is refused in words."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from schemas.hardware.importers import UnreadableCapture, import_captures
from tests.schemas.hardware.captured_machines import KEEPING, Captured, make_captured, untruths

DATA = Path(__file__).parents[2] / "data/topology"
FEW, MANY = 200, int(os.environ.get("BAI_CAPTURES", "10000"))
SECONDS = 5.0
"""Of processor time for one answer, where an honest one takes a few thousandths."""


@contextmanager
def limited(what: str) -> Iterator[None]:
    def give_up(number: int, frame: object) -> None:
        raise AssertionError(f"{what} takes more than {SECONDS:g} s")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def wrong_with(captured: Captured, what: str) -> list[str]:
    try:
        with limited(what):
            found = import_captures([text.encode() for text in captured.texts])
    except UnreadableCapture as error:
        return [f"refused: {error}"] if captured.whole or not str(error) else []
    return untruths(found, captured)


def failures(seeds: range) -> dict[int, object]:
    """By seed, for a message that can be read."""
    found = {}
    for seed in seeds:
        captured = make_captured(random.Random(seed))
        if wrong := wrong_with(captured, f"seed {seed}"):
            found[seed] = (captured.tools, captured.ways, len(captured.texts), wrong[:3])
    return found


def test_what_is_read_of_a_mutated_capture_is_so() -> None:
    assert failures(range(FEW)) == {}


@pytest.mark.campaign
@pytest.mark.timeout(0)
def test_what_is_read_of_many_is_so() -> None:
    assert failures(range(FEW, FEW + MANY)) == {}


def test_each_tool_and_each_way_is_tried() -> None:
    made = [make_captured(random.Random(seed)) for seed in range(FEW)]
    assert len({tool for each in made for tool in each.tools}) == 4
    assert len({way for each in made for way in each.ways}) == 13
    assert any(each.machine.nics == 40 and len(each.machine.gpus) == 8 for each in made)
    assert any(len(each.machine.cpus) == 8 and each.machine.offline for each in made)


def test_what_is_not_so_is_found() -> None:
    captured = next(
        each for seed in range(FEW)
        if (each := make_captured(random.Random(seed))).whole and "numactl -H" in each.tools
        and len(each.machine.cpus) > 1
    )  # fmt: skip
    found = import_captures([text.encode() for text in captured.texts])
    assert untruths(found, captured) == []
    first, *others = found.numa_nodes
    other = first.model_copy(update={"cpus": first.cpus[1:], "memory": 1})
    changed = found.model_copy(update={"numa_nodes": (other, *others), "offline_cpus": (first.cpus[1],)})
    assert len(untruths(changed, captured)) == 3


@pytest.mark.parametrize("way", KEEPING)
@pytest.mark.parametrize(
    "folder", ["nvidia-smi-topo", "lscpu", "numactl", "machine-reports", "nvidia-smi-captures"]
)
def test_real_captures_say_the_same_on_each_way(folder: str, way: str) -> None:
    for path in sorted((DATA / folder).glob("*")):
        if path.name != "ORIGIN.txt":
            text = path.read_text(errors="replace")
            mutated = KEEPING[way](text, random.Random(0))
            assert import_captures([mutated.encode()]) == import_captures([text.encode()]), path
