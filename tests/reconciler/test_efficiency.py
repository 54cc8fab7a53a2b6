"""What was used, look by look, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.observe.usage_samples import SAMPLE_INTERVAL, sample_changes
from reconciler.values.documents.usage_sampling import accounted_kernels, due_kernels
from reconciler.values.records import Allocation, Consumption, Sample
from reconciler.values.usage.consumption import MAX_GAP, Measurement, add_consumptions, consumed
from reconciler.values.usage.efficiency import NOT_MEASURED, SHARED, efficiency_of, last_start
from tests.reconciler.lab import BASE, Lab, session


def held(began: float, started: float, ended: float, cpu: int = 2000, gpu: int = 2000) -> Allocation:
    devices = {"cuda.device": gpu} if gpu else {}
    return Allocation("Session/p/x", 1, "jo", began, started, ended, cpu, 1 << 30, devices)


LOOKS = st.lists(
    st.tuples(
        st.floats(1, 2 * MAX_GAP),
        st.floats(0, 1e6),
        st.integers(0, 1 << 40),
        st.lists(st.one_of(st.none(), st.floats(0, 100)), max_size=3),
    ),
    max_size=30,
)


@given(LOOKS)
def test_used_in_all_is_what_the_looks_add_up_to(
    looks: list[tuple[float, float, int, list[float | None]]],
) -> None:
    total, last, at = Consumption(), None, 0.0
    cpu = busy = measured = 0.0
    for number, (later, counter, memory, gpus) in enumerate(looks):
        before, at = at, at + later
        gap = at - before  # As the clock has it: what was added may be cut off by its last digit.
        if last is None or counter < last:
            cpu += counter
        else:
            cpu += counter - last
        if number and gap <= MAX_GAP and gpus and None not in gpus:
            busy += gap * sum(each or 0.0 for each in gpus) / 100
            measured += gap * len(gpus)
        total = consumed(total, last, Measurement(at, counter, memory, tuple(gpus)))
        last = counter
    if looks:
        assert total.cpu == pytest.approx(cpu)
        assert total.memory == max(memory for _, _, memory, _ in looks)
        assert (total.gpu_busy, total.gpu_measured) == (pytest.approx(busy), pytest.approx(measured))
        assert total.gpu_busy <= total.gpu_measured + 1e-6 and total.until == at
    else:
        assert total == Consumption()


def test_what_is_thinned_out_is_not_forgotten() -> None:
    """The last sample has it all, however few are kept."""
    known: dict[str, tuple[Sample, ...]] = {}
    for number in range(2000):
        at = number * SAMPLE_INTERVAL
        before = known.get("k", ())
        last = before[-1] if before else Sample(0.0)
        total = consumed(last.total, last.cpu, Measurement(at, float(number), 100 - number % 50, (50.0,)))
        sample = Sample(at, float(number), 0, 50.0, total)
        [change] = sample_changes(known, {"k": sample}, frozenset({"k"}), at)
        known["k"] = (*(each for each in before if each.at not in (change.drop or ())), *change.add)
    assert len(known["k"]) < 500
    total = known["k"][-1].total
    assert (total.cpu, total.memory) == (1999.0, 100)
    assert total.gpu_busy == pytest.approx(1999 * SAMPLE_INTERVAL / 2)


def test_what_one_container_does_not_know_is_not_known_of_all() -> None:
    parts = [Consumption(5.0, 10, 1.0, 2.0, 7.0), Consumption(None, 5, 0.0, 0.0, 6.0)]
    assert add_consumptions(parts) == Consumption(None, 15, 1.0, 2.0, 6.0)
    assert add_consumptions([parts[0], Consumption()]).until is None


def test_used_against_given() -> None:
    start = (held(0, 0, 100), held(0, 100, 300, cpu=4000))
    found = efficiency_of(start, Consumption(500.0, 1 << 29, 30.0, 120.0, 200.0))
    assert (found.cpu.given, found.cpu.used) == (2 * 100 + 4 * 100, 500.0)
    assert found.memory.percent == 50.0 and found.gpu is not None and found.gpu.percent == 25.0


def test_what_is_not_known_is_said() -> None:
    found = efficiency_of((held(0, 0, 100),), Consumption())
    assert found.gpu is not None
    assert {found.cpu.why, found.memory.why, found.gpu.why} == {NOT_MEASURED}
    assert found.cpu.percent is None and found.measured_until is None
    part = efficiency_of((held(0, 0, 100, gpu=500),), Consumption(1.0, 1, 30.0, 60.0, 50.0))
    assert part.gpu is not None and (part.gpu.used, part.gpu.why) == (None, SHARED)
    assert efficiency_of((held(0, 0, 100, gpu=0),), Consumption()).gpu is None


def test_the_last_start_is_meant() -> None:
    starts = [held(200, 200, 250), held(0, 0, 100), held(200, 250, 300)]
    assert [each.started for each in last_start(starts)] == [200, 250]
    assert last_start(()) == ()


def test_who_is_measured_and_how_often(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write({"x": session("x")})
    lab.converge()
    assert not accounted_kernels(lab.desired(), lab.actual())
    said = BASE.replace("{provider: fake}", "{provider: fake, accounting: {sampleInterval: 1m}}")
    lab.write({"base": said})
    desired, actual, now = lab.desired(), lab.actual(), lab.world.clock.now()
    assert due_kernels(desired, actual, now) == accounted_kernels(desired, actual) == {lab.kernel("x")}
    lease = lab.store.acquire("here", "me", 60.0, now)
    kernel = lab.kernel("x")
    for at in (now - 70, now, now + 70):
        changes = sample_changes(
            lab.store.samples("here"), {kernel: Sample(at)}, frozenset(), at, accounted=frozenset({kernel})
        )
        lab.store.write(lease, changes)
        kept = [each.at for each in lab.store.samples("here")[kernel]]
        assert kept == [each for each in (at - 70, at) if each >= now - 70]
    assert not due_kernels(desired, lab.actual(), now + 129)
    assert due_kernels(desired, lab.actual(), now + 130) == {kernel}
