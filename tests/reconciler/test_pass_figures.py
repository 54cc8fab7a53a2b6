"""What a pass says in figures, and who writes it down."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from planner.model.types import DeviceGrant, KernelPlacement, Placement
from providers.base import Labels, Observed
from providers.fake import FakeProvider, VirtualClock, World
from reconciler.controller.figure_recorder import FigureRecorder
from reconciler.store.store import Store
from reconciler.values.figures.pass_figures import KINDS, pass_figures
from reconciler.values.figures.recorded import HOUR, MINUTE, FigureRow
from reconciler.values.figures.used import LONGEST, used_by_group
from reconciler.values.records import Consumption, Phase, Recorded, Sample
from reconciler.values.state import Actual, Existing
from reconciler.workspace.workspace import Workspace
from schemas.problems.errors.store import StoreError
from tests.reconciler.lab import BASE, NODE, new_store, session
from tests.reconciler.looped import Looped

FOR_EVER = 1e12
BEGIN = 1_800_000_000.0


@pytest.fixture
def looped(tmp_path: Path) -> Iterator[Looped]:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "base.yaml").write_text(BASE)
    (folder / "nodes.yaml").write_text("---".join(NODE.format(name=name) for name in ("n1", "n2")))
    state = tmp_path / "store.db"
    new_store(state).close()
    world = World(VirtualClock(BEGIN))
    workspace = Workspace.open(folder, state=state, clock=world.clock)
    workspace.provider = FakeProvider(world)
    made = Looped(workspace, world)
    yield made
    made.close()


def write(looped: Looped, name: str, gpus: int) -> None:
    text = session(name, f"resources: {{cpu: 1, cuda.device: {gpus}}}")
    (looped.workspace.source.directory / f"{name}.yaml").write_text(text)


def rows(looped: Looped, length: int = MINUTE) -> list[FigureRow]:
    return list(looped.workspace.store.figures("here", length, 0.0, FOR_EVER))


def test_a_loop_writes_what_a_pass_saw(looped: Looped) -> None:
    looped.loop.add_listener(FigureRecorder(looped.loop).record)
    for name, gpus in (("one", 1), ("two", 2), ("big", 2)):
        write(looped, name, gpus)
    looped.once()
    looped.once(300)
    whole, group = rows(looped)[-2:]
    assert (whole.group, whole.count) == ("", 1) and group.group == "default"
    assert whole.at == group.at == (BEGIN + 330) // 60 * 60
    assert whole.sums["sessions/RUNNING"] == 2 and whole.sums["sessions/PENDING"] == 1
    assert group.sums["sessions_running"] == 2
    assert (whole.sums["sessions_by_numa_nodes/1"], whole.sums["sessions_by_nodes/1"]) == (1, 2)
    assert (group.sums["capacity/cuda.device"], group.sums["allocated/cuda.device"]) == (4, 3)
    assert (group.sums["capacity/cpu"], group.sums["allocated/cpu"]) == (16_000, 2_000)
    assert (group.sums["fits/1 GPU"], group.sums["fits/2 GPUs"]) == (1, 0)
    assert (group.sums["queue_length"], group.sums["queue_reasons/no-capacity"]) == (1, 1)
    assert group.sums["queue_oldest_seconds/no-capacity"] == 300


def test_a_minute_is_written_once_and_an_hour_adds_them_up(looped: Looped) -> None:
    looped.loop.add_listener(FigureRecorder(looped.loop).record)
    write(looped, "one", 1)
    assert BEGIN % HOUR == 0
    for _ in range(119):
        looped.once(30)
    minutes = [each for each in rows(looped) if not each.group]
    assert len(minutes) == 60
    assert [each.at for each in minutes] == [BEGIN + 60 * at for at in range(60)]
    assert [each.count for each in rows(looped, HOUR)] == [60, 60]


def test_of_two_replicas_only_who_leads_writes(looped: Looped) -> None:
    recorder = FigureRecorder(looped.loop)
    leads = False
    looped.loop.leads = lambda: leads
    looped.loop.add_listener(recorder.record)
    looped.once()
    assert rows(looped) == []
    leads = True
    looped.once(1)
    assert len(rows(looped)) == 2


def test_two_loops_beside_one_file_write_a_minute_once(looped: Looped) -> None:
    write(looped, "one", 1)
    for _ in range(2):
        looped.loop.add_listener(FigureRecorder(looped.loop).record)
    for _ in range(4):
        looped.once(60)
    assert [each.count for each in rows(looped)] == [1] * 8
    assert {each.count for each in rows(looped, HOUR)} == {4}


def test_a_store_that_cannot_be_written_is_tried_again(
    looped: Looped, monkeypatch: pytest.MonkeyPatch
) -> None:
    looped.loop.add_listener(FigureRecorder(looped.loop).record)

    def refuse(*_: Any) -> None:
        raise StoreError(store="s", why="full")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "save_figures", refuse)
        looped.once(60)
    assert looped.good and rows(looped) == []
    looped.once(1)
    assert len(rows(looped)) == 2


def test_every_figure_is_of_a_known_kind(looped: Looped) -> None:
    for name, gpus in (("one", 1), ("big", 3)):
        write(looped, name, gpus)
    told: list[Any] = []
    looped.loop.add_listener(told.append)
    looped.once()
    looped.once()
    for each in pass_figures(told[-1].plan, told[-1].actual, looped.world.clock.now()):
        assert len(each.labels) == len(KINDS[each.name].labels)


# --- what is used


def part(name: str, cpu: int, *devices: int) -> KernelPlacement:
    grants = tuple(DeviceGrant(f"d{at}", "cuda.device", milli) for at, milli in enumerate(devices))
    return KernelPlacement(name, "n1", (), cpu, (0,), 2**30, grants)


def running(name: str, *parts: KernelPlacement, phase: Phase = "RUNNING") -> Existing:
    identity, now = f"Session/p/{name}", datetime.fromtimestamp(0, UTC)
    labels = {each.kernel: Labels("r", "here", identity, 1, "", each.kernel, "n1") for each in parts}
    kernels = tuple(Observed(f"{name}-{key}", found, "running", created=now) for key, found in labels.items())
    placement = Placement(identity, "g", parts)
    record = Recorded(identity, "here", 1, "", {}, phase=phase, placement=placement)
    return Existing(identity, record, phase, kernels)


def measured(at: float, cpu: float | None, busy: float = 0.0, gpus: float = 0.0) -> Sample:
    return Sample(at, total=Consumption(cpu=cpu, gpu_busy=busy, gpu_measured=gpus, until=at))


def actual(existing: list[Existing], **samples: tuple[Sample, ...]) -> Actual:
    return Actual(
        "r", "here", {each.id: each for each in existing},
        samples={name.replace("_", "-"): found for name, found in samples.items()},
    )  # fmt: skip


def test_what_is_used_is_told_of_what_was_measured_alone() -> None:
    both = running("a", part("main1", 4000, 1000, 1000), part("sub1", 2000))
    seen = actual(
        [both, running("b", part("main1", 8000, 1000))],
        a_main1=(measured(0, 0.0), measured(100, 40.0, 0, 0), measured(200, 240.0, 150.0, 200.0)),
    )
    assert used_by_group(seen, 200.0) == {
        ("g", "cpu"): (4000.0, 2000.0),
        ("g", "gpu"): (2000.0, 1500.0),
    }


@pytest.mark.parametrize(
    ("item", "found", "now"),
    [
        (running("a", part("main1", 1000)), (measured(0, 0.0), measured(60, 6.0)), 61 + LONGEST),
        (running("a", part("main1", 1000)), (measured(60, 6.0),), 60.0),
        (running("a", part("main1", 1000)), (measured(0, None), measured(60, None)), 60.0),
        (running("a", part("main1", 1000), phase="TERMINATED"), (measured(0, 0.0), measured(60, 6.0)), 60.0),
        (running("a", part("main1", 0, 500)), (measured(0, 0.0), measured(60, 6.0, 30.0, 60.0)), 60.0),
        (running("a", part("other", 1000)), (measured(0, 0.0), measured(60, 6.0)), 60.0),
    ],
)
def test_what_nobody_knows_now_is_not_told(item: Existing, found: tuple[Sample, ...], now: float) -> None:
    assert used_by_group(actual([item], a_main1=found), now) == {}
