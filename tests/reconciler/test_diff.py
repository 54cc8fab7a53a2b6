"""Decisions, one story at a time: repository and world in, plan out, and what applying it leaves behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bai.render.plan.changes import change_entries
from providers.base import Capabilities, Labels, Limit
from providers.fake import Fault
from reconciler.values.encoding.placement_json import canonical_json
from schemas.problems.errors.plan import GuardRefused, PlanError
from tests.reconciler.lab import BASE, NODE, Lab, action, session, summary, text


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


ONE_GPU = "resources: {cpu: 2, memory: 1GiB, cuda.device: 1}"


def test_what_was_applied_needs_nothing_more(lab: Lab) -> None:
    lab.write({"a": session("a", ONE_GPU), "b": session("b", "type: batch")})
    plan = lab.plan()
    assert summary(plan)["Session/p/a"] == "create"
    assert not lab.converge().changes
    assert sorted(lab.world.kernels) == sorted([lab.kernel("a"), lab.kernel("b")])


def test_a_changed_command_replaces_in_the_same_place(lab: Lab) -> None:
    lab.write({"a": session("a", ONE_GPU)})
    lab.apply()
    old = action(lab.plan(), "Session/p/a").before
    lab.write({"a": session("a", ONE_GPU + ", env: {X: '1'}")})
    plan = lab.plan()
    found = action(plan, "Session/p/a")
    assert found.verb == "replace"
    assert [(change.path, change.forces) for change in found.changes] == [("spec.env.X", True)]
    assert found.after and old and found.after.placement == old.placement
    assert found.after.generation == 2
    assert not lab.converge().changes
    assert [kernel.rpartition("-")[2] for kernel in lab.world.kernels] == ["g2"]


def test_labels_change_in_place_and_reach_the_kernels(lab: Lab) -> None:
    lab.write({"a": session("a", ONE_GPU)})
    lab.apply()
    lab.write({"a": session("a", ONE_GPU, meta="labels: {team: x}, annotations: {bai/protect: 'true'}")})
    assert summary(lab.plan()) == {"Session/p/a": "update"}
    assert not lab.converge().changes
    kernel = lab.world.kernels[lab.kernel("a")]
    assert kernel.spec.labels.protected
    assert len(lab.world.created) == 1


def test_memory_changes_in_place_where_the_provider_can(lab: Lab) -> None:
    lab.write({"a": session("a", "resources: {cpu: 1, memory: 1GiB}")})
    lab.apply()
    lab.write({"a": session("a", "resources: {cpu: 1, memory: 2GiB}")})
    assert summary(lab.plan()) == {"Session/p/a": "update"}
    assert not lab.converge().changes
    assert lab.world.kernels[lab.kernel("a")].spec.memory == 2 << 30
    lab.provider._capabilities = replace(lab.provider.capabilities(), in_place=frozenset({"labels"}))
    lab.write({"a": session("a", "resources: {cpu: 1, memory: 1GiB}")})
    assert summary(lab.plan()) == {"Session/p/a": "replace"}
    assert not lab.converge().changes


SCRATCH = """
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: default}
spec: {scratch: {default: 2GiB, max: 8GiB}}
"""


def test_scratch_is_limited_by_the_session_or_else_its_group(lab: Lab) -> None:
    group = "apiVersion: bai/v1\nkind: ResourceGroup\nmetadata: {name: default}\nspec: {}\n"
    lab.write({"base": BASE.replace(group, SCRATCH.lstrip())})
    roles = "cluster: {roles: {main: 1, sub: 1}, perRole: {sub: {resources: {cpu: 1}}}}"
    lab.write({"a": session("a", f"resources: {{cpu: 1, scratch: 4GiB}}, {roles}")})
    after = action(lab.plan(), "Session/p/a").after
    assert after and [spec.scratch >> 30 for spec in after.specs] == [4, 2]
    (entry,) = [entry for entry in change_entries(lab.plan()) if "Session/p/a" in entry.names]
    assert "scratch at most 4GiB for main1" in entry.details
    assert "scratch at most 2GiB for sub1" in entry.details
    lab.apply()
    lab.write({"a": session("a", f"resources: {{cpu: 1, scratch: 5GiB}}, {roles}")})
    assert summary(lab.plan()) == {"Session/p/a": "update"}
    assert not lab.converge().changes
    assert lab.world.kernels[lab.kernel("a")].spec.scratch == 5 << 30


def test_a_limit_on_scratch_that_nothing_holds_is_said(lab: Lab) -> None:
    lacking = {Limit.SCRATCH: "ext4 at / is mounted without prjquota"}
    limits = frozenset(Limit) - lacking.keys()
    lab.provider._capabilities = replace(
        lab.provider.capabilities(), limits=limits, limits_missing=lacking, in_place=frozenset({"labels"})
    )
    lab.write({"a": session("a", "resources: {cpu: 1, scratch: 4GiB}")})
    warnings = action(lab.plan(), "Session/p/a").warnings
    assert warnings == (f"the limit on scratch is not enforced: {lacking[Limit.SCRATCH]}",)
    lab.apply()
    lab.write({"a": session("a", "resources: {cpu: 1, scratch: 2GiB}")})
    assert summary(lab.plan()) == {"Session/p/a": "replace"}


@pytest.mark.parametrize("wanted", ["cpu: 100, memory: 1GiB", "cpu: 1, memory: 1GiB, cuda.device: 3"])
def test_nothing_is_stopped_for_what_fits_nowhere(lab: Lab, wanted: str) -> None:
    lab.write({"a": session("a", "resources: {cpu: 1, memory: 1GiB}")})
    lab.apply()
    lab.write({"a": session("a", f"resources: {{{wanted}}}"), "b": session("b", "resources: {cpu: 8}")})
    plan = lab.plan()
    assert summary(plan) == {"Session/p/b": "create"}
    assert [wait.session for wait in plan.waits] == ["Session/p/a", "Session/p/b"]
    assert plan.waits[0].reasons[-1].code == "runs-on"
    assert not lab.converge().changes
    assert len(lab.world.kernels) == 1


def test_two_sessions_swap_their_devices(lab: Lab) -> None:
    gpus = "resources: {{cpu: 2, memory: 1GiB, cuda.device: {}}}"
    lab.write({"a": session("a", gpus.format(2)), "b": session("b", gpus.format(1))})
    lab.apply()
    assert list(plan.session for plan in lab.plan().waits) == ["Session/p/b"]
    lab.write({"a": session("a", gpus.format(1)), "b": session("b", gpus.format(1))})
    assert not lab.converge().changes
    held = [
        grant
        for each in lab.actual().existing.values()
        if each.recorded.placement
        for part in each.recorded.placement.kernels
        for grant in part.devices
    ]
    assert len(held) == len(set(held)) == 2


def test_waiting_is_recorded_once_and_keeps_its_turn(lab: Lab) -> None:
    lab.write({"first": session("first", "resources: {cpu: 1, memory: 1GiB}")})
    lab.apply()
    lab.write({"big": session("big", "resources: {cpu: 8, memory: 1GiB}")})
    assert action(lab.plan(), "Session/p/big").verb == "create"
    after = lab.converge()
    assert not after.changes and after.waits[0].reasons
    entered = lab.store.recorded("here")["Session/p/big"].enqueued_at
    lab.world.clock.sleep(50)
    lab.write({"other": session("other", "resources: {cpu: 1, memory: 1GiB}")})
    plan = lab.plan()
    assert summary(plan) == {"Session/p/other": "create", "Session/p/big": "update"}
    assert not lab.converge().changes
    record = lab.store.recorded("here")["Session/p/big"]
    assert (record.enqueued_at, record.skips) == (entered, 1)
    lab.write({"big": session("big", "resources: {cpu: 2, memory: 1GiB}")})
    assert action(lab.plan(), "Session/p/big").verb == "create"
    assert not lab.converge().changes


def test_a_finished_batch_stays_finished_until_its_spec_changes(lab: Lab) -> None:
    lab.write({"a": session("a", "type: batch")})
    lab.apply()
    lab.world.die(lab.kernel("a"), exit_code=3)
    plan = lab.plan()
    before = action(plan, "Session/p/a").before
    assert not plan.changes
    assert before and (before.phase, before.result, dict(before.exit_codes)) == (
        "TERMINATED",
        "failure",
        {"main1": 3},
    )
    lab.write({"a": session("a", "type: batch", meta="labels: {x: y}")})
    assert summary(lab.plan()) == {"Session/p/a": "update"}
    assert not lab.converge().changes
    lab.write({"a": session("a", "type: batch, env: {A: b}")})
    assert summary(lab.plan()) == {"Session/p/a": "replace"}
    assert not lab.converge().changes
    assert len(lab.world.kernels) == 1


def test_a_kernel_that_is_gone_is_made_again(lab: Lab) -> None:
    lab.write({"a": session("a", "cluster: {roles: {main: 1, sub: 2}}")})
    lab.apply()
    gone = lab.kernel("a", "sub1")
    lab.world.vanish(gone)
    plan = lab.plan()
    found = action(plan, "Session/p/a")
    assert found.verb == "update" and found.why == "sub1 is gone"
    assert found.after and [spec.id for spec in found.after.specs] == [gone]
    assert plan.drifts[0].kernel == gone
    assert not lab.converge().changes
    assert len(lab.world.kernels) == 3


@pytest.mark.parametrize(
    ("spec", "phase"),
    [
        ("type: batch", "TERMINATED"),
        ("type: batch, restart: {policy: on-failure}", "RUNNING"),
        ("type: interactive", "RUNNING"),
    ],
)
def test_a_lost_kernel_is_made_again_unless_it_did_work_that_is_half_done(
    lab: Lab, spec: str, phase: str
) -> None:
    lab.write({"a": session("a", spec)})
    lab.apply()
    lab.world.lose(lab.kernel("a"))
    plan = lab.plan()
    assert summary(plan) == ({} if phase == "TERMINATED" else {"Session/p/a": "update"})
    before = action(plan, "Session/p/a").before
    assert before and before.phase == phase
    assert not lab.converge().changes
    lab.drop("a")
    assert not lab.converge().changes
    assert not lab.world.kernels


def test_what_was_killed_from_outside_is_drift_and_repaired(lab: Lab) -> None:
    lab.write({"a": session("a")})
    lab.apply()
    lab.world.die(lab.kernel("a"), exit_code=137, reason="signal 9")
    plan = lab.plan()
    assert summary(plan) == {"Session/p/a": "update"}
    assert [drift.what for drift in plan.drifts] == ["main1 exited with 137 (signal 9)"]
    assert not lab.converge().changes
    assert lab.world.kernels[lab.kernel("a")].ended is None


def test_when_the_main_container_ends_the_others_are_stopped(lab: Lab) -> None:
    lab.write({"a": session("a", "type: batch, cluster: {roles: {main: 1, sub: 1}}")})
    lab.apply()
    lab.world.die(lab.kernel("a"), exit_code=0)
    plan = lab.plan()
    assert summary(plan) == {"Session/p/a": "update"}
    assert not lab.converge().changes
    record = lab.store.recorded("here")["Session/p/a"]
    assert (record.phase, record.result) == ("TERMINATED", "success")
    assert lab.provider.observe().kernels[1].state == "exited"


def test_a_session_waits_for_what_it_depends_on(lab: Lab) -> None:
    lab.write(
        {"prep": session("prep", "type: batch"), "train": session("train", "dependsOn: [Session/p/prep]")}
    )
    plan = lab.plan()
    assert [wait.session for wait in plan.waits] == ["Session/p/train"]
    assert "Session/p/prep (not started)" in plan.waits[0].reasons[0].message
    lab.apply()
    assert "RUNNING" in lab.plan().waits[0].reasons[0].message
    lab.world.die(lab.kernel("prep"), exit_code=0)
    assert summary(lab.plan()) == {"Session/p/train": "create"}
    assert not lab.converge().changes


def test_a_service_that_starts_in_the_same_plan_counts(lab: Lab) -> None:
    lab.write({"db": session("db"), "web": session("web", "dependsOn: [Session/p/db]")})
    plan = lab.plan()
    assert not plan.waits
    assert "Session/p/db" in action(plan, "Session/p/web").depends_on
    lab.write({"db": session("db", "resources: {cpu: 100}")})
    assert sorted(wait.session for wait in lab.plan().waits) == ["Session/p/db", "Session/p/web"]


def test_protection_holds_when_the_document_is_gone(lab: Lab) -> None:
    lab.write({"a": session("a", meta="annotations: {bai/protect: 'true'}")})
    lab.apply()
    lab.drop("a")
    for plan in (lab.plan(), lab.plan(destroy=True)):
        assert [(one.guard, one.resources) for one in plan.violations] == [("protect", ("Session/p/a",))]
    lab.lose_store()
    assert lab.plan().violations
    with pytest.raises(GuardRefused, match="Session/p/a"):
        lab.apply()
    assert lab.world.kernels


def test_destroy_leaves_nothing(lab: Lab) -> None:
    lab.write({"a": session("a", ONE_GPU), "big": session("big", "resources: {cpu: 99}")})
    lab.apply()
    plan = lab.plan(destroy=True)
    assert {each.verb for each in plan.actions} == {"delete"}
    assert action(plan, "Project/p").depends_on == ("Session/p/a", "Session/p/big")
    assert action(plan, "Node/n1").depends_on == ("Session/p/a",), "nodes go when nothing runs on them"
    assert lab.apply(plan).ok
    assert not lab.world.kernels and not lab.store.recorded("here")
    assert not lab.plan(destroy=True).actions


def test_an_incomplete_observation_touches_nothing(lab: Lab) -> None:
    lab.write({"a": session("a"), "b": session("b")})
    lab.apply()
    lab.world.hidden.add(lab.kernel("a"))
    lab.drop("b")
    lab.write({"c": session("c")})
    plan = lab.plan()
    assert not plan.complete and not plan.changes
    assert plan.waits[0].reasons[0].code == "not-observed"
    lab.world.hidden.clear()
    lab.world.inject(Fault("observe"))
    assert not lab.plan().changes
    assert summary(lab.plan()) == {"Session/p/b": "delete", "Session/p/c": "create"}


def test_a_lost_store_is_made_anew_from_labels(lab: Lab) -> None:
    lab.write(
        {
            "a": session("a", ONE_GPU, meta="labels: {x: y}"),
            "b": session("b", "cluster: {roles: {main: 1, sub: 1}}"),
        }
    )
    lab.apply()
    before = lab.store.recorded("here")
    lab.lose_store()
    plan = lab.plan()
    assert all(summary(plan)[identity] == "update" for identity in ("Session/p/a", "Session/p/b"))
    assert not any(each.session_after.specs for each in plan.changes if each.session_after)
    made = list(lab.world.created)
    assert not lab.converge().changes
    assert lab.world.created == made
    for identity in ("Session/p/a", "Session/p/b"):
        after = lab.store.recorded("here")[identity]
        assert (after.generation, after.digest, after.document, after.kernels) == (
            before[identity].generation,
            before[identity].digest,
            before[identity].document,
            before[identity].kernels,
        )
        assert after.placement and before[identity].placement
        assert after.placement.kernels == before[identity].placement.kernels


def test_kernels_of_older_generations_are_removed(lab: Lab) -> None:
    lab.write({"a": session("a")})
    lab.apply()
    spec = lab.world.kernels[lab.kernel("a")].spec
    old = replace(spec, id=spec.id.replace("-g1", "-g0"), labels=replace(spec.labels, generation=0))
    lab.provider.create(old)
    assert summary(lab.plan()) == {"Session/p/a": "update"}
    assert not lab.converge().changes
    assert list(lab.world.kernels) == [spec.id]


def test_what_others_hold_is_taken(lab: Lab) -> None:
    lab.write({"a": session("a", "resources: {cpu: 2, memory: 1GiB, cuda.device: 2}")})
    lab.apply()
    mine = lab.world.kernels[lab.kernel("a")]
    labels = replace(mine.spec.labels, repo="somebody-else", document=canonical_json({}))
    lab.drop("a")
    lab.apply()
    lab.provider.create(replace(mine.spec, id="theirs-g1", labels=labels))
    lab.write({"a": session("a", "resources: {cpu: 2, memory: 1GiB, cuda.device: 1}")})
    plan = lab.plan()
    assert [wait.session for wait in plan.waits] == ["Session/p/a"]
    lab.provider.remove("theirs-g1")
    assert not lab.plan().waits


def test_a_kernel_of_ours_without_a_session_is_removed(lab: Lab) -> None:
    spec_labels = Labels("feedfacefeedface", "here", "", 1, "d", "main1", "n1")
    lab.write({"a": session("a")})
    lab.apply()
    kernel = lab.world.kernels[lab.kernel("a")].spec
    lab.provider.create(replace(kernel, id="odd-g1", labels=spec_labels))
    lab.world.unlabelled = ("strange",)
    plan = lab.plan()
    assert summary(plan) == {"Kernel/odd-g1": "delete"}
    assert any("strange" in warning for warning in plan.warnings)
    assert not lab.converge().changes


def test_targets_take_along_what_they_refer_to(lab: Lab) -> None:
    lab.write({"a": session("a"), "b": session("b")})
    plan = lab.plan(targets=("Session/p/a",))
    assert sorted(summary(plan)) == ["Cluster/here", "Project/p", "ResourceGroup/default", "Session/p/a"]
    with pytest.raises(PlanError, match="did you mean Session/p/a"):
        lab.plan(targets=("Session/p/aa",))
    lab.apply()
    lab.drop("a")
    assert not lab.plan(targets=("Session/p/b",)).changes
    assert summary(lab.plan(targets=("Session/p/*",))) == {"Session/p/a": "delete"}


def test_a_target_never_gets_what_others_hold(lab: Lab) -> None:
    lab.write({"a": session("a", "resources: {cpu: 1, cuda.device: 2}")})
    lab.apply()
    lab.drop("a")
    lab.write({"b": session("b", "resources: {cpu: 1, cuda.device: 1}")})
    assert [wait.session for wait in lab.plan(targets=("Session/p/b",)).waits] == ["Session/p/b"]


def test_changed_limits_are_drift_and_are_put_right(lab: Lab) -> None:
    lab.write({"a": session("a", ONE_GPU)})
    lab.apply()
    kernel = lab.world.kernels[lab.kernel("a")]
    right = kernel.spec.cpus
    kernel.spec = replace(kernel.spec, cpus=(6, 7))
    plan = lab.plan()
    assert "runs on CPUs 6-7 instead of" in plan.drifts[0].what
    assert summary(plan) == {"Session/p/a": "update"}
    assert not lab.plan(refresh_only=True).actions
    assert not lab.converge().changes
    assert lab.world.kernels[lab.kernel("a")].spec.cpus == right


def test_a_node_that_goes_is_forgotten_after_its_sessions_have_left(tmp_path: Path) -> None:
    lab = Lab(tmp_path, nodes=2)
    lab.write({"a": session("a", f"{ONE_GPU}, movable: true")})
    lab.apply()
    home = lab.world.kernels[lab.kernel("a")].spec.labels.node
    left = "n2" if home == "n1" else "n1"
    lab.write({"nodes": NODE.format(name=left)})
    plan = lab.plan()
    assert action(plan, f"Node/{home}").verb == "delete"
    assert action(plan, f"Node/{home}").depends_on == ("Session/p/a",)
    assert not lab.converge().changes


def test_sessions_leave_a_drained_node(tmp_path: Path) -> None:
    lab = Lab(tmp_path, nodes=2)
    lab.write({"a": session("a", f"{ONE_GPU}, movable: true")})
    lab.apply()
    home = lab.world.kernels[lab.kernel("a")].spec.labels.node
    nodes = (lab.folder / "nodes.yaml").read_text()
    marked = nodes.replace(
        f"metadata: {{name: {home}}}\nspec:\n", f"metadata: {{name: {home}}}\nspec:\n  state: drained\n"
    )
    lab.write({"nodes": marked})
    found = action(lab.plan(), "Session/p/a")
    assert found.verb == "replace" and found.why == f"node {home} is drained"
    assert not lab.converge().changes
    assert lab.world.kernels[lab.kernel("a")].spec.labels.node != home


def test_root_is_told_of_where_it_is_the_machines(lab: Lab) -> None:
    lab.provider._capabilities = Capabilities("docker", frozenset(Limit), shared_root=frozenset({"n1"}))
    lab.write({"base": BASE.replace("default}\nspec: {}", "default}\nspec: {allowRoot: true}")})
    lab.write({"a": session("a", "container: {user: root, capabilities: [SYS_PTRACE]}")})
    lab.write({"b": session("b", "container: {capabilities: [SYS_PTRACE]}")})
    plan = lab.plan()
    said = {name: action(plan, f"Session/p/{name}").warnings for name in "ab"}
    assert "root of the kernel of n1" in said["a"][0] and len(said["a"]) == 1
    assert said["b"] == ("spec.container.capabilities are root's: other users have none of them",)
    lab.provider._capabilities = Capabilities("docker", frozenset(Limit))
    assert action(lab.plan(), "Session/p/a").warnings == ()
    lab.provider._capabilities = Capabilities("kubernetes", frozenset(Limit), shared_root=frozenset({"n1"}))
    (pod,) = action(lab.plan(), "Session/p/a").warnings
    assert pod.endswith("with few capabilities: its pod is in no user namespace")


def test_limits_that_only_other_nodes_lack_are_no_matter(lab: Lab) -> None:
    lab.write({"a": session("a", "resources: {cpu: 1, memory: 64MiB}")})
    lacks = {Limit.CPUSET: "nobody pins there"}
    for nodes, warned in ((frozenset({"n1"}), True), (frozenset({"n9"}), False)):
        lab.provider._capabilities = Capabilities(
            "weak", frozenset(Limit) - lacks.keys(), lacks, missing_on={Limit.CPUSET: nodes}
        )
        said = action(lab.plan(), "Session/p/a").warnings
        assert (said == ("CPU pinning is not enforced: nobody pins there",)) is warned
        assert bool(said) is warned


def test_limits_that_nobody_enforces_are_named(lab: Lab) -> None:
    lab.provider._capabilities = Capabilities("weak", frozenset())
    lab.write({"a": session("a", ONE_GPU)})
    warnings = action(lab.plan(), "Session/p/a").warnings
    assert any(warning.startswith("CPU pinning is not enforced") for warning in warnings)


def test_a_fraction_that_cannot_be_enforced_is_refused(lab: Lab) -> None:
    group = "fractional: {enforcement: mps}"
    base = (lab.folder / "base.yaml").read_text()
    lab.write(
        {
            "base": base.replace(
                "metadata: {name: default}\nspec: {}", f"metadata: {{name: default}}\nspec: {{{group}}}"
            )
        }
    )
    lab.provider._capabilities = replace(lab.provider.capabilities(), fractions=frozenset())
    lab.write({"a": session("a", "resources: {cpu: 1, cuda.shares: 0.5}")})
    assert lab.plan().waits[0].reasons[0].code == "fraction-not-enforced"
    lab.provider._capabilities = replace(lab.provider.capabilities(), fractions=frozenset({"mps"}))
    assert not lab.plan().waits


def test_a_session_that_waited_too_long_is_cancelled(lab: Lab) -> None:
    base = (lab.folder / "base.yaml").read_text()
    queue = "queueOptions: {pendingTimeout: 1m}"
    lab.write(
        {
            "base": base.replace(
                "metadata: {name: default}\nspec: {}", f"metadata: {{name: default}}\nspec: {{{queue}}}"
            )
        }
    )
    lab.write({"a": session("a", "resources: {cpu: 99}")})
    lab.apply()
    lab.world.clock.sleep(61)
    assert action(lab.plan(), "Session/p/a").after.phase == "CANCELLED"  # type: ignore[union-attr]
    assert not lab.converge().changes
    lab.write({"a": session("a", "resources: {cpu: 1}")})
    assert summary(lab.plan()) == {"Session/p/a": "create"}


def test_a_failed_creation_is_tried_again(lab: Lab) -> None:
    lab.write({"a": session("a")})
    kernel = action(lab.plan(), "Session/p/a").after.kernels[0]  # type: ignore[union-attr]
    lab.world.inject(Fault("create", kernel, failure="refused"))
    assert not lab.apply().ok
    assert "Session/p/a" in summary(lab.plan())
    assert not lab.converge().changes
    assert len(lab.world.kernels) == 1


def test_secrets_stay_references(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAI_TEST_TOKEN", "hush-hush")
    lab.write({"a": session("a", "secrets: [{env: TOKEN, from: 'env/BAI_TEST_TOKEN'}]")})
    plan = lab.plan()
    assert action(plan, "Session/p/a").after.secrets == {"TOKEN": "env/BAI_TEST_TOKEN"}  # type: ignore[union-attr]
    assert not lab.converge().changes
    assert "hush-hush" not in repr(lab.store.recorded("here")) + text(plan) + repr(lab.world.kernels)


def test_drift_that_the_provider_cannot_put_right_is_only_reported(lab: Lab) -> None:
    lab.provider._capabilities = replace(lab.provider.capabilities(), in_place=frozenset({"labels"}))
    lab.write({"a": session("a", ONE_GPU)})
    lab.apply()
    kernel = lab.world.kernels[lab.kernel("a")]
    kernel.spec = replace(kernel.spec, cpus=(6, 7))
    plan = lab.plan()
    assert plan.drifts and not plan.changes
