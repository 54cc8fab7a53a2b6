"""A replica that stands by answers as the leader does, from what the store has; nobody but the leader asks a
node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bai.web.app import create_app
from bai.web.auth.roles import StaticAccess
from bai.web.cluster_loops import ClusterLoops
from providers.fake import FakeProvider
from reconciler.controller.leader import Leader, leader_lease_name
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.controller.replica import Replica
from reconciler.controller.standby import StandbyFollower, StandbyPublisher, read_leader_note
from reconciler.gitops.directives import read_directives
from reconciler.values.clock import VirtualClock
from reconciler.workspace.workspace import Workspace
from tests.bai.web.lab import PATIENCE, Lab, asking, bearer, doors
from tests.reconciler.lab import session

HERE = "/api/v1/clusters/here"


class OnlyLogs:
    """What may be asked of nodes by who stands by."""

    def __init__(self, provider: FakeProvider) -> None:
        self.logs = provider.logs


class StandbyServer:
    """A second server over a lab's store, which asks for the lead and does not get it."""

    def __init__(self, lab: Lab) -> None:
        self.awake = VirtualClock(1000.0)
        self.workspace = Workspace.open(lab.folder, state=lab.workspace.state.path, clock=lab.world.clock)
        provider: Any = OnlyLogs(FakeProvider(lab.world))
        self.workspace.provider = provider
        self.hub = ClusterLoops()
        self.loop = Loop(self.workspace, LoopOptions("second", 3600), log=lambda _: None)
        self.hub.add(self.loop)
        self.follower = StandbyFollower(self.loop, self.hub.publish_pass)
        self.loop.stand_by = self.follower.follow
        self.leader = elect(self.loop, "second", self.awake)
        self.client = asking(create_app(self.hub, StaticAccess(doors())))

    def get(self, path: str, token: str = "viewer") -> Any:
        answer = self.client.get(path, headers=bearer(token))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def close(self) -> None:
        self.hub.halt()
        assert self.hub.join(PATIENCE)
        self.hub.close()


def elect(loop: Loop, holder: str, awake: VirtualClock) -> Leader:
    """As `bai serve` does it where the store is on a server."""
    store, name = loop.workspace.store, loop.workspace.cluster.name
    replica = Replica(store, name, holder, awake)
    leader = Leader(replica, log=lambda _: None, awake=awake.now)
    loop.leads, loop.leader = leader.leads, leader.leader
    loop.add_listener(StandbyPublisher(replica, leader.lease).publish)
    return leader


@pytest.fixture
def pair(lab: Lab) -> Iterator[tuple[Lab, StandbyServer]]:
    """A lab that leads, and one that stands by."""
    second = StandbyServer(lab)
    elect(lab.loop, "first", second.awake).step()
    second.leader.step()
    assert lab.loop.leads() and not second.loop.leads()
    yield lab, second
    second.close()


def test_it_answers_as_the_leader_does(pair: tuple[Lab, StandbyServer]) -> None:
    lab, second = pair
    for name in ("a", "b", "c"):
        lab.write(name, session(name, "resources: {cuda.device: 2}"))
    lab.once()
    lab.once()
    second.follower.follow()
    for path in ("queue", "plan", "events", "audit"):
        assert second.get(f"{HERE}/{path}") == lab.get(f"{HERE}/{path}"), path
    ours, theirs = lab.get(f"{HERE}/resources"), second.get(f"{HERE}/resources")
    assert [{**each, "kernels": 0} for each in ours] == [{**each, "kernels": 0} for each in theirs]
    # Where its containers are is recorded; how they are, only who asks their nodes knows.
    assert {kernel["state"] for each in theirs for kernel in each.get("kernels", ())} == {"unknown"}
    assert second.get(f"{HERE}/resources/Session/p/c")["waits"]
    for kernel in lab.world.kernels.values():
        kernel.log.append(f"{kernel.spec.labels.resource}\n".encode())
    said = second.client.get(f"{HERE}/logs/p/a", headers=bearer("viewer"))
    assert said.text == "Session/p/a\n"


def test_it_says_who_leads(pair: tuple[Lab, StandbyServer]) -> None:
    lab, second = pair
    lab.once()
    second.follower.follow()
    ours, theirs = lab.get(HERE), second.get(HERE)
    assert (ours["leads"], ours["leader"]) == (True, "first")
    assert theirs == {**ours, "leads": False}
    for path, status in ((f"{HERE}/queue", 200), (f"{HERE}/resources/Node/none", 404)):
        answer = second.client.get(path, headers=bearer("viewer"))
        assert (answer.status_code, answer.headers["bai-leader"]) == (status, "first")
    assert "bai-leader" not in lab.client.get(f"{HERE}/queue", headers=bearer("viewer")).headers
    assert second.client.get("/readyz").status_code == 503
    assert second.client.get("/readyz?standby=true").status_code == 200
    assert lab.client.get("/readyz?standby=true").status_code == 200


def test_before_a_leader_has_told_anything(pair: tuple[Lab, StandbyServer]) -> None:
    _, second = pair
    second.follower.follow()
    assert second.client.get(f"{HERE}/queue", headers=bearer("viewer")).status_code == 503
    assert second.get(HERE)["lastPass"] == ""


def test_what_is_wrong_is_told_there_too(pair: tuple[Lab, StandbyServer]) -> None:
    lab, second = pair
    lab.once()
    lab.write("bad", "kind: [")
    assert not lab.once()
    second.follower.follow()
    answer = second.get(HERE)
    # Its own folder is as bad.
    assert not answer["good"] and set(lab.get(HERE)["notes"]) < set(answer["notes"])
    assert second.get(f"{HERE}/queue") == []
    assert second.get(HERE, "ours")["notes"] == []


def test_metrics_are_told_once(pair: tuple[Lab, StandbyServer]) -> None:
    lab, second = pair
    lab.write("a", session("a"))
    lab.once()
    second.follower.follow()
    texts = [each.client.get("/metrics", headers=bearer("viewer")).text for each in (lab, second)]
    assert ["bai_sessions{" in text for text in texts] == [True, False]
    assert ['bai_loop_leads{cluster="here"} 1.0' in text for text in texts] == [True, False]


def test_orders_go_to_whoever_leads(pair: tuple[Lab, StandbyServer]) -> None:
    lab, second = pair
    store = lab.workspace.store
    answer = second.client.post(f"{HERE}/suspend", headers=bearer("operator"), json={"why": "a move"})
    assert answer.status_code == 200
    told = read_directives(store, "here").suspend
    assert told is not None and told.actor == "operator"
    revision, look = store.revision("here"), read_directives(store, "here").reconcile_request
    assert second.client.post(f"{HERE}/reconcile", headers=bearer("operator")).status_code == 202
    assert read_directives(store, "here").reconcile_request != look and store.revision("here") > revision


def test_who_takes_over_is_ready_after_a_pass_of_its_own(pair: tuple[Lab, StandbyServer]) -> None:
    lab, second = pair
    lab.write("a", session("a"))
    lab.once()
    second.follower.follow()
    second.awake.advance(20)
    second.leader.step()
    assert second.loop.leads() and not lab.loop.leads()
    for probe in ("/readyz", "/readyz?standby=true"):
        assert "no pass yet" in second.client.get(probe).json()["detail"]
    second.loop.workspace.provider = FakeProvider(lab.world)
    assert second.loop.once()
    assert second.client.get("/readyz").status_code == 200
    after = read_leader_note(lab.workspace.store, "here")
    assert after is not None and after.holder == "second"


def test_who_has_lost_the_lead_tells_nothing(pair: tuple[Lab, StandbyServer]) -> None:
    """Not even while it does not know yet."""
    lab, second = pair
    store = lab.workspace.store
    stale = store.lease(leader_lease_name("here"))
    lab.once()
    second.awake.advance(20)
    second.leader.step()
    told = read_leader_note(store, "here")
    done = lab.hub.clusters["here"].latest
    assert stale is not None and told is not None and done is not None
    StandbyPublisher(Replica(store, "here", "first", second.awake), lambda: stale).publish(
        replace(done, ended=done.ended + 1)
    )
    assert read_leader_note(store, "here") == told
    lease = second.leader.lease()
    StandbyPublisher(Replica(store, "here", "second", second.awake), lambda: lease).publish(
        replace(done, ended=done.ended + 2)
    )
    after = read_leader_note(store, "here")
    assert after is not None and after.holder == "second"


def test_the_same_seen_again_wakes_nobody(pair: tuple[Lab, StandbyServer]) -> None:
    lab, _ = pair
    lab.write("a", session("a"))
    lab.once()
    lab.once()
    store = lab.workspace.store
    revision, told = store.revision("here"), read_leader_note(store, "here")
    lab.once()
    after = read_leader_note(store, "here")
    assert told is not None and after is not None and after.ended > told.ended
    assert store.revision("here") == revision
