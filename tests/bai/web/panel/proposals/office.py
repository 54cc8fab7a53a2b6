"""A server that follows a real bare repository, and people who change it on pages."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response

from bai.web.app import create_app
from bai.web.auth.roles import StaticAccess
from bai.web.cluster_loops import ClusterLoops
from bai.web.panel.options import PanelOptions
from bai.web.panel.proposals.settings import ProposalSettings
from providers.fake import FakeProvider, VirtualClock, World
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.gitops.document_source import FollowedDocuments, first_commit
from reconciler.gitops.remote import Remote
from reconciler.gitops.revision_tracker import RevisionTracker, TrackedRef
from reconciler.proposals.values import Person
from reconciler.sources.git_command import GitLogin
from reconciler.store.store import Store
from reconciler.trust.gate import TrustGate
from reconciler.workspace.workspace import Workspace
from tests.bai.web.lab import asking, doors, waiting
from tests.bai.web.panel.begun import COPY, STORE, begin
from tests.reconciler.gitops.repositories import Pair, git
from tests.reconciler.lab import BASE, NODE, new_store, session

SAME = {"Sec-Fetch-Site": "same-origin"}
OTHER = "\n---\napiVersion: bai/v1\nkind: Project\nmetadata: {name: q}\nspec: {}\n"
QUOTA = """\
apiVersion: bai/v1
kind: Quota
metadata: {name: of-p}
spec:
  subject: {project: p}
  total: {cuda.device: 3}  # agreed in May
"""
FILES = {
    "base.yaml": BASE + OTHER,
    "nodes.yaml": "---".join(NODE.format(name=name) for name in ("n1", "n2")),
    "quota.yaml": QUOTA,
    "a.yaml": session("a", "resources: {cpu: 1, memory: 1GiB, cuda.device: 1}"),
    "both.yaml": session("shared", "") + "---" + session("secret", "").replace("project: p", "project: q"),
}


@dataclass
class Visitor:
    """Somebody's browser."""

    client: TestClient
    token: str = ""

    def get(self, page: str = "", **query: str) -> Response:
        return self.client.get(f"/clusters/here/{page}".rstrip("/"), params=query or None)

    def post(self, page: str, **fields: str) -> Response:
        sent = {"token": self.token, **fields}
        return self.client.post(f"/clusters/here/{page}", data=sent, headers=SAME)

    def look(self, **query: str) -> str:
        """The page of a change that can be made."""
        answer = self.get("change", **query)
        assert answer.status_code == 200, answer.text
        return answer.text

    def commit(self, page: str, **fields: str) -> Response:
        """Sends the form of such a page."""
        return self.post("change", **(hidden(page) | {"do": "commit"} | fields))

    def change(self, **query: str) -> str:
        """The commit that a change was made as."""
        answer = self.commit(self.look(**query), reason="because")
        assert answer.status_code == 303, answer.text
        return answer.headers["location"].rpartition("/")[2]


def hidden(page: str) -> dict[str, str]:
    """Fields of the form that makes a change."""
    form = page[page.rindex('<form class="stack"') :]
    found = re.findall(r'<input type="hidden" name="(action|target|value|base)" value="([^"]*)"', form)
    text = re.search(r'name="text"[^>]*>\n?(.*?)</textarea>', form, re.S)
    return {name: html.unescape(value) for name, value in found} | {
        "text": html.unescape(text[1]) if text else ""
    }


@dataclass
class Office:
    """A forge, a loop that follows it, pages. `gate`: what commits must pass; `ref`: a tag, but for `main`;
    `url`: of the remote, which git knows to be the forge's folder, unless there is somewhere to `push_to`."""

    folder: Path
    settings: ProposalSettings = field(default_factory=lambda: allowed("commit"))
    files: dict[str, str | None] = field(default_factory=lambda: dict(FILES))
    gate: TrustGate | None = None
    url: str = ""
    ref: str = "main"
    push_to: str = ""
    login: GitLogin | None = None
    approval: bool = False

    def __post_init__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self.pair = Pair(self.folder, {} if self.push_to else self.files)
        state = self.folder / "state"
        if self.push_to or self.ref != "main":
            self._reach()
            self.world = World(VirtualClock(1_800_000_000.0))
            store = new_store(state / STORE)
        else:
            self.world = begin(tuple(self.files.items()), state, self.url or str(self.pair.bare))
            store = Store.open(state / STORE)
        self.remote = Remote(self.url or str(self.pair.bare), state / COPY, self.login)
        tracker = RevisionTracker(TrackedRef(self.remote, self.ref), store, "here", gate=self.gate)
        source = tracker.source(first_commit(tracker, approval=True))
        workspace = Workspace.at(source, cluster="here", state=store, clock=self.world.clock)
        # Workspaces whose nodes are others open a provider of their own.
        self._patch.setattr("providers.registry.open_provider", lambda *_, **__: FakeProvider(self.world))
        self.lines: list[str] = []
        documents = FollowedDocuments(tracker, approval=self.approval)
        self.loop = Loop(workspace, LoopOptions("loop", 30), log=self.lines.append, documents=documents)
        self.hub = ClusterLoops()
        self.hub.add(self.loop)
        options = PanelOptions(proposals=self.settings)
        self.app = waiting(create_app(self.hub, StaticAccess(doors()), options=options))
        assert self.once(), self.lines

    def _reach(self) -> None:
        """A forge elsewhere, and a tag."""
        if self.push_to:
            git(self.pair.work, "remote", "set-url", "origin", self.push_to)
            self.push(self.files)
        if self.ref != "main":
            git(self.pair.bare, "tag", self.ref, "main")

    def push(self, files: dict[str, str | None]) -> str:
        commit = self.pair.commit(files)
        self.pair.push()
        return commit

    def once(self) -> bool:
        self.world.clock.sleep(30)
        return self.loop.once()

    def person(self, token: str) -> Visitor:
        client = asking(self.app, base_url="http://panel.test", follow_redirects=False)
        client.post("/login", data={"credential": token}, headers=SAME)
        found = re.search(r'name="token" value="([0-9a-f]{64})"', client.get("/clusters/here").text)
        return Visitor(client, found[1] if found else "")

    def git(self, *arguments: str) -> str:
        """Of the forge."""
        return git(self.pair.bare, *arguments)

    @property
    def head(self) -> str:
        return self.git("rev-parse", "main")

    def branches(self) -> set[str]:
        return set(self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split())

    def phase(self, identity: str) -> str:
        done: Any = self.hub.clusters["here"].good
        item = done.actual.existing.get(identity)
        return item.phase if item else ""

    def close(self) -> None:
        self._patch.undo()
        self.hub.close()


def allowed(mode: Any, **more: str) -> ProposalSettings:
    return ProposalSettings(mode, Person("bai", "bai@lab.example"), **more)
