"""Each guard of a Policy: what it refuses, what it lets through."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from providers.base import Network
from reconciler.guards.builtin_rules import GuardFacts
from reconciler.guards.cel import Budget
from reconciler.guards.cel_rules import evaluate_validations
from reconciler.guards.judge import MAX_SHOWN_VIOLATIONS, EnforcedPolicy, judge_actions
from reconciler.guards.proposed_change import ProposedChange
from reconciler.values.changes.cause import Cause, CauseCode
from reconciler.values.encoding.plan_json import with_digest
from reconciler.values.plan import Action, Plan
from reconciler.values.rollout import Provision
from reconciler.values.sides import NodeSide
from schemas.kinds.policy import Policy
from schemas.problems.errors.plan import GuardRefused
from tests.reconciler.lab import Lab, session, summary

ONE_GPU = "resources: {cuda.device: 1}"

DAY = 86_400


def policy(spec: str, *, name: str = "care") -> str:
    """A policy; `spec` are YAML flow pairs."""
    return f"apiVersion: bai/v1\nkind: Policy\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"


def refused(plan: Plan) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.guard, one.resources) for one in plan.violations]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    made.store.close()


def test_no_more_is_deleted_than_one_may(lab: Lab) -> None:
    lab.write({name: session(name) for name in "abc"})
    lab.write({"policy": policy("guards: {maxDeletions: {count: 1}}")})
    lab.apply()
    lab.drop("a", "b")
    plan = lab.plan()
    assert refused(plan) == [("maxDeletions", ("Session/p/a", "Session/p/b"))]
    assert plan.violations[0].why == "2 deletions in one plan, 1 at most"
    with pytest.raises(GuardRefused, match="Policy/care: 2 deletions in one plan"):
        lab.apply()
    lab.write({"a": session("a")})
    assert refused(lab.converge()) == [] and len(lab.world.kernels) == 2


def test_the_share_is_of_what_the_policy_is_about(lab: Lab) -> None:
    """Three sessions and four other resources: one session is a third of them."""
    lab.write({name: session(name) for name in "abc"})
    lab.write({"policy": policy("match: {kinds: [Session]}, guards: {maxDeletions: {percent: 33%}}")})
    lab.apply()
    lab.drop("a")
    assert lab.plan().violations[0].why == "1 deletion of 3 resources in one plan, 33% at most"
    lab.write({"policy": policy("match: {kinds: [Session]}, guards: {maxDeletions: {percent: 34%}}")})
    assert [one.resources for one in lab.plan().violations] == [("Session/p/a", "Policy/care")]
    lab.write({"a": session("a")})
    lab.apply()
    lab.drop("a")
    assert refused(lab.plan()) == []


def test_sessions_that_have_ended_are_missed_by_nobody(lab: Lab) -> None:
    lab.write({"a": session("a", "type: batch"), "policy": policy("guards: {maxDeletions: {count: 0}}")})
    lab.apply()
    lab.world.die(lab.kernel("a"), exit_code=0)
    lab.converge()
    lab.drop("a")
    assert refused(lab.plan()) == [] and summary(lab.plan()) == {"Session/p/a": "delete"}


def test_what_is_matched_is_neither_deleted_nor_replaced(lab: Lab) -> None:
    spec = "match: {labels: {tier: prod}}, guards: {preventDestroy: true}"
    lab.write({"a": session("a", meta="labels: {tier: prod}"), "b": session("b"), "policy": policy(spec)})
    lab.apply()
    other = session("a", "env: {NEW: '1'}", meta="labels: {tier: prod}")
    lab.write({"a": other, "b": session("b", "env: {NEW: '1'}")})
    assert refused(lab.plan()) == [("preventDestroy", ("Session/p/a",))]
    lab.write({"a": other.replace("tier: prod", "tier: dev")})
    assert refused(lab.plan()) == [("preventDestroy", ("Session/p/a",))], "its label counts as it is recorded"
    lab.drop("a", "b")
    assert refused(lab.plan()) == [("preventDestroy", ("Session/p/a",))]


def test_sessions_have_owners(lab: Lab) -> None:
    lab.write({"user": "apiVersion: bai/v1\nkind: User\nmetadata: {name: ada}\nspec: {projects: [p]}\n"})
    lab.write({"a": session("a"), "b": session("b", "owner: ada")})
    lab.write({"policy": policy("guards: {requireOwner: true}")})
    assert refused(lab.plan()) == [("requireOwner", ("Session/p/a",))]


def test_what_runs_goes_on_and_may_end_and_is_judged_when_it_starts_again(lab: Lab) -> None:
    lab.write({"a": session("a"), "b": session("b", "timeout: 1h")})
    lab.apply()
    lab.write({"policy": policy("guards: {requireOwner: true}")})
    assert summary(lab.plan()) == {"Policy/care": "create"} and refused(lab.converge()) == []
    lab.world.clock.sleep(3700)
    assert refused(lab.plan()) == [], "its time is over"
    assert lab.apply().ok
    lab.world.vanish(lab.kernel("a"))
    assert refused(lab.plan()) == [("requireOwner", ("Session/p/a",))]


IMAGES = "guards: {images: {allowed: ['registry.example/team/*', docker.io/library/busybox]}}"


@pytest.mark.parametrize(
    ("image", "allowed"),
    [
        ("registry.example/team/torch:2", True),
        ("busybox", True),
        ("busybox:1.36", True),
        ("registry.example/team/deep/torch", True),
        ("registry.example/team-evil/torch", False),
        ("registry.example:5000/team/torch", False),
        ("registry.example.evil.example/team/torch", False),
        ("evil.example/registry.example/team/torch", False),
        ("busybox-evil", False),
        ("evil/busybox", False),
        ("quay.io/library/busybox", False),
        (f"evil.example/busybox@sha256:{'0' * 64}", False),
    ],
)
def test_images_are_of_registries_that_are_allowed(lab: Lab, image: str, allowed: bool) -> None:
    lab.write({"policy": policy(IMAGES), "a": session("a", f"image: '{image}'")})
    assert refused(lab.plan()) == ([] if allowed else [("images", ("Session/p/a",))])


def test_the_image_of_one_role_counts_too(lab: Lab) -> None:
    roles = "cluster: {roles: {main: 1, sub: 2}, perRole: {sub: {image: evil.example/x}}}"
    lab.write({"policy": policy(IMAGES), "a": session("a", f"image: busybox, {roles}")})
    assert refused(lab.plan()) == [("images", ("Session/p/a",))]
    assert "evil.example/x:latest" in lab.plan().violations[0].why


def test_images_are_named_by_digest(lab: Lab) -> None:
    pinned = f"busybox@sha256:{'0' * 64}"
    lab.write({"policy": policy("guards: {images: {digest: true}}")})
    lab.write({"a": session("a", "image: busybox"), "b": session("b", f"image: '{pinned}'")})
    assert refused(lab.plan()) == [("images", ("Session/p/a",))]


def test_containers_have_no_more_rights_than_they_may(lab: Lab) -> None:
    lab.write({"policy": policy("guards: {forbid: [root, capabilities]}")})
    base = (lab.folder / "base.yaml").read_text()
    lab.write({"base": base.replace("spec: {}", "spec: {allowRoot: true}", 1)})
    lab.write(
        {
            "a": session("a", "container: {user: root}"),
            "b": session("b", "container: {user: '1000:0'}"),
            "c": session("c", "container: {capabilities: [SYS_PTRACE]}"),
            "d": session("d", "container: {user: '1000'}"),
        }
    )
    assert refused(lab.plan()) == [("forbid", (f"Session/p/{name}",)) for name in "abc"]


def test_volumes_are_mounted_as_they_may_be(lab: Lab) -> None:
    lab.write({"policy": policy("guards: {mounts: {allowed: [data*], readOnly: [datasets]}}")})
    kinds = ("datasets", "data-mine", "other")
    volumes = "---".join(
        f"\napiVersion: bai/v1\nkind: Volume\nmetadata: {{name: {name}, project: p}}\nspec: {{host: h}}\n"
        for name in kinds
    )
    host = "apiVersion: bai/v1\nkind: StorageHost\nmetadata: {name: h}\nspec: {root: /srv/b}\n"
    lab.write({"volumes": f"{host}---{volumes}"})
    for name in kinds:
        lab.write({name: session(name, f"mounts: [{{volume: {name}, path: /data}}]")})
    lab.write({"read": session("read", "mounts: [{volume: datasets, path: /data, readOnly: true}]")})
    said = [one.why for one in lab.plan().violations]
    assert said == [
        "Session/p/datasets may only read datasets",
        "Session/p/other mounts other, which is none of data*",
    ]


def test_quotas_keep_room(lab: Lab) -> None:
    quota = "apiVersion: bai/v1\nkind: Quota\nmetadata: {name: q}\n"
    quota += "spec: {subject: {project: p}, total: {cpu: 8}}\n"
    lab.write({"quota": quota, "a": session("a", "resources: {cpu: 4}")})
    lab.write({"policy": policy("guards: {quotaHeadroom: 25%}")})
    assert refused(lab.converge()) == []
    lab.write({"b": session("b", "resources: {cpu: 2}")})
    assert refused(lab.plan()) == [], "a quarter is left"
    lab.write({"b": session("b", "resources: {cpu: 3}")})
    plan = lab.plan()
    assert refused(plan) == [("quotaHeadroom", ("Session/p/b",))]
    assert plan.violations[0].why == "12% of q's cpu would stay unused, 25% have to"


def test_room_that_is_not_taken_is_nobodys_fault(lab: Lab) -> None:
    """Who takes nothing of a quota that is full, or is not charged for it, may begin."""
    user = "apiVersion: bai/v1\nkind: User\nmetadata: {name: ada}\n"
    user += "spec: {projects: [p], email: ada@example.org}\n"
    quota = "apiVersion: bai/v1\nkind: Quota\nmetadata: {name: q}\n"
    quota += "spec: {subject: {user: ada}, total: {cpu: 4, cuda.device: 1}}\n"
    lab.write({"user": user, "quota": quota, "a": session("a", "owner: ada, resources: {cpu: 4}")})
    lab.apply()
    lab.write({"policy": policy("guards: {quotaHeadroom: 50%}")})
    lab.write({"b": session("b", "resources: {cpu: 2}")})
    assert refused(lab.converge()) == [], "it is somebody else's"
    lab.write({"c": session("c", "owner: ada@example.org, resources: {cuda.device: 1}")})
    plan = lab.plan()
    assert refused(plan) == [("quotaHeadroom", ("Session/p/c",))], "of cpu it takes nothing"
    assert plan.violations[0].why == "0% of q's cuda.device would stay unused, 50% have to"


def test_as_much_is_told_as_one_reads(lab: Lab) -> None:
    lab.write({"policy": policy("guards: {requireOwner: true}")})
    names = [f"s{number:02}" for number in range(MAX_SHOWN_VIOLATIONS + 2)]
    lab.write({name: session(name) for name in names})
    with pytest.raises(GuardRefused) as caught:
        lab.apply()
    assert str(caught.value).count("has no owner") == MAX_SHOWN_VIOLATIONS and "; and 2 more" in str(
        caught.value
    )
    lab.drop(*names[MAX_SHOWN_VIOLATIONS:])
    with pytest.raises(GuardRefused) as caught:
        lab.apply()
    assert str(caught.value).count("has no owner") == MAX_SHOWN_VIOLATIONS and "more" not in str(caught.value)


def test_an_override_counts_until_its_last_day_and_is_named(lab: Lab) -> None:
    lab.world.clock.sleep(1_800_000_000 - lab.world.clock.now())  # 2027-01-15
    lab.write({"policy": policy("overridable: true, guards: {requireOwner: true}")})
    for name, day in (("a", "2027-01-15"), ("b", "2027-01-14")):
        lab.write({name: session(name, meta=f'annotations: {{override.bai/care: "{day} a demonstration"}}')})
    plan = lab.plan()
    assert refused(plan) == [("requireOwner", ("Session/p/b",))]
    (put_aside,) = plan.overridden
    assert (put_aside.resource, put_aside.reason) == ("Session/p/a", "a demonstration")
    lab.drop("b")
    plan = lab.plan()
    assert refused(plan) == [] and plan.overridden
    lab.world.clock.sleep(DAY)
    with pytest.raises(GuardRefused, match="has no owner"):
        lab.apply(plan)


def test_an_override_takes_a_resource_out_of_what_is_counted(lab: Lab) -> None:
    lab.write({"policy": policy("overridable: true, guards: {maxDeletions: {count: 1}}")})
    note = 'annotations: {override.bai/care: "2099-12-31 the project is over"}'
    lab.write({"a": session("a"), "b": session("b"), "c": session("c", meta=note)})
    lab.apply()
    lab.drop("a", "c")
    plan = lab.plan()
    assert refused(plan) == [] and [one.resource for one in plan.overridden] == ["Session/p/c"]
    lab.drop("b")
    assert refused(lab.plan()) == [("maxDeletions", ("Session/p/a", "Session/p/b"))]


def test_a_policy_that_warns_refuses_nothing(lab: Lab) -> None:
    lab.write({"policy": policy("enforcement: warn, guards: {requireOwner: true}"), "a": session("a")})
    plan = lab.plan()
    assert refused(plan) == [] and "Policy/care: Session/p/a has no owner" in plan.warnings
    assert lab.apply(plan).ok


def test_a_policy_of_another_cluster_or_project_says_nothing_here(lab: Lab) -> None:
    more = "apiVersion: bai/v1\nkind: Project\nmetadata: {name: other}\n"
    there = "---\napiVersion: bai/v1\nkind: Cluster\nmetadata: {name: there}\nspec: {provider: fake}\n"
    group = (lab.folder / "base.yaml").read_text().replace("spec: {}", "spec: {cluster: here}", 1)
    nodes = (
        (lab.folder / "nodes.yaml").read_text().replace("resourceGroup:", "cluster: here\n  resourceGroup:")
    )
    lab.write({"base": group, "nodes": nodes, "more": more + there, "a": session("a")})
    lab.write({"one": policy("cluster: there, guards: {requireOwner: true}", name="one")})
    lab.write({"two": policy("match: {projects: [other]}, guards: {requireOwner: true}", name="two")})
    assert refused(lab.plan()) == []
    assert "Policy/one" not in summary(lab.plan()) and "Policy/two" in summary(lab.plan())


def test_containers_stay_off_their_nodes_own_network(lab: Lab) -> None:
    """What a plan has come to, whatever was asked for."""
    lab.write({"policy": policy("guards: {forbid: [host-network]}"), "a": session("a")})
    plan = lab.plan()
    assert refused(plan) == []
    new = next(each for each in plan.actions if each.id == "Session/p/a")
    assert new.after is not None
    specs = tuple(replace(spec, network=Network("host")) for spec in new.after.specs)
    with pytest.raises(GuardRefused, match="Session/p/a would be on its nodes' own network"):
        changed = replace(new, after=replace(new.after, specs=specs))
        actions = tuple(changed if each is new else each for each in plan.actions)
        lab.apply(with_digest(replace(plan, actions=actions)))


def test_no_more_nodes_are_provisioned_than_one_may(lab: Lab) -> None:
    lab.write({"policy": policy("guards: {maxProvisioned: 1}")})
    plan, node = lab.plan(), NodeSide(0, "")
    provision = Provision("n", "gpu", (), {}, {}, {}, "f" * 64)
    cause = Cause(CauseCode.PROVISIONING, "its profile")
    wave = tuple(
        Action(f"Node/n{at}", "here", node, replace(node, provision=provision), cause=cause) for at in (1, 2)
    )
    policies = [EnforcedPolicy(each) for each in lab.desired().repository.of(Policy)]
    (found,) = judge_actions(wave, policies, {}, plan.quotas, 0.0).violations
    assert (found.guard, found.resources) == ("maxProvisioned", ("Node/n1", "Node/n2"))
    assert judge_actions(wave[:1], policies, {}, plan.quotas, 0.0).violations == ()


def rule(expression: str, match: str = "kinds: [Session]") -> str:
    return policy(
        f"match: {{{match}}}, validations: [{{expression: {json.dumps(expression)}, message: nope}}]"
    )


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ('action.kind == "Session" && action.name == "a" && action.project == "p"', True),
        ('action.verb == "create" && before == null && after.metadata.name == "a"', True),
        ('after.spec.image.startsWith("registry.example/")', True),
        ('after.spec.resources["cuda.device"] <= 1', True),
        ('after.spec.resources["cuda.device"] > 1', False),
        ('action.nodes == ["n1"] && plan.creates == 6 && plan.cluster == "here"', True),
        ("has(after.spec.owner)", False),
        ("after.spec.owner == 'ada'", False),
        ("plan.deletes < 1 && !action.provisions && action.changes.size() == 0", True),
    ],
)
def test_rules_know_the_change_and_the_plan(lab: Lab, expression: str, holds: bool) -> None:
    more = f"{ONE_GPU}, image: registry.example/x"
    lab.write({"policy": rule(expression), "a": session("a", more)})
    assert refused(lab.plan()) == ([] if holds else [("validations", ("Session/p/a",))])


def test_a_rule_that_cannot_be_evaluated_refuses(lab: Lab) -> None:
    lab.write({"policy": rule("after.spec.owner == 'ada'"), "a": session("a")})
    (found,) = lab.plan().violations
    assert found.why == "Session/p/a: nope (the rule cannot be evaluated: no such field: owner)"


def test_a_rule_sees_what_is_deleted_and_what_is_changed(lab: Lab) -> None:
    kept = 'action.verb != "delete" || before.metadata.labels.tier != "prod"'
    lab.write({"policy": rule(kept), "a": session("a", meta="labels: {tier: prod}")})
    lab.apply()
    lab.drop("a")
    assert refused(lab.plan()) == [("validations", ("Session/p/a",))]
    lab.write({"policy": rule("!action.changes.exists(one, one.forces)"), "a": session("a", "env: {A: '1'}")})
    lab.world.clock.sleep(1)
    assert ("validations", ("Session/p/a",)) in refused(lab.plan())


def test_rules_of_all_policies_have_one_budget_and_refuse_when_it_is_used_up(lab: Lab) -> None:
    lab.write({name: session(name) for name in "abc"})
    lab.write({"policy": rule('action.verb == "create"')})
    changes = [ProposedChange(each) for each in lab.plan().changes if each.id.startswith("Session/")]
    (one,) = lab.desired().repository.of(Policy)
    assert list(evaluate_validations(one, changes, GuardFacts())) == []
    found = list(evaluate_validations(one, changes, GuardFacts(budget=Budget(steps=5))))
    assert [each.resources for each in found][-1] == ("Session/p/c",)
    assert "cannot be evaluated" in found[-1].why
