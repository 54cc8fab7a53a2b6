"""Plans as text: the golden file stands for the documented format; what was changed by hand is refused."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from planner.model.huge_pages import PageGrant
from planner.model.types import (
    Choice,
    DeviceGrant,
    GroupUse,
    KernelPlacement,
    NumaPart,
    Outcome,
    Placement,
    QuotaUse,
    Reason,
    Snapshot,
    Wait,
)
from reconciler.plan.pipeline import make_plan
from reconciler.plan.plan_request import PlanRequest
from reconciler.values.changes.cause import Cause, CauseCode
from reconciler.values.encoding.placement_json import canonical_json, kernel_placement
from reconciler.values.encoding.plan_json import (
    VERSION,
    dump_plan,
    load_plan,
    plan_digest,
    plan_values,
    with_digest,
)
from reconciler.values.plan import Action, Plan
from reconciler.values.services.state import ServiceGeneration, ServiceState
from reconciler.values.services.status import ReplicaStatus, ServiceStatus
from reconciler.values.sides import ServiceSide, SessionSide
from schemas.problems.errors.plan import PlanError
from tests.reconciler.lab import Lab, session

GOLDEN = Path(__file__).parents[1] / "cases" / "plan-json" / "v1.json"


def placed(snapshot: Snapshot) -> Outcome:
    """A planner whose words never change."""
    grant = DeviceGrant("GPU-n1-0", "cuda.device")
    part = KernelPlacement(
        "main1", "n1", (0, 1), 2000, (0,), 1 << 30, (grant,), parts=(NumaPart(0, 2000, 1 << 30),)
    )
    choice = Choice("concentrated", "3 of 8 cores left", "n2")
    return Outcome(
        placements=(Placement("Session/p/a", "default", (part,), choice),),
        waits=(Wait("Session/p/b", "default", 1, (Reason("dependency", "waits for Session/p/a"),)),),
        quotas=(QuotaUse("q", "p", {"cpu": 4000}, {}, {"cpu": 2000}),),
        groups=(GroupUse("default", {"cpu": 8000}, {"cpu": 0}, {"cpu": 2000}, {"1 GPU": 2}, {"1 GPU": 1}),),
    )


def test_the_format_is_what_was_published(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write(
        {
            "a": session(
                "a", "resources: {cpu: 2, memory: 1GiB, cuda.device: 1}, secrets: [{env: T, from: 'env/T'}]"
            )
        }
    )
    lab.write({"b": session("b", "dependsOn: [Session/p/a], resources: {cpu: 99, memory: 1GiB}")})
    plan = make_plan(PlanRequest(lab.desired(), lab.actual(), 1_000_000.0, place=placed))
    made = dump_plan(with_digest(replace(plan, tree="0" * 64)))
    if os.environ.get("BAI_RECORD"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(made)
    assert made == GOLDEN.read_text()
    assert dump_plan(load_plan(made)) == made


def test_a_plan_of_v1_can_be_read() -> None:
    plan = load_plan(GOLDEN.read_text())
    assert plan.digest == plan_digest(plan)
    assert [action.verb for action in plan.changes] == ["create"] * len(plan.actions)


def test_when_it_was_made_is_no_part_of_its_digest(tmp_path: Path) -> None:
    plan = Lab(tmp_path).plan()
    assert plan_digest(replace(plan, made_at=plan.made_at + 1)) == plan.digest
    assert plan_digest(replace(plan, basis="other")) != plan.digest


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not even JSON"),
        ("[" * 100_000, "not even JSON"),
        ("[]", "version None"),
        ('{"version": "bai.plan/v9", "plan": {}}', "bai.plan/v9"),
        (json.dumps({"version": VERSION}), "damaged"),
        (json.dumps({"version": VERSION, "plan": {"repo": 3}}), "damaged at"),
    ],
)
def test_what_is_no_plan_is_refused(text: str, why: str) -> None:
    with pytest.raises(PlanError, match=why):
        load_plan(text)


def test_a_plan_that_was_changed_is_refused() -> None:
    value = json.loads(GOLDEN.read_text())
    value["plan"]["actions"][-1]["after"]["phase"] = (
        "RUNNING" if value["plan"]["actions"][-1]["after"]["phase"] != "RUNNING" else "X"
    )
    with pytest.raises(PlanError, match="does not fit its contents"):
        load_plan(json.dumps(value))


def test_causes_and_changes_have_codes_beside_their_words(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write({"a": session("a", "resources: {cpu: 1, memory: 1GiB}, movable: true")})
    lab.apply()
    nodes = (lab.folder / "nodes.yaml").read_text()
    lab.write({"nodes": nodes.replace("spec:\n", "spec:\n  state: drained\n", 1)})
    plan = lab.plan()
    actions = {each["id"]: each for each in json.loads(dump_plan(plan))["plan"]["actions"]}
    leaves = actions["Session/p/a"]
    assert (leaves["cause"], leaves["why"]) == ("leave-node", "node n1 is drained")
    assert leaves["changes"] == [
        {
            "path": "placement.nodes.n1", "before": "active", "after": "drained", "forces": True,
            "kind": "leave-node", "subject": "n1",
        }
    ]  # fmt: skip
    [field] = actions["Node/n1"]["changes"]
    assert field == {"path": "spec.state", "before": None, "after": "drained", "forces": False}
    assert actions["Project/p"]["why"] == "" and "cause" not in actions["Project/p"]
    assert load_plan(dump_plan(plan)) == plan


@pytest.mark.parametrize(
    ("name", "value"), [("cause", "because"), ("cause", ["new"]), ("cause", {}), ("why", 7), ("why", None)]
)
def test_a_cause_that_is_none_is_refused(name: str, value: object) -> None:
    plan = json.loads(GOLDEN.read_text())
    plan["plan"]["actions"][0][name] = value
    with pytest.raises(PlanError, match="damaged at"):
        load_plan(json.dumps(plan))


def test_what_no_plan_has_is_not_left_out_without_a_word() -> None:
    for change in ({"kernels": ["k-1"]}, {"surplus": 1}):
        plan = json.loads(GOLDEN.read_text())
        plan["plan"]["actions"][0]["after"] |= change
        with pytest.raises(PlanError, match="does not fit its contents"):
            load_plan(json.dumps(plan))
    plan = json.loads(GOLDEN.read_text())
    plan["plan"]["actions"][0]["verb"] = "delete"
    with pytest.raises(PlanError, match="does not fit its contents"):
        load_plan(json.dumps(plan))


def test_huge_pages_are_in_a_plan_and_in_what_its_kernels_are_given(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    pages = "resources: {cpu: 2, memory: 1GiB, hugepages-2Mi: 4MiB}"
    lab.write({"a": session("a", pages)})
    grants = (PageGrant("hugepages-2Mi", 0, 2 << 20), PageGrant("hugepages-2Mi", 1, 2 << 20))

    def with_pages(snapshot: Snapshot) -> Outcome:
        assert snapshot.pending[0].kernels[0].slots["hugepages-2Mi"] == 4 << 20
        outcome = placed(snapshot)
        (one,) = outcome.placements
        (part,) = one.kernels
        mine = replace(one, kernels=(replace(part, hugepages=grants),))
        return replace(outcome, placements=(mine,), waits=())

    plan = with_digest(make_plan(PlanRequest(lab.desired(), lab.actual(), 1_000_000.0, place=with_pages)))
    assert load_plan(dump_plan(plan)) == plan
    (action,) = [each for each in plan.actions if each.id == "Session/p/a"]
    assert isinstance(action.after, SessionSide)
    assert action.after.specs[0].hugepages == {"hugepages-2Mi": 4 << 20}
    written = next(each for each in plan_values(plan)["actions"] if each["id"] == "Session/p/a")["after"]
    assert written["placement"]["kernels"][0]["hugepages"][1] == {
        "slot": "hugepages-2Mi", "node": 1, "bytes": 2 << 20,
    }  # fmt: skip
    assert action.after.placement is not None
    (part,) = action.after.placement.kernels
    assert kernel_placement(json.loads(canonical_json(part))) == part, "labels of kernels have it"


def with_services(tmp_path: Path) -> Plan:
    """A plan in which one service changes and one stands."""
    lab = Lab(tmp_path)
    plan = make_plan(PlanRequest(lab.desired(), lab.actual(), 1_000_000.0, place=placed))
    state = ServiceState(
        (ServiceGeneration("3f9c2a1b", {"spec": {"command": ["ü", 1, None]}}, "a" * 40, 1.5),),
        "3f9c2a1b",
        {"9d01aa42": "no replica got ready"},
        completed=("9d01aa42", "3f9c2a1b"),
    )
    document = {"kind": "Service"}
    action = Action(
        "Service/p/web",
        plan.cluster,
        before=ServiceSide(1, "d1", document),
        after=ServiceSide(2, "d2", document, state),
        cause=Cause(CauseCode.SPEC_CHANGED, "spec changed"),
    )
    replica = ReplicaStatus("Session/p/web-3f9c2a1b-1", "3f9c2a1b", "ready", 1.0, "")
    status = ServiceStatus(
        "Service/p/web", 2, "3f9c2a1b", "3f9c2a1b", "", "progressing", "1 of 2 ready", (replica,)
    )
    return with_digest(replace(plan, actions=(*plan.actions, action), services=(status,)))


def test_services_and_what_is_remembered_of_them_come_back(tmp_path: Path) -> None:
    plan = with_services(tmp_path)
    found = load_plan(dump_plan(plan))
    assert found.services == plan.services
    assert [each for each in found.actions if each.id == "Service/p/web"] == [plan.actions[-1]]
    assert dump_plan(found) == dump_plan(plan)
    values = plan_values(plan)["actions"][-1]
    assert "state" not in values["before"] and values["after"]["state"]["stable"] == "3f9c2a1b"


@pytest.mark.parametrize("part", ["services", "state"])
def test_the_digest_covers_services(tmp_path: Path, part: str) -> None:
    plan = with_services(tmp_path)
    value = json.loads(dump_plan(plan))
    if part == "services":
        value["plan"]["services"][0]["target"] = "9d01aa42"
    else:
        value["plan"]["actions"][-1]["after"]["state"]["stable"] = "9d01aa42"
    with pytest.raises(PlanError, match="digest"):
        load_plan(json.dumps(value))
    assert "services" not in plan_values(replace(plan, services=()))
