"""The loop over a remote: pushes, bad commits, orders; the last good documents stay in force."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from providers.fake import FakeProvider, VirtualClock, World
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.gitops import remote
from reconciler.gitops.directives import Directive, issue_directive, withdraw_directive
from reconciler.gitops.document_source import FollowedDocuments, first_commit
from reconciler.gitops.remote import Remote
from reconciler.gitops.revision_tracker import RevisionTracker, TrackedRef
from reconciler.sources.git_command import GitLogin
from reconciler.store.store import Store
from reconciler.trust.gate import TrustGate
from reconciler.workspace.workspace import Workspace
from schemas.problems.errors.git_remote import RemoteUnreachable
from schemas.problems.errors.repository import CannotRead, InvalidRepository
from tests.reconciler.gitops.repositories import Pair
from tests.reconciler.lab import BASE, NODE, new_store, session

pytestmark = pytest.mark.slow

MACHINES = "---".join(NODE.format(name=name) for name in ("n1", "n2"))


class Site:
    """A forge, a fake world for each cluster, and loops that follow the forge."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pair = Pair(folder, {"base.yaml": BASE, "nodes.yaml": MACHINES, "a.yaml": session("a")})
        self.remote = Remote(str(self.pair.bare), folder / "state" / "copy")
        self.lines: list[str] = []
        self.gate: TrustGate | None = None

    def push(self, files: dict[str, str | None], *options: str, branch: str = "main") -> str:
        commit = self.pair.commit(files)
        self.pair.push(*options, branch=branch)
        return commit

    def loop(self, cluster: str = "here", *, approval: bool = False) -> Loop:
        path = self.folder / "state" / f"{cluster}.db"
        store = Store.open(path) if path.exists() else new_store(path)
        follow = RevisionTracker(TrackedRef(self.remote, "main"), store, cluster, gate=self.gate)
        source = follow.source(first_commit(follow, approval=approval))
        world = World(VirtualClock(1_800_000_000.0))
        workspace = Workspace.at(source, cluster=cluster, state=store, clock=world.clock)
        workspace.provider = FakeProvider(world)
        self.world = world
        return Loop(
            workspace, LoopOptions("loop", 30), log=self.lines.append,
            documents=FollowedDocuments(follow, approval=approval),
        )  # fmt: skip


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def loop(site: Site) -> Iterator[Loop]:
    made = site.loop()
    yield made
    made.workspace.close()


def running(loop: Loop) -> set[str]:
    """Names of sessions that run, by the containers that are really there."""
    provider = loop.workspace.provider
    assert isinstance(provider, FakeProvider)
    world = provider.world
    alive = [kernel for key, kernel in world.kernels.items() if world.settle(key).ended is None]
    return {kernel.spec.labels.resource.rpartition("/")[2] for kernel in alive}


def once(site: Site, loop: Loop) -> list[str]:
    """One pass some time later; what it says."""
    loop.workspace.clock.sleep(60)
    before = len(site.lines)
    loop.once()
    return site.lines[before:]


def told(commit: str = "", why: str = "") -> Directive:
    return Directive("ada", 1.0, why, commit)


def test_a_push_comes_about(site: Site, loop: Loop) -> None:
    once(site, loop)
    assert running(loop) == {"a"}
    commit = site.push({"a.yaml": None, "b.yaml": session("b")})
    once(site, loop)
    assert running(loop) == {"b"} and loop.workspace.commit == commit


@pytest.mark.parametrize(
    "bad", ["kind: [", session("b").replace("Session", "Sessio"), session("b", "priority: x")]
)
def test_a_bad_commit_keeps_the_last_good_one_in_force(site: Site, loop: Loop, bad: str) -> None:
    good = site.pair.commit({})
    site.pair.push()
    once(site, loop)
    worse = site.push({"b.yaml": bad, "a.yaml": None})
    said = once(site, loop)
    assert any(
        f"commit {worse[:12]} cannot be used, {good[:12]} stays in force: b.yaml:" in line for line in said
    )
    assert running(loop) == {"a"} and loop.workspace.commit == good
    assert once(site, loop) == []  # Said once.
    site.world.vanish(next(iter(site.world.kernels)))
    once(site, loop)
    assert running(loop) == {"a"}  # And drift from what is in force is repaired.
    site.push({"b.yaml": session("b")})
    once(site, loop)
    assert running(loop) == {"b"}


def test_a_bad_commit_while_nobody_looks(site: Site) -> None:
    """Whoever starts then begins with the last good one; where there never was one, it is refused."""
    loop = site.loop()
    once(site, loop)
    good = loop.workspace.commit
    store = loop.workspace.store
    site.push({"b.yaml": "kind: ["})
    follow = RevisionTracker(TrackedRef(site.remote, "main"), store, "here")
    assert first_commit(follow) == good
    with pytest.raises(InvalidRepository):
        first_commit(RevisionTracker(TrackedRef(site.remote, "main"), store, "never-seen"))
    loop.workspace.close()


def test_suspended(site: Site, loop: Loop) -> None:
    once(site, loop)
    issue_directive(loop.workspace.store, "here", "suspend", told(why="a move"))
    site.push({"b.yaml": session("b")})
    said = once(site, loop)
    assert "suspended by ada (a move): `bai resume` goes on" in said
    assert "would create Session/p/b: new" in said and running(loop) == {"a"}
    withdraw_directive(loop.workspace.store, "here", "suspend", told())
    once(site, loop)
    assert running(loop) == {"a", "b"}


def test_pinned(site: Site, loop: Loop) -> None:
    old = site.pair.commit({})
    site.pair.push()
    once(site, loop)
    site.push({"b.yaml": session("b")})
    once(site, loop)
    issue_directive(loop.workspace.store, "here", "pin", told(old, "b is broken"))
    said = once(site, loop)
    assert any(f"held at {old[:12]} by ada (b is broken)" in line for line in said)
    assert running(loop) == {"a"}
    newest = site.push({"c.yaml": session("c")})
    once(site, loop)
    assert running(loop) == {"a"} and loop.workspace.commit == old
    withdraw_directive(loop.workspace.store, "here", "pin", told())
    once(site, loop)
    assert running(loop) == {"a", "b", "c"} and loop.workspace.commit == newest


def test_approved(site: Site) -> None:
    loop = site.loop(approval=True)
    began = loop.workspace.commit
    issue_directive(loop.workspace.store, "here", "approve", told(began))
    once(site, loop)
    assert running(loop) == {"a"}
    second = site.push({"b.yaml": session("b")})
    said = once(site, loop)
    assert f"{second[:12]} waits for approval: `bai approve {second[:12]}`" in said and running(loop) == {"a"}
    third = site.push({"c.yaml": session("c")})
    issue_directive(loop.workspace.store, "here", "approve", told(second))
    said = once(site, loop)
    assert running(loop) == {"a", "b"} and any(f"{third[:12]} waits" in line for line in said)
    issue_directive(loop.workspace.store, "here", "approve", told(third))
    once(site, loop)
    assert running(loop) == {"a", "b", "c"}
    loop.workspace.close()


def test_what_came_since_waits_for_approval_after_a_restart_as_well(site: Site) -> None:
    """Also where nothing was ever approved: the very first commit counts as such."""
    loop = site.loop(approval=True)
    began = loop.workspace.commit
    once(site, loop)
    loop.workspace.close()
    waits = site.push({"b.yaml": session("b")})
    again = site.loop(approval=True)
    said = once(site, again)
    assert again.workspace.commit == began and "b" not in running(again)
    assert any(f"{waits[:12]} waits for approval" in line for line in said)
    issue_directive(again.workspace.store, "here", "approve", told(waits))
    once(site, again)
    assert "b" in running(again)
    again.workspace.close()


def test_what_nobody_merged_cannot_be_approved(site: Site) -> None:
    loop = site.loop(approval=True)
    issue_directive(loop.workspace.store, "here", "approve", told(loop.workspace.commit))
    once(site, loop)
    sneaky = site.push({"b.yaml": session("b")}, branch="sneaky")
    issue_directive(loop.workspace.store, "here", "approve", told(sneaky))
    said = once(site, loop)
    assert f"{sneaky[:12]} was approved, but main does not rest on it" in said
    assert running(loop) == {"a"}
    loop.workspace.close()


def test_clusters_of_one_remote_go_their_own_ways(site: Site) -> None:
    """What one is told holds for it alone; what is bad for one is bad for all, and harms none."""
    second = BASE.replace("name: here", "name: there").partition("---")[0]
    groups = BASE.replace("spec: {}\n---\napi", "spec: {cluster: here}\n---\napi", 1)
    more = BASE.partition("---")[2].partition("---")[0].replace("name: default", "name: far")
    files = {
        "base.yaml": f"{groups}---{second}---{more.replace('spec: {}', 'spec: {cluster: there}')}",
        "nodes.yaml": MACHINES.replace("resourceGroup: default", "resourceGroup: default\n  cluster: here"),
        "far.yaml": NODE.format(name="far1").replace(
            "resourceGroup: default", "resourceGroup: far\n  cluster: there"
        ),
        "x.yaml": session("x", "resourceGroup: far"),
        "a.yaml": session("a", "resourceGroup: default"),
    }
    site.push(dict(files))
    here = site.loop("here")
    there = site.loop("there")
    for loop in (here, there):
        once(site, loop)
    assert (running(here), running(there)) == ({"a"}, {"x"})
    issue_directive(here.workspace.store, "here", "suspend", told())
    site.push(
        {"b.yaml": session("b", "resourceGroup: default"), "y.yaml": session("y", "resourceGroup: far")}
    )
    for loop in (here, there):
        once(site, loop)
    assert (running(here), running(there)) == ({"a"}, {"x", "y"})
    for loop in (here, there):
        loop.workspace.close()


# --- beside another replica --------------------------------------------------------------------------------


def beside(site: Site) -> tuple[FollowedDocuments, Remote]:
    """Another replica's documents, with a copy of its own."""
    remote = Remote(str(site.pair.bare), site.folder / "other" / "copy")
    remote.fetch("main")
    store = new_store(site.folder / "other" / "store.db")
    return FollowedDocuments(RevisionTracker(TrackedRef(remote, "main"), store, "here")), remote


def test_a_replica_goes_where_the_leader_is(site: Site, loop: Loop) -> None:
    documents, _ = beside(site)
    before = loop.workspace
    commit = site.push({"b.yaml": session("b")})
    there = documents.at_commit(commit, before)
    assert there.commit == commit and "Session/p/b" in there.desired().digests
    assert documents.at_commit(commit, there) is there and documents.at_commit("", there) is there
    site.pair.bare.rename(site.folder / "away")
    assert documents.at_commit(before.commit, there).commit == before.commit
    with pytest.raises(RemoteUnreachable):
        documents.at_commit("1" * 40, there)


def test_what_an_order_names_is_looked_for(site: Site, loop: Loop) -> None:
    documents, _ = beside(site)
    old, new = loop.workspace.commit, site.push({"b.yaml": session("b")})
    workspace = loop.workspace
    assert documents.find_commit("main", workspace.source) == old  # As it is known here,
    assert documents.find_commit("main", workspace.source, fresh=True) == new  # and as it is.
    newer = site.push({"c.yaml": session("c")})
    assert documents.find_commit(newer[:10], workspace.source) == newer
    for name in ("f" * 40, "no-such-branch", "--help"):
        with pytest.raises(CannotRead):
            documents.find_commit(name, workspace.source)
    site.pair.bare.rename(site.folder / "away")
    assert documents.find_commit("main", workspace.source, fresh=True) == newer


def test_a_pass_without_news_costs_next_to_nothing(site: Site, loop: Loop) -> None:
    """One question to the remote, and a few to the store, however often."""
    once(site, loop)
    once(site, loop)
    store = loop.workspace.store
    begun: list[object] = []
    asked: list[tuple[str, ...]] = []
    ask, here = remote.run_git, threading.get_ident()

    def git(login: GitLogin, url: str, *arguments: str, **named: Any) -> Any:
        if threading.get_ident() == here:  # A loop of a test before may still ask its own.
            asked.append(arguments[:1])
        return ask(login, url, *arguments, **named)

    event.listen(store._engine, "begin", begun.append)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "run_git", git)
        patch.setattr("reconciler.sources.source.git_lines", lambda *words: asked.append(words) or [])
        assert once(site, loop) == []
    assert asked == [("ls-remote",)]
    assert len(begun) <= 6
