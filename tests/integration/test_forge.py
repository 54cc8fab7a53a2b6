"""Reviews of pull requests on a real forge: the comment, its second edition, the status, mistakes."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bai.cli.main import run
from tests.lab.gitea import USER, Gitea
from tests.reconciler.gitops.repositories import git

pytestmark = pytest.mark.xdist_group("gitea")
CLUSTER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {name: lab}
spec: {provider: declared}
---
apiVersion: bai/v1
kind: Node
metadata: {name: n1}
spec:
  hardware: {numaNodes: [{id: 0, cpus: 0-7, memory: 32GiB}]}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: all}
---
apiVersion: bai/v1
kind: Project
metadata: {name: p}
"""
SESSION = """\
apiVersion: bai/v1
kind: Session
metadata: {{name: train, project: p{more}}}
spec: {{command: [sleep, inf], resources: {{cpu: {cpu}, memory: 1GiB}}}}
"""


@dataclass
class Pull:
    """A pull request and the working copy that it was pushed from."""

    gitea: Gitea
    work: Path
    name: str
    number: int = 0

    def push(self, files: dict[str, str | None], branch: str) -> None:
        for name, text in files.items():
            if text is None:
                (self.work / name).unlink()
            else:
                (self.work / name).write_text(text)
        git(self.work, "add", "--all")
        git(self.work, "commit", "--quiet", "--message", "change")
        git(self.work, "push", "--quiet", "origin", f"HEAD:{branch}")

    def call(self, method: str, path: str, **body: Any) -> Any:
        return self.gitea.call(method, f"/repos/{USER}/{self.name}{path}", **body)

    def review(self, token: str = "") -> tuple[int, str]:
        """`bai review --post`, as an action of the forge runs it: exit code and what stderr says."""
        event = self.work.parent / "event.json"
        event.write_text(json.dumps({"pull_request": self.call("GET", f"/pulls/{self.number}")}))
        environment = {
            "GITHUB_ACTIONS": "true", "GITEA_ACTIONS": "true", "GITHUB_EVENT_PATH": str(event),
            "GITHUB_API_URL": f"{self.gitea.url}/api/v1", "GITHUB_REPOSITORY": f"{USER}/{self.name}",
            "GITHUB_TOKEN": token or self.gitea.token,
        }  # fmt: skip
        said = io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            for key, value in environment.items():
                patch.setenv(key, value)
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
                code = run(["-C", str(self.work), "review", "--post"])
        return code, said.getvalue()

    def comments(self) -> list[str]:
        return [each["body"] for each in self.call("GET", f"/issues/{self.number}/comments")]

    def status(self) -> tuple[str, str, str]:
        """State, context and description of the newest commit's newest status."""
        head = git(self.work, "rev-parse", "HEAD")
        newest = self.call("GET", f"/commits/{head}/statuses?sort=recentupdate")[0]
        return newest["status"], newest["context"], newest["description"]


@pytest.fixture
def pull(gitea: Gitea, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pull]:
    """A pull request that adds a session."""
    name = request.node.name.partition("@")[0].replace("_", "-")[:40]
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "--quiet")
    git(work, "remote", "add", "origin", gitea.repository(name))
    made = Pull(gitea, work, name)
    made.push({"cluster.yaml": CLUSTER}, "main")
    git(work, "fetch", "--quiet", "origin")
    made.push({"train.yaml": SESSION.format(cpu=2, more="")}, "change")
    opened = gitea.until("POST", f"/repos/{USER}/{name}/pulls", head="change", base="main", title="Train")
    made.number = opened["number"]
    assert os.environ.get("BAI_STATE") is None
    yield made


def test_a_comment_and_a_status_are_kept_up_to_date(pull: Pull) -> None:
    code, said = pull.review()
    assert code == 0, said
    (comment,) = pull.comments()
    assert "Session/p/train" in comment and "| `0-1` |" in comment
    assert f"/{USER}/{pull.name}/pulls/{pull.number}#issuecomment-" in said
    assert pull.status() == ("success", "bai/lab", "Plan: 1 to create.")
    pull.call("POST", f"/issues/{pull.number}/comments", body="Looks good to me.")
    pull.push({"train.yaml": SESSION.format(cpu=4, more="")}, "change")
    assert pull.review()[0] == 0
    first, second = pull.comments()
    assert "| `0-3` |" in first and second == "Looks good to me."


def test_the_comment_is_found_among_many(pull: Pull) -> None:
    for number in range(55):
        pull.call("POST", f"/issues/{pull.number}/comments", body=f"Remark {number}")
    assert pull.review()[0] == 0
    assert pull.review()[0] == 0
    found = pull.gitea.call("GET", f"/repos/{USER}/{pull.name}/issues/{pull.number}")
    assert found["comments"] == 56


def test_mistakes_are_told_with_their_places(pull: Pull) -> None:
    pull.push({"train.yaml": SESSION.format(cpu=2, more="").replace("cpu: 2", "cpus: 2")}, "change")
    assert pull.review()[0] == 1
    (comment,) = pull.comments()
    assert "train.yaml:4:" in comment and "did you mean" in comment
    assert pull.status() == ("failure", "bai", "1 mistake in the documents")
    pull.push({"train.yaml": SESSION.format(cpu=2, more="")}, "change")
    assert pull.review()[0] == 0


def test_what_apply_would_refuse_fails(pull: Pull) -> None:
    protected = SESSION.format(cpu=2, more=', annotations: {bai/protect: "true"}')
    pull.push({"train.yaml": protected}, "main")
    pull.push({"train.yaml": None}, "change")
    code, _ = pull.review()
    assert code == 1
    state, _, description = pull.status()
    assert state == "failure" and "protected" in description


def test_a_token_that_may_not_is_told(pull: Pull) -> None:
    code, said = pull.review(token="0" * 40)
    assert code == 1 and "BAI-E0362" in said and "token" in said
