"""What a change does, foreseen, is what it then really does."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from bai.render.plan.markdown import LIMIT
from bai.render.plan.review_markdown import comment_marker, render_review_markdown
from reconciler.apply.apply import apply
from reconciler.apply.targets import ApplyTargets
from reconciler.observe.observe import observe
from reconciler.plan.pipeline import make_plan
from reconciler.plan.plan_request import PlanRequest
from reconciler.review import DocumentVersion, Review, build_review
from reconciler.review.predicted_state import observed_state
from reconciler.values.state import Actual, Desired
from tests.harness.examples import seeds
from tests.reconciler.lab import BASE, Lab, session, summary, text


def review(base: Desired | None, head: Desired, actual: Actual, now: float) -> Review:
    return build_review(DocumentVersion(base) if base else None, DocumentVersion(head), actual, now)


def pool(rng: random.Random) -> dict[str, str]:
    """Documents of some sessions: more than two small nodes hold."""
    names = [f"s{number}" for number in range(6) if rng.random() < 0.8]
    return {
        name: session(
            name,
            f"resources: {{cpu: {rng.choice([1, 2, 4])}, cuda.device: {rng.choice([0, 1, 2])}}}, "
            f"priority: {rng.choice([1, 5])}",
        )
        for name in names
    }


def with_base(lab: Lab, group: str) -> None:
    """The cluster with another spec of its group."""
    lab.write({"base": BASE.replace("name: default}\nspec: {}", f"name: default}}\nspec: {group}")})


def rewrite(lab: Lab, files: dict[str, str]) -> None:
    for path in lab.folder.glob("s[0-9].yaml"):
        path.unlink()
    lab.write(files)


@pytest.mark.parametrize("seed", seeds(18, count=40, beyond=pytest.mark.campaign))
def test_it_foresees_what_happens(tmp_path: Path, seed: int) -> None:
    """Reviewed first; then the base is applied, and the head planned: the same actions and waits."""
    rng = random.Random(seed)
    lab = Lab(tmp_path, nodes=2)
    if seed % 2:
        rewrite(lab, pool(rng))
        lab.apply()
    rewrite(lab, pool(rng))
    base = lab.desired()
    rewrite(lab, pool(rng))
    if seed % 3 == 0:
        with_base(lab, "{queue: lifo}")
    head = lab.desired()
    found = review(base, head, lab.actual(), lab.world.clock.now())
    assert_happens(lab, base, found)


def assert_happens(lab: Lab, base: Desired, found: Review) -> None:
    first = make_plan(PlanRequest(base, lab.actual(), lab.world.clock.now()))
    done = apply(first, ApplyTargets(lab.store, lab.provider, lab.world.clock), holder="tester")
    assert done.ok
    real = lab.plan()
    told = {each.id for each in found.plan.changes}
    changes = [each for each in real.changes if each.id in told or each.id not in still(found)]
    assert {each.id: each.verb for each in changes} == summary(found.plan)
    assert {w.session for w in real.waits} == {w.session for w in (*found.plan.waits, *found.still_waiting)}
    places = {each.id: each.placement_after for each in found.plan.changes if each.after}
    assert {each.id: each.placement_after for each in changes if each.after} == places


def still(found: Review) -> set[str]:
    return {wait.session for wait in found.still_waiting}


def test_nothing_changes_nothing(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write({"a": session("a", "resources: {cpu: 1}"), "b": session("b", "resources: {cuda.device: 9}")})
    found = review(lab.desired(), lab.desired(), lab.actual(), 1000.0)
    assert (found.plan.changes, found.plan.waits, found.disruptions, found.plan.violations) == (
        (),
        (),
        (),
        (),
    )
    assert [wait.session for wait in found.still_waiting] == ["Session/p/b"]
    assert found.pending > 0
    assert "No changes" in render_review_markdown(found)


def test_a_new_cluster_has_no_base(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write({"a": session("a")})
    found = review(None, lab.desired(), lab.actual(), 1000.0)
    assert summary(found.plan)["Session/p/a"] == "create"
    assert (found.base, found.pending) == ("", 0)


def test_who_is_moved_pushed_out_stopped_or_let_in_is_told(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    low = session("low", "resources: {cuda.device: 2}, priority: 1, preemptible: true")
    with_base(lab, "{preemption: {mode: priority}}")
    lab.write({"low": low, "waits": session("waits", "resources: {cuda.device: 1}, priority: 0")})
    base = lab.desired()
    lab.drop("low")
    let_in = review(base, lab.desired(), lab.actual(), 1000.0)
    assert [(one.session, one.effect) for one in let_in.disruptions] == [("Session/p/low", "stopped")]
    assert let_in.admitted == ("Session/p/waits",)
    lab.write({"low": low, "high": session("high", "resources: {cuda.device: 2}, priority: 9")})
    pushed = review(base, lab.desired(), lab.actual(), 1000.0)
    assert [(one.session, one.effect) for one in pushed.disruptions] == [("Session/p/low", "pushed out")]
    lab.drop("high")
    lab.write({"low": low.replace("cuda.device: 2", "cuda.device: 1")})
    assert [one.effect for one in review(base, lab.desired(), lab.actual(), 1000.0).disruptions] == ["moved"]


def test_what_is_protected_is_refused_and_said(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write({"a": session("a", meta='annotations: {bai/protect: "true"}')})
    base = lab.desired()
    lab.drop("a")
    found = review(base, lab.desired(), lab.actual(), 1000.0)
    assert [one.resources for one in found.plan.violations] == [("Session/p/a",)] and not found.passes
    assert "Refused: bai apply does not carry this out" in render_review_markdown(found)


def test_the_digest_is_that_of_what_happens(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write({"a": session("a", "resources: {cpu: 1}")})
    base = lab.desired()
    lab.write({"b": session("b", "resources: {cpu: 1}")})
    head = lab.desired()
    one = review(base, head, lab.actual(), 1000.0)
    again = review(base, replace(head, commit="0" * 40), lab.actual(), 1000.0)
    assert one.digest == again.digest
    lab.write({"b": session("b", "resources: {cpu: 2}")})
    assert review(base, lab.desired(), lab.actual(), 1000.0).digest != one.digest


@pytest.mark.parametrize("seed", range(10))
def test_what_runs_as_recorded_gives_the_digest_of_the_records(tmp_path: Path, seed: int) -> None:
    """Who reviews sees no more than the records, and who applies sees what runs."""
    rng = random.Random(seed)
    lab = Lab(tmp_path, nodes=2)
    rewrite(lab, pool(rng))
    base = lab.desired()
    lab.apply()
    rewrite(lab, pool(rng))
    head, now = lab.desired(), lab.world.clock.now()
    recorded = observe(lab.store, None, "here", repo=base.repo)
    assert recorded.capabilities is None and lab.actual().capabilities is not None
    found = review(base, head, recorded, now)
    assert review(base, head, observed_state(lab.actual(), now), now).digest == found.digest


def test_what_was_seen_and_not_recorded_counts(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write({name: session(name, "resources: {cuda.device: 1}") for name in ("a", "b")})
    base = lab.desired()
    lab.apply()
    lab.write({"c": session("c", "resources: {cuda.device: 1}")})
    lab.world.die(lab.kernel("a"))
    now = lab.world.clock.now()
    recorded = review(base, lab.desired(), observe(lab.store, None, "here", repo=base.repo), now)
    seen = review(base, lab.desired(), observed_state(lab.actual(), now), now)
    assert [wait.session for wait in recorded.plan.waits] == ["Session/p/c"] and not seen.plan.waits
    assert recorded.digest != seen.digest


def test_the_page_is_bounded_and_always_ends_with_what_was_reviewed(tmp_path: Path) -> None:
    lab = Lab(tmp_path, nodes=40)
    base = lab.desired()
    lab.write({f"s{n}": session(f"session-{n}", "resources: {cuda.device: 1}") for n in range(900)})
    found = review(base, lab.desired(), lab.actual(), 1000.0)
    assert len(render_review_markdown(found)) < 8_000, "what is alike is told together"
    (warning,) = (one for one in found.plan.warnings if "BAI-V095" in one)
    assert warning.endswith("(and 899 more like it: `bai validate`)")
    found = replace(found, plan=replace(found.plan, warnings=tuple(f"warning {n} " * 20 for n in range(900))))
    page = render_review_markdown(found)
    assert len(page) <= LIMIT
    assert page.startswith(comment_marker("here"))
    assert "more not shown here" in page
    assert found.digest in page.splitlines()[-1]
    assert text(found.plan).count("session-")
