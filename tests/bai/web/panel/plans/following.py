"""A server that follows a real git remote, with branches and what is proposed to it from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from bai.web.app import create_app
from bai.web.auth.roles import StaticAccess
from bai.web.cluster_loops import ClusterLoops
from bai.web.panel.plans.commit_reviews import CommitReviews
from providers.fake import FakeProvider
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.gitops.document_source import FollowedDocuments, first_commit
from reconciler.gitops.remote import Remote
from reconciler.gitops.revision_tracker import RevisionTracker, TrackedRef
from reconciler.store.store import Store
from reconciler.trust.gate import TrustGate
from reconciler.workspace.workspace import Workspace
from tests.bai.web.lab import Lab, asking, doors, waiting
from tests.bai.web.panel.begun import COPY, STORE, begin
from tests.reconciler.gitops.repositories import Pair
from tests.reconciler.lab import BASE, NODE, session

SAME = {"Sec-Fetch-Site": "same-origin"}
GPU = "resources: {cpu: 2, memory: 1GiB, cuda.device: 1}"


class FollowingLab(Lab):
    """`main` runs `a` and `b`; what is pushed to it later waits for approval, if that is asked for."""

    def __init__(self, folder: Path, *, approval: bool = True, gate: TrustGate | None = None) -> None:
        self.lines: list[str] = []
        nodes = "---".join(NODE.format(name=name) for name in ("n1", "n2"))
        first = {"base.yaml": BASE, "nodes.yaml": nodes, "a.yaml": session("a", GPU)}
        files = {**first, "b.yaml": session("b", GPU)}
        self.pair = Pair(folder / "forge", files)
        state, url = folder / "state", str(self.pair.bare)
        self.world = begin(tuple(files.items()), state, url)
        self.remote = Remote(url, state / COPY)
        store = Store.open(state / STORE)
        follow = RevisionTracker(TrackedRef(self.remote, "main"), store, "here", gate=gate)
        source = follow.source(first_commit(follow, approval=True))
        self.workspace = Workspace.at(source, cluster="here", state=store, clock=self.world.clock)
        self.workspace.provider = FakeProvider(self.world)
        self.hub = ClusterLoops()
        documents = FollowedDocuments(follow, approval=approval)
        self.loop = Loop(self.workspace, LoopOptions("loop", 30), log=self.lines.append, documents=documents)
        self.hub.add(self.loop)
        assert self.once(), self.lines
        self.serve()

    def serve(self) -> None:
        """Anew: what the environment says counts now."""
        self.app = waiting(create_app(self.hub, StaticAccess(doors())))
        self.client = asking(self.app)

    @property
    def reviews(self) -> CommitReviews:
        found: CommitReviews = self.app.state.reviews["here"]
        return found

    @property
    def commit(self) -> str:
        """Whose documents are in force."""
        return self.loop.workspace.commit

    def push(self, files: dict[str, str | None], branch: str = "main", message: str = "change") -> str:
        """A commit on top of the newest of `main`, which is there as `branch` as if it had been pushed."""
        return self.pair.appear(
            files, branch if branch.startswith("refs/") else f"refs/heads/{branch}", message
        )

    def propose(self, number: int, files: dict[str, str | None], pattern: str = "refs/pull/{}/head") -> str:
        """As a forge keeps what a fork proposes: beside all branches."""
        return self.push(files, branch=pattern.format(number), message=f"proposal {number}")


def visitor(lab: Lab, token: str = "viewer") -> TestClient:
    """A browser that is logged in."""
    made = asking(lab.app, base_url="http://panel.test", follow_redirects=False)
    answer = made.post("/login", data={"credential": token}, headers=SAME)
    assert answer.status_code == 303, answer.text
    return made


def opened(browser: TestClient, commit: str) -> str:
    """The page of a review, as it comes when somebody opens it."""
    answer = browser.get("/clusters/here/review", params={"commit": commit}, follow_redirects=True)
    assert answer.status_code == 200, answer.text
    return answer.text


def fields_of(page: str, order: str) -> dict[str, str]:
    """The hidden fields of the form that gives an order."""
    form = re.search(rf'<form[^>]*/orders/{order}"(.*?)</form>', page, re.DOTALL)
    assert form, order
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[1]))


def send(browser: TestClient, order: str, **fields: Any) -> Any:
    return browser.post(f"/clusters/here/orders/{order}", data=fields, headers=SAME)


def token_of(browser: TestClient) -> str:
    """Of forms of this login."""
    found = re.search(r'name="token" value="([0-9a-f]{64})"', browser.get("/clusters/here/nodes").text)
    assert found
    return found[1]
