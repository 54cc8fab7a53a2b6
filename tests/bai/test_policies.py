"""Policies as people meet them: in plans, reviews, explanations, and where they keep something from being
done."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.bai.conftest import Repo, new_repo

PAPER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {name: here}
spec: {provider: process}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: all}
spec: {}
---
apiVersion: bai/v1
kind: Project
metadata: {name: demo}
---
apiVersion: bai/v1
kind: Policy
metadata: {name: care}
spec: {overridable: true, guards: {requireOwner: true}}
---
apiVersion: bai/v1
kind: Node
metadata: {name: a}
spec:
  hardware:
    numaNodes: [{id: 0, cpus: 0-7, memory: 68719476736}]
"""
SESSION = """\
apiVersion: bai/v1
kind: Session
metadata: {{name: {name}, project: demo{more}}}
spec: {{command: [sleep, inf]}}
"""
NOTE = ', annotations: {override.bai/care: "2099-12-31 nobody | owns *it*"}'


@pytest.fixture
def paper(tmp_path: Path) -> Repo:
    repo = new_repo(tmp_path)
    (repo.root / "cluster.yaml").write_text(PAPER)
    (repo.root / "train.yaml").write_text(SESSION.format(name="train", more=""))
    return repo


def commit(repo: Repo) -> None:
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "change")):
        subprocess.run(["git", *words], cwd=repo.root, env={**os.environ, **repo.env}, check=True)


def test_a_plan_is_shown_with_what_stands_against_it(paper: Repo, tmp_path: Path) -> None:
    shown = paper("plan", "--offline", "--detailed-exitcode")
    assert shown.code == 1, "a refusal goes before the changes that 2 tells of"
    assert "Policy/care: Session/demo/train has no owner (write spec.owner)" in shown.out
    as_json = json.loads(paper("plan", "--offline", "--format", "json").out)["plan"]
    assert as_json["violations"] == [
        {
            "policy": "care", "guard": "requireOwner", "resources": ["Session/demo/train"],
            "why": "Session/demo/train has no owner", "hint": "write spec.owner",
        }
    ]  # fmt: skip
    page = paper("plan", "--offline", "--format", "markdown").out
    assert "> ⛔ Refused: bai apply does not carry this out:\n>\n> - Policy/care: Session/demo/train" in page
    saved = tmp_path / "plan.json"
    assert paper("plan", "--offline", "--out", str(saved)).code == 1
    for refused in (paper("apply", str(saved), "--yes"), paper("apply", "--yes")):
        assert refused.code == 1 and "Session/demo/train has no owner" in refused.err
    assert not (paper.root / ".bai").exists(), "nothing was written down"


def test_why_a_session_is_not_started_is_explained(paper: Repo) -> None:
    line = "refused: Policy/care: Session/demo/train has no owner"
    assert line in paper.ok("explain", "train", "--offline").out
    found = json.loads(paper.ok("explain", "train", "--offline", "--format", "json").out)
    assert found["refused"] == ["Policy/care: Session/demo/train has no owner"]


def test_an_override_is_named_and_its_words_draw_nothing(paper: Repo) -> None:
    (paper.root / "train.yaml").write_text(SESSION.format(name="train", more=NOTE))
    said = "requireOwner is overridden for Session/demo/train until 2099-12-31: nobody | owns *it*"
    assert said in " ".join(paper.ok("plan", "--offline").out.split())
    page = paper.ok("plan", "--offline", "--format", "markdown").out
    assert "nobody \\| owns \\*it\\*" in page


def test_a_review_judges_the_change_by_the_policies_of_both_sides(paper: Repo) -> None:
    (paper.root / "train.yaml").unlink()
    commit(paper)
    (paper.root / "train.yaml").write_text(SESSION.format(name="train", more=""))
    (paper.root / "cluster.yaml").write_text(PAPER.replace("requireOwner: true", "maxProvisioned: 9"))
    commit(paper)
    review = paper("review", "--base", "HEAD~1")
    assert review.code == 1 and "Policy/care: Session/demo/train has no owner" in review.out
    assert paper("plan", "--base", "HEAD~1").code == 1
    found = json.loads(paper("review", "--base", "HEAD~1", "--format", "json").out)
    assert found["refused"] == ["Policy/care: Session/demo/train has no owner"]


def changed(repo: Repo, note: str) -> None:
    """A commit with the policy, and one with a session that breaks it and says so."""
    (repo.root / "train.yaml").unlink()
    commit(repo)
    (repo.root / "train.yaml").write_text(SESSION.format(name="train", more=note))
    commit(repo)


def test_a_review_names_what_is_overridden_until_when_and_why(paper: Repo) -> None:
    changed(paper, NOTE)
    words = ("review", "--base", "HEAD~1", "--format")
    said = "Policy/care: requireOwner is overridden for Session/demo/train until 2099-12-31: "
    assert f"{said}nobody | owns *it*" in " ".join(paper.ok(*words, "text").out.split())
    assert f"{said}nobody \\| owns \\*it\\*" in paper.ok(*words, "markdown").out
    assert paper.ok(*words, "json").json["plan"]["overridden"] == [
        {
            "policy": "care", "guard": "requireOwner", "resource": "Session/demo/train",
            "until": "2099-12-31", "reason": "nobody | owns *it*",
        }
    ]  # fmt: skip


def test_an_override_whose_day_is_over_overrides_nothing_in_a_review(paper: Repo) -> None:
    changed(paper, NOTE.replace("2099", "1999"))
    for format in ("text", "markdown"):
        review = paper("review", "--base", "HEAD~1", "--format", format)
        assert review.code == 1 and "Policy/care: Session/demo/train has no owner" in review.out
        assert "overridden" not in review.out
