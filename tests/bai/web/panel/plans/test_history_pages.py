"""What was applied, one apply in full, and two commits beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bai.web.panel.plans import history_page as module
from bai.web.panel.plans.history_page import apply_page, history_page
from providers.fake import Fault
from schemas.problems.errors.command import CommandError
from tests.bai.web.lab import Lab
from tests.bai.web.panel.markup import check_names, check_policy, parsed
from tests.bai.web.panel.plans.following import GPU, FollowingLab, visitor
from tests.bai.web.panel.rendering import HOSTILE, assert_harmless, hostile, render, view_of
from tests.reconciler.gitops.repositories import git
from tests.reconciler.lab import session


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FollowingLab]:
    """Two commits that were applied, without approval; tests leave it as it is."""
    made = FollowingLab(tmp_path_factory.mktemp("history"), approval=False)
    made.push({"a.yaml": None, "c.yaml": session("c", GPU)}, message=f"the second {HOSTILE}")
    made.once()
    made.once()
    yield made
    made.close()


def shown(lab: Lab, where: str, **asked: Any) -> str:
    answer = visitor(lab).get(f"/clusters/here/{where}", params=asked)
    assert answer.status_code == 200, answer.text
    seen = parsed(answer.text)
    check_policy(seen)
    check_names(seen)
    text: str = answer.text
    return text


def test_each_row_says_who_what_which_commit_and_which_plan(lab: FollowingLab) -> None:
    found = history_page(view_of(lab), 50)
    second, first = (row for row in found.rows if row.apply)
    assert first.commit == git(lab.pair.work, "rev-parse", "main~1") and second.commit == lab.commit
    assert (second.before, first.before) == (first.commit, "")
    assert second.author == "Ada <ada@cluster.example>" and second.subject.startswith("the second <img")
    page = shown(lab, "history")
    assert f"/clusters/here/history/{second.apply}" in page and second.plan[:12] in page
    assert f"compare?from={first.commit}&amp;to={second.commit}" in page
    assert "<img" not in page and "\x1b" not in page


def test_an_apply_is_told_with_its_actions_and_how_long_they_took(lab: FollowingLab) -> None:
    row = history_page(view_of(lab), 50).rows[0]
    found = apply_page(view_of(lab), row.apply)
    verbs = {each.resource: each.verb for each in found.actions.items}
    assert verbs["Session/p/a"] == "delete" and verbs["Session/p/c"] == "create"
    entries = lab.loop.workspace.store.journal("here", row.apply)
    for action in found.actions.items:
        mine = [each for each in entries if each.action == action.resource]
        assert {step.name for step in action.steps} == {each.step for each in mine}, action.resource
        assert all(step.state == "done" and step.seconds is not None for step in action.steps)
    assert found.has_steps and found.failed == 0 and found.plan == row.plan
    page = shown(lab, f"history/{row.apply}")
    assert "Session/p/c" in page and "the second &lt;img" in page and row.plan in page


def test_an_apply_that_failed_says_why(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.once()
    lab.world.inject(Fault("create", failure="refused", times=99))
    lab.write("s", session("s"))
    lab.once()
    row = next(each for each in history_page(view_of(lab), 50).rows if each.failed)
    found = apply_page(view_of(lab), row.apply)
    (failed,) = [each for each in found.actions.items if each.error]
    assert failed.resource == "Session/p/s" and found.failed == 1
    assert [step.error for step in failed.steps if step.state == "failed"] == [failed.error]
    page = visitor(lab).get(f"/clusters/here/history/{row.apply}").text
    assert f"failed: {failed.error}"[:30] in page
    lab.close()


def test_many_actions_are_cut_into_pages(lab: FollowingLab, monkeypatch: pytest.MonkeyPatch) -> None:
    row = history_page(view_of(lab), 50).rows[-1]
    whole = apply_page(view_of(lab), row.apply).actions
    monkeypatch.setattr(module, "MOST_ACTIONS", 2)
    parts = [apply_page(view_of(lab), row.apply, at).actions for at in range(1, -(-whole.total // 2) + 1)]
    assert whole.total > 2 and tuple(each for part in parts for each in part.items) == whole.items
    assert "the rest" in shown(lab, f"history/{row.apply}")


@pytest.mark.parametrize("name", ["none", "here", "<img src=x>", "%00", "here-1%' OR 1=1"])
def test_there_is_no_other_apply(lab: FollowingLab, name: str) -> None:
    with pytest.raises(CommandError):
        apply_page(view_of(lab), name)
    answer = visitor(lab).get(f"/clusters/here/history/{name}")
    assert answer.status_code == 404 and "<img" not in answer.text


def test_two_commits_are_compared_either_way(lab: FollowingLab) -> None:
    first, second = git(lab.pair.work, "rev-parse", "main~1"), lab.commit
    page = shown(lab, "compare", **{"from": first, "to": second})
    assert "the second &lt;img" in page and "<img" not in page
    assert 'change delete" aria-label="Session/p/a"' in page
    assert 'change create" aria-label="Session/p/c"' in page
    assert "Session/p/b" not in page
    assert shown(lab, "compare", to=second).replace(f'value="{first}"', 'value=""').count("<article") == 2
    back = shown(lab, "compare", **{"from": second, "to": first})
    assert 'change create" aria-label="Session/p/a"' in back and "1 commit of the first is not in" in back
    assert 'class="added"' in back and 'class="removed"' in back
    same = shown(lab, "compare", **{"from": "main", "to": second})
    assert "No document differs." in same and "No commits." in same
    whole = shown(lab, "compare", to=first)
    assert "nothing</code> →" in whole and 'change create" aria-label="Session/p/b"' in whole


def test_what_is_hostile_in_values_stays_text(lab: FollowingLab) -> None:
    row = history_page(view_of(lab), 50).rows[0]
    assert_harmless(render("plans/apply.html", page=hostile(apply_page(view_of(lab), row.apply))))
