"""The locality benchmark: its figures, its oracle, and that the oracle notices what is not best."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import locality
from benchmarks.locality_optimum import Ask, Machine
from planner.model.topology import Topology
from planner.model.types import DeviceGrant, KernelPlacement, NumaPart, SessionRequest

DATA = Path(__file__).parents[1] / "data" / "topology"


def test_the_command_reads_a_folder_and_finds_every_optimum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, result = tmp_path / "captures", tmp_path / "result.json"
    (folder / "deep").mkdir(parents=True)
    for number, kind in enumerate(("nccl-xml", "numactl", "nvidia-smi-topo")):
        path = next(one for one in sorted((DATA / kind).iterdir()) if "ORIGIN" not in one.name)
        (folder / "deep" / f"{number}-{path.name}").write_bytes(path.read_bytes())
    (folder / "notes.txt").write_text("no capture")
    arguments = ["--topologies", str(folder), "--json", str(result), "--requests", "25"]
    assert locality.main(arguments) == 0
    found = json.loads(result.read_text())
    assert len(found["optimal_share"]) == 7 and found["missed"] == 0 and not found["misses"]
    assert {share for loads in found["optimal_share"].values() for share in loads.values()} == {1.0}
    assert list(found["refused"]) == ["notes.txt"]
    assert all(sum(found["requests"][f"{n} NUMA nodes"].values()) > 30 for n in (1, 2, 4, 8))
    assert "0 without the optimum; 1 files refused" in capsys.readouterr().out


def test_bad_arguments_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["--topologies", str(tmp_path / "none")], ["--requests", "0"]):
        with pytest.raises(SystemExit):
            locality.main(wrong)
    assert "is no folder" in capsys.readouterr().err
    assert locality.main(["--requests", "1", "--json", str(tmp_path / "no" / "x.json")]) == 1


class Swapped(locality.Planner):
    """Gives the last free GPU in place of the chosen one, as a planner that does not look at nodes would."""

    machine: Machine

    def place(self, session: SessionRequest) -> KernelPlacement | None:
        placed = super().place(session)
        if placed is None or len(placed.devices) != 1 or placed.devices[0].milli != 1000:
            return placed
        assert self.machine.family is not None
        ids = self.machine.family.ids
        last = max(at for at, left in enumerate(self.machine.free) if left == 1000)
        moved = replace(placed, devices=(DeviceGrant(ids[last], "cuda.device"),))
        at = self.table.index["machine"]
        self.table.release({session.id})
        self.table.restore(at, session.id, moved)
        return moved


def test_a_planner_that_ignores_numa_is_found_out() -> None:
    planner = Swapped(locality.synthetic(4))
    machine = planner.machine = Machine(planner.table.topologies[0])
    count = locality.churn(machine, planner, 75, 150, random.Random(1))
    assert count.misses and count.optimal < count.requests


def test_the_oracle_on_a_case_that_a_person_can_check() -> None:
    """Two NUMA nodes with four GPUs each, linked in pairs: 0-1, 2-3, 4-5, 6-7."""
    machine = Machine(Topology(locality.synthetic(2)))
    pair = machine.optimum(Ask(2, 0, whole=2))
    assert pair is not None and pair[:2] == (1, 0) and pair[2] < 0
    assert machine.optimum(Ask(49, 0)) == (2, 12, 0)
    assert machine.optimum(Ask(97, 0)) is None and machine.optimum(Ask(1, 0, whole=9)) is None
    for at in (0, 2, 4):
        placed = KernelPlacement(
            "k",
            "n",
            (at,),
            1000,
            (0,),
            0,
            (DeviceGrant(f"GPU-{at}", "cuda.device"),),
            parts=(NumaPart(0, 1000, 0),),
        )
        machine.change(placed, -1)
    assert machine.optimum(Ask(1, 0, whole=3)) == (1, 0, pair[2] + 2 * (1 << 24))
    assert machine.optimum(Ask(1, 0, whole=2)) == pair
    assert machine.optimum(Ask(1, 0, milli=5500)) is None
