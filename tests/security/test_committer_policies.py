"""A committer who wants around a Policy: by deleting it, by loosening it, step by step, under other names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.values.encoding.plan_json import dump_plan, load_plan, with_digest
from reconciler.values.plan import Plan
from reconciler.values.records import PutRecord, Recorded
from schemas.problems.errors.plan import GuardRefused, PlanError
from schemas.problems.errors.repository import InvalidRepository
from tests.reconciler.guards.test_guards import policy, refused
from tests.reconciler.lab import Lab, session, summary
from tests.reconciler.test_loop import House

GUARD = "match: {kinds: [Session]}, guards: {preventDestroy: true}"
HELD = [("preventDestroy", ("Session/p/a", "Policy/care"))]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    made.write({"a": session("a"), "policy": policy(GUARD)})
    made.apply()
    made.drop("a")
    yield made
    made.store.close()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    "spec",
    [
        "enforcement: warn, guards: {preventDestroy: true}",
        "match: {kinds: [Volume]}, guards: {preventDestroy: true}",
        "match: {labels: {tier: prod}}, guards: {preventDestroy: true}",
        "guards: {requireOwner: true}",
        "overridable: true, guards: {requireOwner: true}",
        "cluster: there, guards: {preventDestroy: true}",
    ],
)
def test_a_commit_that_loosens_a_policy_is_held_to_it(lab: Lab, spec: str) -> None:
    there = "---\napiVersion: bai/v1\nkind: Cluster\nmetadata: {name: there}\nspec: {provider: fake}\n"
    base, nodes = ((lab.folder / f"{name}.yaml").read_text() for name in ("base", "nodes"))
    base = base.replace("name: default}\nspec: {}", "name: default}\nspec: {cluster: here}")
    lab.write({"base": base + there, "nodes": nodes.replace("spec:\n", "spec:\n  cluster: here\n")})
    lab.write({"policy": policy(spec)})
    assert refused(lab.plan()) == HELD


def test_a_commit_that_deletes_or_renames_a_policy_is_held_to_it(lab: Lab) -> None:
    lab.drop("policy")
    assert refused(lab.plan()) == HELD
    lab.write({"other": policy("guards: {requireOwner: true}", name="other")})
    assert refused(lab.plan()) == HELD
    assert refused(lab.plan(destroy=True)) == HELD
    assert refused(lab.plan(targets=("Session/p/a",))) == HELD


def test_nobody_gets_there_in_two_passes_of_the_loop(house: House) -> None:
    house.write("a", session("a"))
    house.write("policy", policy(GUARD))
    house.once()
    (house.folder / "a.yaml").unlink()
    (house.folder / "policy.yaml").unlink()
    house.write("b", session("b"))
    said = house.once()
    assert any(line.startswith("refused: Policy/care: Session/p/a would be deleted") for line in said)
    assert "created Session/p/b: new" in said, "what is not refused goes on"
    for _ in range(3):
        assert house.once() == []
    assert house.running() == {"a", "b"}
    house.write("a", session("a"))
    assert any("deleted Policy/care" in line for line in house.once())
    (house.folder / "a.yaml").unlink()
    house.once()
    assert house.running() == {"b"}


def test_the_loop_leaves_no_room_for_some_of_too_many(house: House) -> None:
    """One after the other would be too many as well."""
    for name in "abc":
        house.write(name, session(name))
    house.write("policy", policy("guards: {maxDeletions: {count: 1}}"))
    house.once()
    for name in "abc":
        (house.folder / f"{name}.yaml").unlink()
    for _ in range(4):
        house.once()
    assert house.running() == {"a", "b", "c"}


def test_a_policy_that_came_after_the_plan_counts_when_it_is_applied(lab: Lab) -> None:
    lab.write({"a": session("a"), "b": session("b"), "policy": policy("guards: {maxDeletions: {count: 9}}")})
    lab.apply()
    lab.drop("a")
    plan = lab.plan()
    assert refused(plan) == []
    stricter = Lab.desired(lab).documents["Policy/care"] | {"spec": {"guards": {"preventDestroy": True}}}
    lease = lab.store.acquire("here", "me", 60, lab.world.clock.now())
    lab.store.write(lease, [PutRecord(Recorded("Policy/care", "here", 2, "other", stricter))])
    lab.store.release(lease)
    with pytest.raises(GuardRefused, match="Policy/care: Session/p/a would be deleted"):
        lab.apply(plan)


def test_a_saved_plan_whose_violations_were_taken_out_is_refused_all_the_same(lab: Lab) -> None:
    from dataclasses import replace

    plan: Plan = lab.plan()
    text = dump_plan(plan)
    with pytest.raises(PlanError, match="digest"):
        load_plan(text.replace("would be deleted", "would be kept"))
    with pytest.raises(GuardRefused):
        lab.apply(load_plan(dump_plan(with_digest(replace(plan, violations=())))))
    assert lab.world.kernels


def test_only_a_policy_that_says_so_is_overridden_and_not_by_what_is_deleted_with_it(lab: Lab) -> None:
    note = 'annotations: {override.bai/care: "2099-12-31 I may"}'
    lab.write({"a": session("a", meta=note)})
    lab.apply()
    lab.drop("a")
    assert refused(lab.plan()) == [("preventDestroy", ("Session/p/a",))], "this one is not overridable"
    lab.write({"a": session("a"), "policy": policy(f"overridable: true, {GUARD}")})
    lab.apply()
    lab.drop("a")
    assert refused(lab.plan()) == [("preventDestroy", ("Session/p/a",))], "the note is not recorded any more"
    lab.write({"a": session("a", meta=note)})
    assert summary(lab.plan()) == {"Session/p/a": "update"}
    lab.apply()
    lab.drop("a")
    plan = lab.plan()
    assert refused(plan) == [] and plan.overridden[0].reason == "I may"


@pytest.mark.parametrize(
    "text",
    ["I may", "2099-12-31", "2099-13-31 I may", "9999 x", "2099-12-31\nI may", "2099-12-31 " + "x" * 501],
)
def test_an_override_has_a_day_and_a_reason(lab: Lab, text: str) -> None:
    import json

    lab.write({"a": session("a", meta=f"annotations: {{override.bai/care: {json.dumps(text)}}}")})
    with pytest.raises(InvalidRepository) as wrong:
        lab.plan()
    assert "the last day on which it counts" in str(wrong.value.problems[0])
    lab.drop("a")


def test_a_flood_of_policies_is_refused(lab: Lab) -> None:
    lab.write({"flood": "---\n".join(policy(GUARD, name=f"p{at}") for at in range(101))})
    with pytest.raises(InvalidRepository) as wrong:
        lab.plan()
    assert [problem.message for problem in wrong.value.problems] == ["102 policies, 100 at most"]
