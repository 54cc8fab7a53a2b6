"""Many lives, each from one seed: 4 in the quick tests, 50 in `make test`, 450 more in `make campaigns`, and
as many as one likes by `make simulate SEEDS=10000`.

A life that fails prints its seed and its log: `Life(seed, ...)` repeats it exactly.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.store.store import Store
from tests.lab.postgres import Server
from tests.simulation.disk import Disk, FileDisk, ServerDisk
from tests.simulation.invariants import Violation
from tests.simulation.simulation import Life

SEEDS = int(os.environ.get("BAI_SIM_SEEDS", "500"))
QUICK_SEEDS = 4
"""Few, in which all comes up that the tests below ask for; the others are not left out of `make test`."""
ENOUGH = 10
"""So many others come upon it, too, whichever they are."""
USUAL_SEEDS = 50
CHUNK = 25
SERVER_SEEDS = 8
_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """In memory where there is such a place: thousands of commits need no disk here."""
    where = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="bai-simulation-", dir=where) as made:
        yield Path(made)


@pytest.fixture(scope="module")
def template(directory: Path) -> Path:
    path = directory / "template.db"
    Store.open(path).close()
    return path


def _chunks() -> list[object]:
    """The first ones are part of the quick tests."""
    borders = sorted({0, min(QUICK_SEEDS, SEEDS), *range(CHUNK, SEEDS, CHUNK), SEEDS})
    chunks = []
    for first, end in itertools.pairwise(borders):
        marks = pytest.mark.campaign if first >= USUAL_SEEDS else pytest.mark.slow
        chunks.append(pytest.param(range(first, end), marks=marks if first else (), id=f"{first}-{end - 1}"))
    return chunks


@pytest.mark.parametrize("seeds", _chunks())
def test_everything_ends_well(seeds: range, directory: Path, template: Path) -> None:
    disk = FileDisk(directory / f"{seeds[0]}.db")  # one engine for them all: it compiles each statement once
    lives = [live(seed, directory, template, disk) for seed in seeds]
    # Else comparing plans that are given again with those that are made anew would prove nothing.
    if len(seeds) >= ENOUGH or seeds == range(QUICK_SEEDS):
        assert sum(life.plans.reused for life in lives) > 0
        assert sum(life.offline.found for life in lives) > 0


@pytest.mark.parametrize("seeds", _chunks())
def test_services_end_well(seeds: range, directory: Path, template: Path) -> None:
    """And between, plans stay within the bounds of updates, whatever dies, fails or is lost."""
    disk = FileDisk(directory / f"services{seeds[0]}.db")
    lives = [live(seed, directory, template, disk, services=True) for seed in seeds]
    if len(seeds) >= ENOUGH or seeds == range(QUICK_SEEDS):
        said = "\n".join(line for life in lives for line in life.log)
        assert all(each in said for each in ("is complete", "is given up", "delete Session/p/web-"))


def live(
    seed: int, directory: Path, template: Path, disk: Disk | None = None, *, services: bool = False
) -> Life:
    life = Life(seed, directory, template, disk, services=services)
    try:
        life.live()
    except (Exception, Violation) as error:
        pytest.fail(f"seed {seed}: {type(error).__name__}: {error}\n" + "\n".join(life.log))
    finally:
        for left in directory.glob(f"{seed}.*"):
            left.unlink()
    return life


@pytest.mark.parametrize("seed", range(SERVER_SEEDS))
def test_everything_ends_well_on_a_server(
    seed: int, directory: Path, template: Path, postgres: Server
) -> None:
    url = postgres.database()
    disk = ServerDisk(url)
    try:
        live(seed, directory, template, disk)
    finally:
        disk.engine.dispose()
        postgres.drop(url)


def test_a_life_is_the_same_on_a_server(directory: Path, template: Path, postgres: Server) -> None:
    disks = (FileDisk(directory / "7.db"), ServerDisk(postgres.database()))
    logs = []
    for disk in disks:
        life = Life(7, directory, template, disk)
        life.live()
        logs.append(life.log)
        disk.engine.dispose()
        for left in directory.glob("7.*"):
            left.unlink()
    assert logs[0] == logs[1]


def test_a_life_repeats_exactly(directory: Path, template: Path) -> None:
    logs = []
    for _ in range(2):
        life = Life(7, directory, template)
        life.live()
        logs.append(life.log)
        for left in directory.glob("7.*"):
            left.unlink()
    assert logs[0] == logs[1]
