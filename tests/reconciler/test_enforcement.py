"""Parts of GPUs are given on nodes where one was seen to hold, which is tried once for each version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from providers.fake import FakeProvider
from providers.gpu.enforcement import EnforcementFacts, NodeMeans, TrialPart
from reconciler.observe.enforcement import AT_ONCE, POSTPONED, Trial, find_enforcement
from reconciler.observe.fraction_trials import held_milli, trial_parts
from reconciler.observe.gpu_sharing import add_gpu_fractions
from reconciler.values.plan import Plan
from reconciler.values.state import Actual, UnreachableNode
from schemas.hardware.model import Gpu, Hardware, MigDevice, NumaNode
from schemas.problems.errors.provider import ProviderUnavailable
from tests.reconciler.enforcement import Remembered
from tests.reconciler.lab import Lab, action, session, summary
from tests.reconciler.test_fractions import GROUP

HALF = session("half", "resources: {cpu: 1, memory: 1GiB, cuda.shares: 0.5}")
WHOLE = session("whole", "resources: {cpu: 1, memory: 1GiB, cuda.device: 2}")
GIB = 1 << 30
NUMA = (NumaNode(id=0, cpus=(0,), memory=GIB),)
HELD = {"within": 0, "beyond": 2}
LOOSE = {"within": 0, "beyond": 0}


class TriedLab(Lab):
    """A lab whose nodes can be tried: `codes` has what allocations come to, by node."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, nodes=3)
        self.memory, self.now = Remembered(), 1000.0
        self.versions = {"n1": "driver 1", "n2": "driver 1", "n3": "driver 1"}
        self.codes: dict[str, Mapping[str, int]] = dict.fromkeys(self.versions, HELD)
        self.problems: dict[str, str] = {}
        self.tried: list[tuple[str, str, tuple[TrialPart, ...]]] = []

    def actual(self) -> Actual:
        trying = Trying(self)
        return add_gpu_fractions(super().actual(), self.desired(), trying, self.memory, self.now)

    def asked(self) -> list[str]:
        """The nodes that were tried since the last call."""
        found, self.tried = sorted(node for node, _, _ in self.tried), []
        return found


class Trying(FakeProvider):
    def __init__(self, lab: TriedLab) -> None:
        super().__init__(lab.world)
        self.lab = lab

    def fractions(self, nodes: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        return {node: found.missing for node, found in self.fraction_means(nodes).items()}

    def fraction_means(self, nodes: Iterable[str]) -> Mapping[str, NodeMeans]:
        missing = {"mps": "", "hami": "", "mig": "no GPU is in MIG mode"}
        versions = self.lab.versions
        return {
            node: NodeMeans.model_validate(
                {"missing": missing, "versions": dict.fromkeys(missing, versions[node])}
            )
            for node in nodes
            if node in versions
        }

    def try_fraction(self, node: str, means: str, parts: Sequence[TrialPart]) -> EnforcementFacts:
        self.lab.tried.append((node, means, tuple(parts)))
        if node in self.lab.problems:
            raise ProviderUnavailable(provider="fake", why=self.lab.problems[node])
        seen = {"cuda": 13000, "multiprocessors": 100, "total": 40 * GIB, "shown": 40 * GIB}
        part = {**seen, "multiprocessors": 10, "ways": {"cuMemAlloc_v2": self.lab.codes[node]}}
        return EnforcementFacts.model_validate({"gpu": parts[0].gpu, "whole": seen, "part": part})


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[TriedLab]:
    made = TriedLab(tmp_path)
    made.write({"base": GROUP.format("mps")})
    yield made
    made.store.close()


def node_of(plan: Plan, name: str = "half") -> str:
    after = action(plan, f"Session/p/{name}").after
    assert after is not None and after.placement is not None
    return after.placement.kernels[0].node


def why(plan: Plan) -> str:
    [reason] = plan.waits[0].reasons
    assert reason.code == "fraction-not-enforced"
    return reason.message


def test_nobody_is_tried_before_somebody_asks_for_a_part(lab: TriedLab) -> None:
    lab.write({"whole": WHOLE})
    lab.plan()
    assert lab.asked() == []


def test_a_node_is_tried_once_for_each_version(lab: TriedLab) -> None:
    lab.write({"half": HALF})
    lab.plan()
    assert lab.asked() == ["n1", "n2", "n3"]
    for _ in range(3):
        lab.now += 1_000_000
        lab.plan()
    assert lab.asked() == []
    lab.versions["n2"] = "driver 2"
    lab.plan()
    assert lab.asked() == ["n2"]
    lab.plan()
    assert lab.asked() == []


def test_a_node_that_does_not_hold_gives_no_parts(lab: TriedLab) -> None:
    lab.codes |= {"n1": LOOSE, "n3": LOOSE}
    lab.write({"half": HALF})
    assert node_of(lab.plan()) == "n2"
    lab.codes["n2"] = LOOSE
    lab.versions["n2"] = "driver 580.159.03, libvgpu.so of 7 bytes"
    said = why(lab.plan())
    assert said.startswith("group default demands mps for parts of a GPU, which no node can enforce: n1: ")
    assert (
        "n2: mps did not hold: 4.2 GiB could be allocated under a limit of 4.0 GiB, and 40.0 GiB were shown"
        " (cuMemAlloc_v2) (driver 580.159.03, libvgpu.so of 7 bytes);"
        " `bai nodes check --enforcement n2` tries again"
    ) in said


def test_who_fails_is_not_tried_again_until_something_changes(lab: TriedLab) -> None:
    lab.codes |= dict.fromkeys(lab.codes, LOOSE)
    lab.write({"half": HALF})
    lab.plan()
    lab.asked()
    lab.codes |= dict.fromkeys(lab.codes, HELD)
    lab.now += 1_000_000
    lab.plan()
    assert lab.asked() == []
    lab.versions["n3"] = "driver 2"
    assert node_of(lab.plan()) == "n3"


def test_who_runs_keeps_running_when_a_new_driver_does_not_hold(lab: TriedLab) -> None:
    lab.write({"half": HALF})
    lab.apply()
    lab.codes |= dict.fromkeys(lab.codes, LOOSE)
    lab.versions |= dict.fromkeys(lab.versions, "driver 2")
    assert "Session/p/half" not in summary(lab.plan())


def test_gpus_that_are_held_whole_are_never_tried(lab: TriedLab) -> None:
    lab.write({"whole": WHOLE})
    lab.apply()
    held = node_of_running(lab)
    lab.write({"half": HALF})
    assert node_of(lab.plan()) != held
    assert lab.asked() == sorted({"n1", "n2", "n3"} - {held})
    lab.write({"half": HALF.replace("spec: {", f"spec: {{placement: {{nodes: [{held}]}}, ")})
    said = f"{held}: mps has not been seen to hold there: all of its GPUs are in use: it is tried when one"
    assert said in why(lab.plan())


def test_nothing_is_tried_where_nobody_sees_what_runs(lab: TriedLab) -> None:
    lab.write({"half": HALF})
    for blind in ({"complete": False}, {"missed": {"n1": UnreachableNode("no route")}}):
        actual = replace(Lab.actual(lab), **blind)
        trials = [Trial("n1", "mps", "driver 1")]
        (record,) = find_enforcement(trials, actual, lab.desired(), Trying(lab), lab.memory, lab.now).values()
        assert (record.outcome, record.why) == ("untested", "what runs there could not be observed")
    assert lab.asked() == []


def node_of_running(lab: TriedLab) -> str:
    placement = lab.store.recorded("here")["Session/p/whole"].placement
    assert placement is not None
    return placement.kernels[0].node


def test_what_cannot_be_tried_is_asked_again_after_a_while(lab: TriedLab) -> None:
    lab.problems |= dict.fromkeys(lab.codes, "no route")
    lab.write({"half": HALF})
    assert "n1: mps has not been seen to hold there" in why(lab.plan())
    assert lab.asked() == ["n1", "n2", "n3"]
    lab.now += POSTPONED / 2
    assert "no route" in why(lab.plan())
    assert lab.asked() == []
    lab.problems.clear()
    lab.now += POSTPONED
    assert node_of(lab.plan())
    assert lab.asked() == ["n1", "n2", "n3"]


def test_a_clock_that_was_set_back_postpones_nothing(lab: TriedLab) -> None:
    lab.problems |= dict.fromkeys(lab.codes, "no route")
    lab.write({"half": HALF})
    lab.plan()
    lab.asked()
    lab.now -= 1_000_000
    lab.plan()
    assert lab.asked() == ["n1", "n2", "n3"]


def test_a_pass_tries_no_more_nodes_than_it_should(lab: TriedLab) -> None:
    hardware = Hardware(numa_nodes=NUMA, gpus=(Gpu(id="GPU-a", index=0, memory=40 * GIB),))
    names = [f"m{at}" for at in range(AT_ONCE + 3)]
    lab.codes |= dict.fromkeys(names, HELD)
    actual = replace(Lab.actual(lab), hardware=dict.fromkeys(names, hardware))
    trials = [Trial(name, "hami", "driver 1") for name in names]

    def found() -> list[str]:
        answers = find_enforcement(trials, actual, lab.desired(), Trying(lab), lab.memory, lab.now)
        return [trial.node for trial in trials if answers[trial].outcome == "held"]

    assert found() == names[:AT_ONCE]
    assert found() == names
    assert len(lab.asked()) == len(names)


def test_a_part_is_as_small_as_can_be_told_and_named_as_a_session_has_it(lab: TriedLab) -> None:
    gpus = tuple(Gpu(id=f"GPU-{at}", index=at, memory=memory * GIB) for at, memory in enumerate((80, 8, 1)))
    [parts] = trial_parts("mps", Hardware(numa_nodes=NUMA, gpus=gpus), held_milli(Lab.actual(lab)))
    assert [(part.gpu, part.milli, part.memory) for part in parts] == [
        ("GPU-0", 100, 8 * GIB), ("GPU-1", 250, 2 * GIB),
    ]  # fmt: skip
    assert parts[0].env == {
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "10", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=8192M",
    }  # fmt: skip
    [parts] = trial_parts("hami", Hardware(numa_nodes=NUMA, gpus=gpus), held_milli(Lab.actual(lab)))
    assert parts[1].env == {"CUDA_DEVICE_SM_LIMIT": "25", "CUDA_DEVICE_MEMORY_LIMIT_0": "2048m"}
    assert all(part.memory < part.beyond <= part.memory * 17 // 16 for part in parts)


def test_sharers_of_mps_leave_room_for_a_trial(lab: TriedLab) -> None:
    lab.write({"half": HALF})
    lab.apply()
    placement = lab.store.recorded("here")["Session/p/half"].placement
    assert placement is not None
    [part] = placement.kernels
    node = next(node for node in lab.desired().nodes if node.name == part.node)
    shared = part.devices[0].id
    [parts] = trial_parts("mps", node.spec.hardware, held_milli(Lab.actual(lab)))
    assert [(each.gpu == shared, each.shared) for each in parts] == [(False, False), (True, True)]
    [parts] = trial_parts("hami", node.spec.hardware, held_milli(Lab.actual(lab)))
    assert shared not in [each.gpu for each in parts]


def test_instances_are_tried_by_profile(lab: TriedLab) -> None:
    instances = (
        MigDevice(id="MIG-1", profile="1g.10gb"), MigDevice(id="MIG-2", profile="1g.10gb"),
        MigDevice(id="MIG-3", profile="3g.40gb"), MigDevice(id="gi1", profile="2g.20gb"),
    )  # fmt: skip
    gpu = Gpu(id="GPU-a", index=0, model="NVIDIA H100 80GB HBM3", memory=80 * GIB, mig="enabled")
    split = Hardware(numa_nodes=NUMA, gpus=(gpu.model_copy(update={"mig_devices": instances}),))
    found = trial_parts("mig", split, held_milli(Lab.actual(lab)))
    expected = [(part.gpu, part.instance.multiprocessors) for (part,) in found if part.instance]
    assert expected == [("MIG-1", 16), ("MIG-3", 60)]
    assert trial_parts("mps", split, held_milli(Lab.actual(lab))) == ()
