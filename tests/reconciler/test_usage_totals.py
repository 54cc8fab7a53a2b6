"""Hours that were held: against a second computation that counts moment by moment, and in lived lives."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from pathlib import Path

import pytest

from planner.model.types import DeviceGrant, KernelPlacement, Placement
from reconciler.store.store import Store
from reconciler.values.accounting import account_changes
from reconciler.values.records import HOLDING, Allocation, Holdings, PutRecord, Recorded
from reconciler.values.usage.totals import By, HeldTotal, Period, held_allocations, held_totals, key_of
from tests.harness.examples import seeds
from tests.reconciler.lab import BASE, Lab, new_store, session
from tests.reconciler.test_life import begun, refresh

NAMES = ("Session/a/x", "Session/a/y", "Session/b/x")
SLOTS = (("cuda.device", 1000), ("cuda.shares", 250), ("cuda.mig.1g.10gb", 1000), ("cuda.mig.1g.6gb", 1000))
PARTS = {"cuda.mig.1g.10gb": 7, "cuda.mig.1g.6gb": 4}


def placed(cpu: int, slot: tuple[str, int], count: int) -> Placement:
    grants = tuple(DeviceGrant(f"d{at}", *slot) for at in range(count))
    return Placement("s", "g", (KernelPlacement("main1", "n1", (), cpu, (0,), 2**30, grants),))


class World:
    """Sessions that start, are resized, end, go on after all, start anew and are pushed out; beside the
    records a count of what they hold at each second."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.lease = store.acquire("here", "me", 1e9, 0.0)
        self.now = 0
        self.records: dict[str, Recorded] = {}
        self.cpu: Counter[tuple[str, int]] = Counter()
        self.gpu: Counter[tuple[str, int]] = Counter()
        """Of 28 parts of a thousandth: sevenths and quarters are whole."""

    def pass_time(self, seconds: int) -> None:
        for second in range(self.now, self.now + seconds):
            for name, record in self.records.items():
                if record.phase in HOLDING and record.started_at is not None and record.placement:
                    for part in record.placement.kernels:
                        self.cpu[name, second] += part.cpu_milli
                        for grant in part.devices:
                            self.gpu[name, second] += grant.milli * 28 // PARTS.get(grant.slot, 1)
        self.now += seconds

    def put(self, name: str, **changes: object) -> None:
        old = self.records.get(name)
        base = old or Recorded(name, "here", 0, "", {"spec": {"owner": f"of-{name[-1]}"}})
        new: Recorded = dataclasses.replace(base, **changes)  # type: ignore[arg-type]
        held = account_changes(old, new, float(self.now))
        self.store.write(self.lease, [*held, PutRecord(new)])
        self.records[name] = new


WHATS = ("start", "start", "start", "resize", "end", "go on", "push out", "stop", "place")


def step(world: World, name: str, what: str, placement: Placement) -> None:
    record = world.records.get(name)
    now, generation = float(world.now), record.generation if record else 0
    holds = record is not None and record.phase in HOLDING
    if what == "start":
        world.put(
            name,
            generation=generation + 1,
            phase="RUNNING",
            started_at=now,
            finished_at=None,
            placement=placement,
        )
    elif what == "place":
        world.put(
            name, generation=generation + 1, phase="CREATING", started_at=None, finished_at=None,
            placement=placement,
        )  # fmt: skip
    elif what == "resize" and holds:
        world.put(name, placement=placement)
    elif what == "end" and holds:
        world.put(name, phase="TERMINATED", finished_at=now)
    elif what == "go on" and record is not None and record.phase == "TERMINATED":
        # It was thought to have ended and has held all the time: what lies between counts from now on.
        world.put(name, phase="RUNNING", finished_at=None)
    elif what == "push out" and holds:
        world.put(name, generation=generation + 1, phase="PENDING", started_at=None, placement=None)
    elif what == "stop" and holds:
        world.put(name, phase="TERMINATING")


@pytest.mark.parametrize("seed", seeds(20, count=60, beyond=pytest.mark.campaign))
def test_hours_are_those_of_every_second(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    world = World(new_store(tmp_path / "store.db"))
    # Seconds of those that went on after all count from then on, and the second count knows nothing of them.
    goes_on = seed % 4 == 0
    for _ in range(chance.randint(5, 40)):
        what = chance.choice(WHATS if goes_on else [each for each in WHATS if each != "go on"])
        placement = placed(chance.choice([500, 1000, 8000]), chance.choice(SLOTS), chance.randint(0, 3))
        step(world, chance.choice(NAMES), what, placement)
        world.pass_time(chance.randint(0, 50))
    since = chance.randint(-10, world.now)
    period = Period(float(since), float(since + chance.randint(1, 600)))
    for by in ("project", "user", "session", "project-user"):
        said = reported(world, period, by)
        wanted = counted(world, period, by)
        if goes_on:
            assert all(said[key][0] >= cpu for key, (cpu, _) in wanted.items())
            continue
        assert {key: cpu for key, (cpu, _) in said.items()} == {key: cpu for key, (cpu, _) in wanted.items()}
        for key, (_, gpu) in wanted.items():
            # Parts of GPUs are rounded down, each time by less than a thousandth for a millisecond.
            assert gpu / 28 - 1000 <= said[key][1] <= gpu / 28


def reported(world: World, period: Period, by: By) -> dict[str, tuple[int, int]]:
    holdings = world.store.holdings("here", period.since, period.until)
    held = held_allocations(holdings, float(world.now))
    return {key: (each.cpu, each.gpu) for key, each in held_totals(held, period, key_of(by, str)).items()}


def counted(world: World, period: Period, by: By) -> dict[str, tuple[int, int]]:
    """The second computation: every second of every session by itself."""
    found: dict[str, tuple[int, int]] = {}
    for (name, second), cpu in world.cpu.items():
        if period.since <= second < period.until:
            key = key_name(by, name)
            before = found.get(key, (0, 0))
            found[key] = (before[0] + cpu * 1000, before[1] + world.gpu[name, second] * 1000)
    return found


def key_name(by: str, name: str) -> str:
    project, user = name.split("/")[1], f"of-{name[-1]}"
    return {"project": project, "user": user, "session": name, "project-user": f"{project}/{user}"}[by]


def test_nothing_counts_twice_where_a_session_goes_on_after_all(tmp_path: Path) -> None:
    world = World(new_store(tmp_path / "store.db"))
    step(world, NAMES[0], "start", placed(1000, SLOTS[0], 1))
    for what in ("end", "go on", "end"):
        world.pass_time(10)
        step(world, NAMES[0], what, placed(1000, SLOTS[0], 1))
    holdings = world.store.holdings("here", 0.0, 1e9)
    assert [(each.started, each.ended) for each in holdings.ended] == [(0.0, 10.0), (10.0, 30.0)]


def test_times_that_have_not_come_count_for_nothing() -> None:
    held = Allocation("Session/a/x", 1, "", 10.0, 10.0, 2e9, 1000, 1)
    soon = dataclasses.replace(held, session="Session/a/y", ended=120.0)
    found = list(held_allocations(Holdings((held, soon), {}), 100.0))
    assert [(each.session, each.ended) for each in found] == [("Session/a/y", 100.0)]


def allocations(lab: Lab) -> list[Allocation]:
    return list(held_allocations(lab.store.holdings("here", 0.0, 1e12), lab.world.clock.now()))


def total(lab: Lab, since: float = 0.0, until: float = 1e12) -> HeldTotal:
    found = held_totals(allocations(lab), Period(since, until), key_of("project", str))
    return found.get("p", HeldTotal())


def hours(seconds: float, milli: int) -> int:
    return round(seconds * 1000) * milli


def test_a_life_with_everything_in_it(tmp_path: Path) -> None:
    """Through the real planner and apply: queued, run, resized, replaced, pushed out, run again, deleted."""
    lab = Lab(tmp_path)
    rules = "spec: {preemption: {mode: priority, minimumRunTime: 0s}}"
    lab.write({"base": BASE.replace("spec: {}", rules, 1)})
    start = lab.world.clock.now()
    low = "priority: 1, preemptible: true, resources: {cpu: 2, memory: 1GiB, cuda.device: 2}"
    lab.write({"low": session("low", low)})
    lab.converge()
    lab.world.clock.sleep(100)
    assert (total(lab).cpu, total(lab).gpu) == (hours(100, 2000), hours(100, 2000))
    lab.write({"low": session("low", low.replace("cpu: 2", "cpu: 3"))})
    lab.converge()
    lab.world.clock.sleep(50)
    assert total(lab).cpu == hours(100, 2000) + hours(50, 3000)
    assert total(lab).gpu == hours(150, 2000) and len(total(lab).starts) == 1
    lab.write({"high": session("high", "resources: {cpu: 1, memory: 1GiB, cuda.device: 2}")})
    lab.converge()
    lab.world.clock.sleep(1000)
    assert total(lab).gpu == hours(1150, 2000) and len(total(lab).sessions) == 2
    lab.drop("high")
    lab.converge()
    lab.converge()
    lab.world.clock.sleep(10)
    lab.write({"low": session("low", low.replace("cpu: 2", "cpu: 3") + ", env: {A: b}")})
    lab.converge()
    lab.world.clock.sleep(10)
    lab.drop("low")
    lab.converge()
    lab.world.clock.sleep(10_000)
    assert total(lab).gpu == hours(1170, 2000) and len(total(lab).starts) == 4
    assert total(lab).cpu == hours(100, 2000) + hours(70, 3000) + hours(1000, 1000)
    assert total(lab, start + 90, start + 110).cpu == hours(10, 2000) + hours(10, 3000)
    assert total(lab, until=start).cpu == 0


def test_what_waits_or_could_not_start_holds_nothing(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write({"big": session("big", "resources: {cpu: 99}"), "held": session("held", "hold: true")})
    lab.converge()
    lab.world.clock.sleep(1000)
    assert allocations(lab) == []


def test_a_lost_node_counts_until_the_session_is_given_up_there(tmp_path: Path) -> None:
    """And both ends of it are counted once, whatever the node says when it is back."""
    lab = Lab(tmp_path, nodes=2)
    one = "resources: {cpu: 1, memory: 1GiB, cuda.device: 1}"
    home = begun(lab, a=f"{one}, nodeLoss: {{after: 2m, then: reschedule}}")
    lab.world.clock.sleep(100)
    lab.world.down[home] = "no answer"
    refresh(lab)
    refresh(lab, 120)
    assert total(lab).gpu == hours(220, 1000)
    lab.converge()
    refresh(lab, 50)
    assert [(each.generation, each.ended - each.started) for each in allocations(lab)] == [
        (1, 220.0),
        (2, 50.0),
    ]
    del lab.world.down[home]
    refresh(lab)
    lab.converge()
    refresh(lab, 30)
    assert total(lab).gpu == hours(300, 1000) and len(total(lab).starts) == 2


def test_a_session_that_ended_unseen_counts_until_it_ended(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write({"job": session("job", "type: batch, resources: {cpu: 1, memory: 1GiB}")})
    lab.converge()
    lab.world.clock.sleep(100)
    lab.world.die(lab.kernel("job"), exit_code=0)
    refresh(lab, 1000)
    assert total(lab).cpu == hours(100, 1000)
    charged = lab.store.accounts("here")
    lab.drop("job")
    lab.converge()
    assert total(lab).cpu == hours(100, 1000)
    assert charged and lab.store.accounts("here") == charged


@pytest.mark.parametrize("then", ["dropped", "changed"])
def test_what_nobody_saw_end_counts_no_longer_for_it(tmp_path: Path, then: str) -> None:
    """Without a loop the next look is the apply that takes it away, or starts it anew."""
    lab = Lab(tmp_path)
    job = "type: batch, resources: {cpu: 1, memory: 1GiB}"
    lab.write({"job": session("job", job)})
    lab.converge()
    lab.world.clock.sleep(100)
    lab.world.die(lab.kernel("job"), exit_code=0)
    lab.world.clock.sleep(5000)
    if then == "dropped":
        lab.drop("job")
    else:
        lab.write({"job": session("job", f"{job}, env: {{A: b}}")})
    lab.converge()
    lab.world.clock.sleep(10)
    assert total(lab).cpu == hours(100 if then == "dropped" else 110, 1000)
    assert len(total(lab).starts) == (1 if then == "dropped" else 2)


def test_a_store_that_was_lost_counts_what_runs_from_its_start(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write({"a": session("a", "owner: jo@example.org, resources: {cpu: 1, memory: 1GiB}")})
    jo = "metadata: {name: jo}\nspec: {email: jo@example.org, projects: [p]}"
    lab.write({"jo": f"apiVersion: bai/v1\nkind: User\n{jo}"})
    lab.converge()
    lab.world.clock.sleep(100)
    lab.lose_store()
    refresh(lab)
    lab.converge()
    lab.world.clock.sleep(10)
    assert total(lab).cpu == hours(110, 1000)
    [held] = allocations(lab)
    assert held.user in ("jo", "jo@example.org")
