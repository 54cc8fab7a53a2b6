"""Images in plans and applies: early, when missing, pinned, refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.apply.action_graph import build_action_graph
from reconciler.values.encoding.plan_json import dump_plan, load_plan
from schemas.problems.errors.node import PullFailed
from schemas.problems.errors.registry import RegistryUnreachable
from tests.reconciler.lab import Lab, action, session, summary
from tests.reconciler.pulls import ImageLab, failures, full

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
ARM = """
apiVersion: bai/v1
kind: Node
metadata: {name: arm}
spec:
  resourceGroup: default
  hardware: {architecture: aarch64, numaNodes: [{id: 0, cpus: 0-7, memory: 34359738368}]}
"""


def image(spec: str, name: str = "tool") -> str:
    return f"apiVersion: bai/v1\nkind: Image\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"


EARLY = "reference: 'r.io/tool:1', prePull: {all: true}"
LOGIN = """
apiVersion: bai/v1
kind: Registry
metadata: {name: r}
spec: {address: r.io, credentials: {username: bai, passwordFrom: "env/R_PASSWORD"}}
"""
SMALL = "image: tool, resources: {cpu: 1, memory: 1GiB}"


@pytest.fixture
def lab(tmp_path: Path) -> ImageLab:
    return ImageLab(tmp_path)


def test_an_early_image_comes_once_and_again_when_it_was_removed(lab: ImageLab) -> None:
    lab.write({"image": image(EARLY)})
    lab.learn("r.io/tool:1", DIGEST, amd64=1000)
    plan = lab.plan()
    after = action(plan, "Image/tool").after
    assert after is not None
    assert [(pull.node, pull.size) for pull in after.pulls] == [("n1", 1000), ("n2", 1000)]
    assert load_plan(dump_plan(plan)) == plan
    assert lab.converge().changes == ()
    lab.shelf.has["n2"].clear()
    plan = lab.plan()
    assert [(a.id, a.verb, a.why) for a in plan.changes] == [("Image/tool", "update", "not on n2")]
    assert lab.converge().changes == ()
    first, second, again = (request.node for request in lab.shelf.asked)
    assert {first, second} == {"n1", "n2"} and again == "n2", "those of one apply are fetched side by side"


def test_nobody_is_asked_about_images_where_none_is_early(lab: ImageLab) -> None:
    lab.write({"image": image("reference: 'r.io/tool:1'"), "s": session("s", SMALL)})
    lab.shelf.has = {"n1": {"r.io/tool:1"}, "n2": {"r.io/tool:1"}}
    assert lab.converge().changes == ()
    assert lab.shelf.looked == []
    assert lab.shelf.asked == []


def test_the_chosen_nodes(lab: ImageLab) -> None:
    lab.write({"arm": ARM})
    for chosen, nodes in (
        ("all: true", ["n1", "n2"]),
        ("nodes: [n2]", ["n2"]),
        ("resourceGroups: [default]", ["n1", "n2"]),
        ("nodeSelector: {rack: r9}", []),
    ):
        lab.write(
            {"image": image(f"reference: 'r.io/tool:1', architectures: [amd64], prePull: {{{chosen}}}")}
        )
        after = action(lab.plan(), "Image/tool").after
        assert after is not None
        assert [pull.node for pull in after.pulls] == nodes


def test_a_session_waits_for_its_own_nodes_pull_and_no_other(lab: ImageLab) -> None:
    lab.write({"image": image(EARLY), "s": session("s", f"{SMALL}, placement: {{nodes: [n1]}}")})
    parts = build_action_graph(lab.plan())
    acquire = next(part for part in parts.values() if part.id == "Session/p/s#acquire")
    assert "Image/tool#pull@n1" in acquire.after
    assert "Image/tool#pull@n2" not in acquire.after
    lab.shelf.fails = {"n2": [PullFailed(provider="fake", node="n2", image="r.io/tool:1", why="disk full")]}
    result = lab.apply()
    assert set(failures(result)) == {"Image/tool"}
    assert "disk full" in str(failures(result)["Image/tool"])
    steps = lab.steps()
    created = next(at for at, step in enumerate(steps) if step[0].startswith("create"))
    assert steps.index(("pull n1", "done")) < created
    assert summary(lab.plan()) == {"Image/tool": "update"}
    assert lab.converge().changes == ()


def test_a_session_is_skipped_where_its_image_does_not_come(lab: ImageLab) -> None:
    lab.write({"image": image(EARLY), "s": session("s", f"{SMALL}, placement: {{nodes: [n1]}}")})
    lab.shelf.fails = {"n1": [PullFailed(provider="fake", node="n1", image="r.io/tool:1", why="no")]}
    assert failures(lab.apply())["Session/p/s"] == "Image/tool"
    assert lab.converge().changes == ()


def test_pulls_leave_room_for_others(lab: ImageLab) -> None:
    lab.write({name: image(f"reference: 'r.io/{name}:1', prePull: {{all: true}}", name) for name in "abcd"})
    assert lab.apply(parallel=2).ok
    assert lab.shelf.most == 1


def test_a_missing_image_is_fetched_when_the_session_starts(lab: ImageLab) -> None:
    lab.write({"s": session("s", "image: 'r.io/tool:1', resources: {cpu: 1}")})
    assert lab.converge().changes == ()
    phases = [event.after for event in lab.store.events("here", resource="Session/p/s")]
    assert phases == ["PENDING", "SCHEDULED", "PREPARING", "CREATING", "PULLING", "CREATING", "RUNNING"]
    assert [event.pull.layers_done for event in lab.events if event.pull] == [0, 2]
    again = session("t", "image: 'r.io/tool:1', resources: {cpu: 1}, placement: {nodes: [n1]}")
    lab.write({"t": again})
    lab.shelf.has["n1"] = {"r.io/tool:1"}
    before = len(lab.shelf.asked)
    assert lab.converge().changes == ()
    assert len(lab.shelf.asked) == before
    phases = [event.after for event in lab.store.events("here", resource="Session/p/t")]
    assert "PULLING" not in phases


def test_always_asks_before_every_start_and_never_does_not(lab: ImageLab) -> None:
    lab.shelf.has = {node: {"r.io/tool:1"} for node in ("n1", "n2")}
    lab.write({"image": image("reference: 'r.io/tool:1', pullPolicy: always"), "s": session("s", SMALL)})
    assert lab.converge().changes == ()
    assert [request.policy for request in lab.shelf.asked] == ["always"]
    lab.shelf.has.clear()
    lab.write({"image": image("reference: 'r.io/tool:2', pullPolicy: never")})
    assert "does not have the image" in str(failures(lab.apply())["Session/p/s"])
    assert len(lab.shelf.asked) == 1


def test_what_cannot_be_fetched_ends_in_error_and_is_tried_again(lab: ImageLab) -> None:
    lab.write({"s": session("s", "image: 'r.io/tool:1', resources: {cpu: 1}, placement: {nodes: [n1]}")})
    lab.shelf.fails = {"n1": [PullFailed(provider="fake", node="n1", image="i", why="no such thing")]}
    assert "no such thing" in str(failures(lab.apply())["Session/p/s"])
    assert lab.store.recorded("here")["Session/p/s"].phase == "ERROR"
    lab.shelf.fails = {"n1": [RegistryUnreachable(registry="r.io", why="busy")] * 2}
    assert lab.converge().changes == ()  # tried again within the apply


def test_the_password_is_read_while_applying_and_is_in_no_plan(
    lab: ImageLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("R_PASSWORD", raising=False)
    lab.write({"login": LOGIN, "image": image(EARLY), "s": session("s", SMALL)})
    plan = lab.plan()
    assert "env/R_PASSWORD" in dump_plan(plan)
    result = lab.apply(plan)
    assert "R_PASSWORD" in str(failures(result)["Image/tool"])
    assert lab.shelf.asked == []
    monkeypatch.setenv("R_PASSWORD", "sesame")
    assert lab.apply().ok
    import base64
    import json

    sent = json.loads(base64.urlsafe_b64decode(lab.shelf.asked[0].auth))
    assert sent == {"username": "bai", "password": "sesame", "serveraddress": "r.io"}
    assert "sesame" not in repr(lab.shelf.asked[0]) + repr(lab.store.journal("here"))


def test_a_killed_pull_is_taken_up_again(lab: ImageLab) -> None:
    class Killed(BaseException):
        pass

    lab.write({"image": image(EARLY), "s": session("s", SMALL)})
    lab.shelf.fails = {"n1": [Killed()], "n2": [Killed()]}
    with pytest.raises(Killed):
        lab.apply()
    assert any(entry.kind == "pull" for entry in lab.store.open_intents("here"))
    lab.shelf.fails.clear()  # Of the two, one may have died before the other began.
    lab.world.clock.sleep(120)
    assert lab.converge().changes == ()
    assert not lab.store.open_intents("here")
    assert len(lab.world.kernels) == 1


def test_a_session_killed_while_it_pulls_is_taken_up_again(lab: ImageLab) -> None:
    class Killed(BaseException):
        pass

    lab.write({"s": session("s", "image: 'r.io/tool:1', resources: {cpu: 1}")})
    lab.shelf.fails = {"n1": [Killed()], "n2": [Killed()]}
    with pytest.raises(Killed):
        lab.apply()
    lab.world.clock.sleep(120)
    assert lab.converge().changes == ()
    assert len(lab.world.kernels) == 1


def test_a_provider_that_fetches_nothing_is_said(tmp_path: Path) -> None:
    plain = Lab(tmp_path)
    plain.write({"image": image(EARLY)})
    assert action(plain.plan(), "Image/tool").warnings == ("provider fake fetches no images early",)
    assert plain.converge().changes == ()


# Pinned


def test_a_pinned_image_runs_by_digest_and_what_runs_stays(lab: ImageLab) -> None:
    lab.write({"image": image("reference: 'r.io/tool:1', pin: digest"), "s": session("s", SMALL)})
    warned = action(lab.plan(), "Session/p/s").warnings
    assert any("bai images scan" in warning for warning in warned)
    lab.learn("r.io/tool:1", DIGEST, amd64=7)
    plan = lab.plan()
    after = action(plan, "Session/p/s").after
    assert after is not None
    assert not any("scan" in warning for warning in action(plan, "Session/p/s").warnings)
    assert {spec.image for spec in after.specs} == {f"r.io/tool@{DIGEST}"}
    assert [(pull.image, pull.size) for pull in after.pulls] == [(f"r.io/tool@{DIGEST}", 7)]
    assert lab.converge().changes == ()
    lab.learn("r.io/tool:1", OTHER, amd64=7)
    assert lab.plan().changes == ()
    lab.write({"t": session("t", SMALL)})
    assert lab.converge().changes == ()
    images = {kernel.spec.image for kernel in lab.world.kernels.values()}
    assert images == {f"r.io/tool@{DIGEST}", f"r.io/tool@{OTHER}"}


def test_an_early_pinned_image_follows_what_is_learned(lab: ImageLab) -> None:
    lab.write({"image": image(f"{EARLY}, pin: digest")})
    lab.learn("r.io/tool:1", DIGEST, amd64=7)
    assert lab.converge().changes == ()
    assert lab.shelf.has["n1"] == {f"r.io/tool@{DIGEST}"}
    lab.learn("r.io/tool:1", OTHER, amd64=7)
    assert summary(lab.plan()) == {"Image/tool": "update"}
    assert lab.converge().changes == ()


@pytest.mark.parametrize(
    ("rules", "by_digest"),
    [
        (None, True),
        ("pullPolicy: missing", True),
        ("pin: tag", False),
        ("pullPolicy: always", False),
        ("pullPolicy: never", False),
        ("pullPolicy: never, pin: digest", True),
    ],
)
def test_a_tag_that_is_known_is_run_by_digest(lab: ImageLab, rules: str | None, by_digest: bool) -> None:
    """Unless its document says otherwise; an older answer is not the newest, which `always` wants."""
    if rules is not None:
        lab.write({"image": image(f"reference: 'r.io/tool:1', {rules}")})
    lab.learn("r.io/tool:1", DIGEST, amd64=7)
    lab.write({"s": session("s", "image: 'r.io/tool:1', resources: {cpu: 1}")})
    after = action(lab.plan(), "Session/p/s").after
    assert after is not None
    assert {spec.image for spec in after.specs} == {f"r.io/tool@{DIGEST}" if by_digest else "r.io/tool:1"}


def test_a_container_that_joins_others_is_made_from_what_they_are(lab: ImageLab) -> None:
    gang = "image: 'r.io/tool:1', resources: {cpu: 1}, cluster: {roles: {main: 1, sub: 1}}"
    lab.learn("r.io/tool:1", DIGEST, amd64=7)
    lab.write({"s": session("s", gang)})
    assert lab.converge().changes == ()
    lab.learn("r.io/tool:1", OTHER, amd64=7)
    lab.world.vanish(next(iter(lab.world.kernels)))
    after = action(lab.plan(), "Session/p/s").after
    assert after is not None
    assert [spec.image for spec in after.specs] == [f"r.io/tool@{DIGEST}"]
    assert lab.converge().changes == ()
    assert {kernel.spec.image for kernel in lab.world.kernels.values()} == {f"r.io/tool@{DIGEST}"}
    (first, second) = lab.plan().drifts
    assert f"r.io/tool:1 means {OTHER} now" in first.what and first.kernel != second.kernel
    after = action(lab.plan(anew=("Session/p/s",)), "Session/p/s").after
    assert after is not None
    assert {spec.image for spec in after.specs} == {f"r.io/tool@{OTHER}"}


def test_another_tag_replaces_the_sessions_that_use_it(lab: ImageLab) -> None:
    lab.write({"image": image("reference: 'r.io/tool:1'"), "s": session("s", SMALL)})
    assert lab.converge().changes == ()
    lab.write({"image": image("reference: 'r.io/tool:2'")})
    change = next(c for c in action(lab.plan(), "Session/p/s").changes if c.path == "spec.image")
    assert (change.before, change.after, change.forces) == ("r.io/tool:1", "r.io/tool:2", True)


# What images ask


def test_labels_keep_a_session_waiting_with_the_reason(lab: ImageLab) -> None:
    lab.learn("r.io/big:1", DIGEST, {"ai.backend.resource.min.mem": "2g"}, amd64=1)
    lab.write({"s": session("s", "image: 'r.io/big:1', resources: {cpu: 1, memory: 1GiB}")})
    (wait,) = lab.plan().waits
    assert [(reason.code, reason.message) for reason in wait.reasons] == [
        ("image", "main1 has 1GiB of memory, and image r.io/big:1 needs at least 2GiB of memory")
    ]
    lab.write({"s": session("s", "image: 'r.io/big:1', resources: {cpu: 1, memory: 2GiB}")})
    assert lab.plan().waits == ()


def test_sessions_go_where_their_images_run(lab: ImageLab) -> None:
    lab.write({"arm": ARM})
    lab.learn("r.io/arm:1", DIGEST, arm64=1)
    lab.learn("r.io/both:1", DIGEST, arm64=1, amd64=1)
    lab.write(
        {
            "a": session("a", "image: 'r.io/arm:1', resources: {cpu: 1}"),
            "b": session("b", "image: 'r.io/both:1', resources: {cpu: 1}"),
            "c": session("c", "image: 'r.io/arm:1', resources: {cpu: 1}, placement: {nodes: [n1]}"),
        }
    )
    plan = lab.plan()
    placed = action(plan, "Session/p/a").after
    assert placed is not None
    assert placed.placement is not None
    assert {kernel.node for kernel in placed.placement.kernels} == {"arm"}
    assert [wait.session for wait in plan.waits] == ["Session/p/c"]


def test_a_session_takes_over_what_it_leaves_out(lab: ImageLab) -> None:
    spec = "reference: 'docker.io/tool:1', minimum: {cpu: 2, memory: 3GiB}, ports: [{name: web, port: 80}]"
    lab.write({"image": image(spec), "s": session("s", "image: tool, resources: {memory: 4GiB}")})
    document = lab.desired().documents["Session/p/s"]
    assert document["spec"] == {
        "command": ["sleep", "inf"],
        "image": "tool:1",
        "ports": [{"name": "web", "port": 80}],
        "resourceGroup": "default",
        "resources": {"cpu": 2, "memory": "4GiB"},
    }
    lab.write({"s": session("s", "image: tool, type: batch")})
    assert "ports" not in lab.desired().documents["Session/p/s"]["spec"]  # type: ignore[operator]


def test_destroying_forgets_images_and_fetches_nothing(lab: ImageLab) -> None:
    lab.write({"image": image(EARLY)})
    assert lab.converge().changes == ()
    lab.shelf.has.clear()
    plan = lab.plan(destroy=True)
    assert action(plan, "Image/tool").verb == "delete"
    asked = len(lab.shelf.asked)
    assert lab.apply(plan).ok
    assert len(lab.shelf.asked) == asked
    assert full("r.io/tool:1") not in lab.shelf.has


# what becomes of images that run


def test_an_image_that_lost_its_name_is_told_and_what_runs_stays(lab: ImageLab) -> None:
    lab.write({"image": image("reference: 'r.io/tool:1'"), "s": session("s", SMALL)})
    assert lab.converge().drifts == ()
    lab.shelf.means = {"r.io/tool:1": "another"}
    (drift,) = lab.converge().drifts
    assert (drift.resource, "n1" in drift.what) == ("Session/p/s", True)
    assert "what r.io/tool:1 was when it started" in drift.what and "--replace" in drift.what
    lab.shelf.means = {"r.io/tool:1": "gone"}
    plan = lab.plan()
    assert [each.what for each in plan.drifts] == ["runs on, and n1 no longer has its image r.io/tool:1"]
    assert plan.changes == () and load_plan(dump_plan(plan)) == plan
    lab.drop("s")
    assert lab.converge().drifts == ()


def test_who_pulls_always_moves_the_name_himself(lab: ImageLab) -> None:
    lab.write({"image": image("reference: 'r.io/tool:1', pullPolicy: always"), "s": session("s", SMALL)})
    assert lab.apply().ok
    lab.shelf.means = {"r.io/tool:1": "another"}
    assert lab.plan().drifts == ()
    lab.shelf.means = {"r.io/tool:1": "gone"}
    assert len(lab.plan().drifts) == 1
