"""Whatever is written and whatever happens: one apply brings it about, the next plan has nothing to do,
nothing is given twice."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.values.encoding.plan_json import dump_plan
from reconciler.values.records import HOLDING
from tests.reconciler.lab import Lab, session

NAMES = ("a", "b", "c")
SPECS = st.builds(
    lambda cpu, gpu, kind, subs, lr, priority, policy: (
        f"type: {kind}, resources: {{cpu: {cpu}, memory: 1GiB{gpu}}}, cluster: {{roles: {{main: 1{subs}}}}}, "
        f"env: {{LR: '{lr}'}}, priority: {priority}, restart: {{policy: {policy}}}"
    ),
    cpu=st.sampled_from(["1", "3", "8", "500m"]),
    gpu=st.sampled_from(["", ", cuda.device: 1", ", cuda.device: 2", ", cuda.shares: 0.5"]),
    kind=st.sampled_from(["interactive", "batch"]),
    subs=st.sampled_from(["", ", sub: 1"]),
    lr=st.integers(0, 1),
    priority=st.sampled_from([5, 10]),
    policy=st.sampled_from(["never", "on-failure"]),
)
EVENTS = st.sampled_from(["nothing", "dies", "ends", "is lost", "vanishes", "store lost", "time"])
ROUND = st.tuples(st.dictionaries(st.sampled_from(NAMES), SPECS, max_size=3), EVENTS, st.integers(0, 5))


def happen(lab: Lab, event: str, pick: int) -> None:
    kernels = sorted(lab.world.kernels)
    chosen = kernels[pick % len(kernels)] if kernels else None
    if event == "store lost":
        lab.lose_store()
    elif event == "time":
        lab.world.clock.sleep(60)
    elif chosen and event == "vanishes":
        lab.world.vanish(chosen)
    elif chosen and event == "is lost":
        lab.world.lose(chosen)
    elif chosen and event in ("dies", "ends"):
        lab.world.die(chosen, exit_code=int(event == "dies"))


def nothing_is_given_twice(lab: Lab) -> None:
    devices: Counter[str] = Counter()
    cpus: Counter[int] = Counter()
    for each in lab.actual().existing.values():
        if each.recorded.placement and each.phase in HOLDING:
            for part in each.recorded.placement.kernels:
                cpus.update(part.cpus)
                for grant in part.devices:
                    devices[grant.id] += grant.milli
    assert all(milli <= 1000 for milli in devices.values()), devices
    assert all(count == 1 for count in cpus.values()), cpus


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(ROUND, min_size=1, max_size=4))
def test_one_apply_is_enough(rounds: list[tuple[dict[str, str], str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        try:
            for wanted, event, pick in rounds:
                lab.write({name: session(name, spec) for name, spec in wanted.items()})
                lab.drop(
                    *(name for name in NAMES if name not in wanted and (lab.folder / f"{name}.yaml").exists())
                )
                happen(lab, event, pick)
                plan = lab.plan()
                assert dump_plan(plan) == dump_plan(lab.plan())
                after = lab.converge()
                assert not after.changes, [(each.id, each.verb, each.why) for each in after.changes]
                nothing_is_given_twice(lab)
                running = {e.id for e in lab.actual().existing.values() if e.kernels}
                assert running <= {f"Session/p/{name}" for name in wanted}
        finally:
            lab.store.close()


def test_what_its_engine_is_still_to_start_is_no_change(tmp_path: Path) -> None:
    """A node that fetches a large image takes many passes."""
    lab = Lab(tmp_path)
    lab.world.slow_create = 5.0
    lab.write({"a": session("a", "cluster: {roles: {main: 1, sub: 1}}")})
    for phase in ("CREATING", "RUNNING"):
        assert not lab.converge().changes
        assert lab.actual().existing["Session/p/a"].phase == phase
        lab.world.clock.sleep(5)
