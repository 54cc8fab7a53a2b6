"""Parts of GPUs are given only where what the group demands can be enforced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.observe.gpu_sharing import add_gpu_fractions
from reconciler.values.plan import Plan
from reconciler.values.state import Actual
from schemas.problems.errors.provider import ProviderUnavailable
from tests.reconciler.enforcement import Remembered
from tests.reconciler.lab import Lab, action, session, summary

GROUP = """
apiVersion: bai/v1
kind: Cluster
metadata: {{name: here}}
spec: {{provider: fake}}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {{name: default}}
spec: {{fractional: {{enforcement: {0}}}}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: p}}
"""
HALF = session("half", "resources: {cpu: 1, memory: 1GiB, cuda.shares: 0.5}")
ID = "Session/p/half"


class ShareLab(Lab):
    """A lab whose nodes say what they can enforce."""

    answers: Mapping[str, Mapping[str, str]] | None = None
    asked: tuple[str, ...] = ()

    def actual(self) -> Actual:
        lab = self

        class Told(type(self.provider)):  # type: ignore[misc]
            def fractions(self, nodes: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
                lab.asked = tuple(nodes)
                if lab.answers is None:
                    raise ProviderUnavailable(provider="fake", why="no route")
                return lab.answers

        told = Told(self.world)
        return add_gpu_fractions(super().actual(), self.desired(), told, Remembered(), 0.0)

    def enforcement(self, means: str) -> None:
        self.write({"base": GROUP.format(means)})


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[ShareLab]:
    made = ShareLab(tmp_path, nodes=3)
    made.enforcement("mps")
    yield made
    made.store.close()


def can(*means: str, why: str = "not installed") -> dict[str, str]:
    return {name: "" if name in means else why for name in ("mps", "hami", "mig")}


def node_of(plan: Plan) -> str:
    after = action(plan, ID).after
    assert after is not None and after.placement is not None
    return after.placement.kernels[0].node


def test_only_nodes_that_can_are_offered(lab: ShareLab) -> None:
    lab.answers = {"n1": can("hami"), "n2": can(), "n3": can("mps")}
    lab.write({"half": HALF})
    plan = lab.plan()
    assert node_of(plan) == "n3"
    spec = action(plan, ID).after.specs[0]  # type: ignore[union-attr]
    assert spec.share is not None
    assert (spec.share.means, dict(spec.share.milli)) == ("mps", {"GPU-n3-0": 500})
    assert dict(spec.share.memory) == {"GPU-n3-0": 20 << 30}
    assert spec.env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"
    assert not [warning for warning in action(plan, ID).warnings if "fraction" in warning]
    lab.enforcement("hami")
    assert node_of(lab.plan()) == "n1"


def test_where_none_can_it_waits_and_says_why(lab: ShareLab) -> None:
    lab.answers = {"n1": can(why="MPS is gone"), "n2": can(why="in MIG mode")}
    lab.write({"half": HALF})
    plan = lab.plan()
    [reason] = plan.waits[0].reasons
    assert reason.code == "fraction-not-enforced"
    said = "no node can enforce: n1: MPS is gone; n2: in MIG mode; n3: it was not reached"
    assert reason.message == f"group default demands mps for parts of a GPU, which {said}"
    lab.answers = None
    assert "no route" in lab.plan().waits[0].reasons[0].message


def test_nodes_that_it_names_must_be_able(lab: ShareLab) -> None:
    lab.answers = {"n1": can("mps"), "n2": can(), "n3": can("mps")}
    lab.write({"half": HALF.replace("spec: {", "spec: {placement: {nodes: [n2]}, ")})
    message = lab.plan().waits[0].reasons[0].message
    assert message.endswith("which none of its nodes can enforce: n2: not installed")
    lab.write({"half": HALF.replace("spec: {", "spec: {placement: {nodes: [n2, n3]}, ")})
    assert node_of(lab.plan()) == "n3"


def test_what_cannot_be_enforced_at_all_is_refused(lab: ShareLab) -> None:
    lab.answers = {name: can("mps", "hami", "mig") for name in ("n1", "n2", "n3")}
    lab.write({"half": HALF.replace("0.5", "1.5")})
    assert "a part of one GPU only" in lab.plan().waits[0].reasons[0].message
    lab.enforcement("hami")
    assert summary(lab.plan())[ID] == "create"
    lab.enforcement("mig")
    assert "by profile" in lab.plan().waits[0].reasons[0].message


def test_whole_devices_and_no_enforcement_need_nobody(lab: ShareLab) -> None:
    lab.answers = {}
    lab.write({"half": HALF.replace("cuda.shares: 0.5", "cuda.device: 1")})
    assert summary(lab.plan())[ID] == "create"
    assert lab.asked == ()
    lab.enforcement("none")
    lab.write({"half": HALF})
    plan = lab.plan()
    after = action(plan, ID).after
    assert after is not None and after.specs[0].share is None
    assert lab.asked == ()
    lab.provider._capabilities = replace(lab.provider._capabilities, limits=frozenset(), limits_missing={})
    assert any("GPU fraction is not enforced" in warning for warning in action(lab.plan(), ID).warnings)


def test_no_part_is_given_where_somebody_else_counts_whole_gpus(lab: ShareLab) -> None:
    def undivided(*names: str) -> None:
        told = dict.fromkeys(names, "counts whole ones")
        lab.provider._capabilities = replace(lab.provider._capabilities, undivided=told)

    lab.enforcement("none")
    lab.write({"half": HALF})
    undivided("n1", "n3")
    assert node_of(lab.plan()) == "n2"
    lab.write({"half": HALF.replace("spec: {", "spec: {placement: {nodes: [n1, n3]}, ")})
    [reason] = lab.plan().waits[0].reasons
    said = "n1: counts whole ones; n3: counts whole ones"
    assert reason.message == f"no node can give parts of a GPU: {said}"
    undivided("n1")
    assert node_of(lab.plan()) == "n3"
    undivided("n1", "n2", "n3")
    lab.write({"half": HALF})
    assert "n2: counts whole ones" in lab.plan().waits[0].reasons[0].message
    lab.write({"half": HALF.replace("cuda.shares: 0.5", "cuda.device: 1")})
    assert summary(lab.plan())[ID] == "create"


def test_limits_are_not_the_sessions_to_set(lab: ShareLab) -> None:
    lab.answers = {"n1": can("mps")}
    mine = "env: {CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: '100', MINE: 'yes'}, resources"
    lab.write({"half": HALF.replace("resources", mine)})
    env = action(lab.plan(), ID).after.specs[0].env  # type: ignore[union-attr]
    assert (env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"], env["MINE"]) == ("50", "yes")
