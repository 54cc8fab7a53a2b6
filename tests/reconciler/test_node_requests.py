"""For whom an autoscaler is asked for nodes, and for whom not: nodes cost money."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from providers.autoscaling.values import AskedNodes, NodeAsks, NodeNeed, NodeRequest, owner_mark
from providers.base import Observation
from providers.fake import FakeProvider, World
from reconciler.gitops.directives import Directive, issue_directive
from reconciler.plan.pipeline import make_plan
from reconciler.plan.place.node_requests import CODE
from reconciler.plan.plan_request import PlanRequest
from reconciler.values.encoding.plan_json import dump_plan, load_plan
from reconciler.values.plan import Plan
from reconciler.workspace.node_requests import NodeRequests
from schemas.problems.errors.provider import ProviderUnavailable
from schemas.problems.errors.repository import InvalidRepository
from tests.reconciler.lab import BASE, REPO, Lab, session
from tests.reconciler.test_loop import House

POOL = "nodeSelector: {pool: gpus}"
KUBERNETES = "{{provider: kubernetes, kubernetes: {{provisioningRequests: {{default: {{{pool}}}}}}}}}"
IMAGE = 'image: "i:1"'
GPUS = IMAGE + ", resources: {{cpu: 1, memory: 1GiB, cuda.device: {count}}}"
APART = (
    f"{IMAGE}, cluster: {{mode: multi-node, roles: {{main: 1, sub: 1}}}}, resources: {{cpu: 1, memory: 1GiB}}"
)
QUOTA = """
apiVersion: bai/v1
kind: Quota
metadata: {name: q}
spec: {subject: {project: p}, total: {cuda.device: 10}}
"""
POLICY = """
apiVersion: bai/v1
kind: Policy
metadata: {name: known}
spec: {guards: {images: {allowed: [registry.example/good]}}}
"""
OURS = owner_mark(REPO, "here")


def made(folder: Path, pool: str = POOL, nodes: int = 1) -> Lab:
    lab = Lab(folder, nodes=nodes)
    lab.write({"base": BASE.replace("{provider: fake}", KUBERNETES.format(pool=pool))})
    return lab


def planned(lab: Lab, asks: NodeAsks | None = NodeAsks(), *, complete: bool = True) -> Plan:  # noqa: B008
    actual = replace(lab.actual(), node_asks=asks, complete=complete)
    return make_plan(PlanRequest(lab.desired(), actual, lab.world.clock.now()))


def said(plan: Plan, name: str) -> str:
    """What is told of nodes, of a session that waits."""
    (wait,) = [each for each in plan.waits if each.session == f"Session/p/{name}"]
    return "; ".join(reason.message for reason in wait.reasons if reason.code == CODE)


def asked(request: NodeRequest, **fields: object) -> AskedNodes:
    given = {"owner": OURS, "state": "new", "request_uid": "r", "anchor_uid": "a", **fields}
    return AskedNodes(request.namespace, request.name, **given)  # type: ignore[arg-type]


def seen(*there: AskedNodes) -> NodeAsks:
    return NodeAsks({each.key: each for each in there})


def test_who_lacks_room_alone_is_asked_for_and_says_what_has_become_of_it(tmp_path: Path) -> None:
    lab = made(tmp_path)
    lab.write({"a": session("a", GPUS.format(count=2)), "b": session("b", GPUS.format(count=2))})
    plan = planned(lab)
    (request,) = plan.node_requests
    assert request.session == "Session/p/b" and request.namespace == "bai"
    assert request.nodes == (NodeNeed(1000, 2**30, (("cuda.device", 2),)),)
    assert request.selector == (("pool", "gpus"),)
    name = f"ProvisioningRequest bai/{request.name}"
    assert said(plan, "b") == f"1 node to be asked for by the loop ({name})"
    for state, words in (
        ("new", "no autoscaler has looked at it yet"),
        ("accepted", "accepted"),
        ("provisioned", "provisioned: nodes are there, or on their way"),
    ):
        assert said(planned(lab, seen(asked(request, state=state))), "b") == f"{name}: {words}"
    told = said(planned(lab, seen(asked(request, state="not-found", why="CapacityIsNotFound"))), "b")
    assert told == f"{name}: no capacity found, tried again by the autoscaler: CapacityIsNotFound"
    told = said(planned(lab, seen(asked(request, state="expired"))), "b")
    assert told.endswith(f"`kubectl delete provisioningrequest -n bai {request.name}` has it asked for anew")
    unnamed = NodeAsks({request.key: asked(request)}, {"default": ("g1", "g2", "g3", "g4")})
    told = said(planned(lab, unnamed), "b")
    assert told.endswith(
        "; no document names g1, g2, g3 and 1 more of its pool: `bai import kubernetes` writes them"
    )


def test_a_group_without_nodes_asks_for_its_first(tmp_path: Path) -> None:
    lab = made(tmp_path)
    lab.drop("nodes")
    lab.write({"a": session("a", GPUS.format(count=16))})
    (request,) = planned(lab).node_requests
    assert request.nodes[0].devices == (("cuda.device", 16),)


def test_nobody_is_asked_where_no_group_says_so(tmp_path: Path) -> None:
    lab = made(tmp_path)
    lab.write({"base": BASE.replace("{provider: fake}", "{provider: kubernetes}")})
    lab.write({"a": session("a", GPUS.format(count=8))})
    plan = planned(lab)
    assert plan.node_requests == () and said(plan, "a") == ""
    assert "node_requests" not in dump_plan(plan)


@pytest.mark.parametrize(
    "spec",
    [
        "hold: true",
        "startsAt: 2100-01-01T00:00:00Z",
        "dependsOn: [Session/p/other]",
        "placement: {nodes: [n1]}",
        "placement: {gpuModel: [B300]}",
    ],
)
def test_a_wait_that_a_node_would_not_end_asks_for_none(tmp_path: Path, spec: str) -> None:
    lab = made(tmp_path)
    lab.write({"other": session("other", f"{GPUS.format(count=2)}, hold: true")})
    lab.write({"a": session("a", f"{GPUS.format(count=8)}, {spec}")})
    plan = planned(lab)
    assert plan.node_requests == () and {each.session for each in plan.waits} >= {"Session/p/a"}


def test_a_request_rests_on_what_the_session_asks_for(tmp_path: Path) -> None:
    """A spec is never changed: the request is another one then, of another name."""
    lab = made(tmp_path)
    lab.write({"a": session("a", GPUS.format(count=8))})
    (before,) = planned(lab).node_requests
    assert planned(lab).node_requests == (before,)
    lab.write({"a": session("a", GPUS.format(count=7))})
    (after,) = planned(lab).node_requests
    assert after.name != before.name
    taints = KUBERNETES.format(pool=f"{POOL}, taints: [nvidia.com/gpu]")
    lab.write({"base": BASE.replace("{provider: fake}", taints)})
    (tainted,) = planned(lab).node_requests
    assert tainted.taints == ("nvidia.com/gpu",) and tainted.name != after.name


def test_members_of_a_session_have_a_node_each_and_containers_of_one_node_are_one_need(
    tmp_path: Path,
) -> None:
    lab = made(tmp_path)
    lab.write({"a": session("a", APART.replace("cpu: 1", "cpu: 100"))})
    together = APART.replace("multi-node", "single-node").replace("cpu: 1,", "cpu: 50,")
    lab.write({"b": session("b", together)})
    one, two = planned(lab).node_requests
    assert [need.cpu_milli for need in one.nodes] == [100_000, 100_000]
    assert [(need.cpu_milli, need.memory) for need in two.nodes] == [(100_000, 2**31)]


def test_no_more_nodes_are_asked_for_than_the_group_says_and_the_first_come_first(tmp_path: Path) -> None:
    lab = made(tmp_path, f"{POOL}, maxNodes: 2")
    for name in "abcd":
        lab.write({name: session(name, GPUS.format(count=8))})
    lab.write({"gang": session("gang", APART.replace("sub: 1", "sub: 2").replace("cpu: 1", "cpu: 99"))})
    plan = planned(lab)
    assert [each.session for each in plan.node_requests] == ["Session/p/a", "Session/p/b"]
    assert (
        said(plan, "c") == "no node is asked for: 2 nodes of group default are asked for already (maxNodes 2)"
    )
    assert said(plan, "gang") == "no node is asked for: it needs 3 nodes, and maxNodes of its group is 2"


def test_what_is_asked_for_stays_so_when_somebody_comes_before(tmp_path: Path) -> None:
    lab = made(tmp_path, f"{POOL}, maxNodes: 1")
    lab.write({"b": session("b", GPUS.format(count=8))})
    (request,) = planned(lab).node_requests
    lab.write({"a": session("a", GPUS.format(count=8))})
    assert planned(lab, seen(asked(request))).node_requests == (request,)
    (first,) = planned(lab).node_requests
    assert first.session == "Session/p/a", "where none of them is asked for, the queue decides"


def test_a_project_has_nodes_asked_for_within_its_quota_alone(tmp_path: Path) -> None:
    """Each of its sessions would fit the quota, and all of them together would not."""
    lab = made(tmp_path, f"{POOL}, maxNodes: 32")
    lab.write({"q": QUOTA, "first": session("first", GPUS.format(count=2))})
    for number in range(9):
        lab.write({f"s{number}": session(f"s{number}", GPUS.format(count=4))})
    plan = planned(lab)
    assert [each.session for each in plan.node_requests] == ["Session/p/s0", "Session/p/s1"]
    assert "those asked for already would use up its quota: quota q (project p)" in said(plan, "s2")


def test_where_nothing_can_be_asked_plans_go_on_and_say_why(tmp_path: Path) -> None:
    lab = made(tmp_path)
    lab.write({"a": session("a", GPUS.format(count=2)), "b": session("b", GPUS.format(count=8))})
    plan = planned(lab, NodeAsks(why_not="the cluster has no such thing"))
    assert plan.node_requests == () and [each.id for each in plan.changes if each.session_after]
    assert said(plan, "b") == "no node is asked for: the cluster has no such thing"


def test_what_was_not_seen_whole_asks_for_nothing(tmp_path: Path) -> None:
    lab = made(tmp_path)
    lab.write({"b": session("b", GPUS.format(count=8))})
    assert planned(lab, complete=False).node_requests == ()


def test_a_plan_with_requests_is_read_as_it_was_written(tmp_path: Path) -> None:
    lab = made(tmp_path)
    lab.write({"b": session("b", GPUS.format(count=8))})
    plan = planned(lab)
    assert plan.node_requests and load_plan(dump_plan(plan)).node_requests == plan.node_requests


@dataclass
class Asker:
    """What a provider is asked."""

    left: list[AskedNodes] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    refuses: bool = False

    def ask_for_nodes(self, request: NodeRequest) -> None:
        self.calls.append(f"ask {request.session}")
        if self.refuses:
            raise ProviderUnavailable(provider="kubernetes", why="not now")

    def withdraw_request(self, asked: AskedNodes) -> None:
        self.calls.append(f"withdraw {asked.name}")

    def requests_left(self, repo: str, cluster: str) -> list[AskedNodes]:
        self.calls.append("left")
        return self.left


def settled(
    lab: Lab, asker: Asker, asks: NodeAsks | None, requests: NodeRequests | None = None
) -> tuple[str, ...]:
    """After a plan from what is seen; taking the lease is told, too."""

    @contextlib.contextmanager
    def lease() -> Iterator[None]:
        asker.calls.append("lease")
        yield

    return (requests or NodeRequests()).settle(planned(lab, asks), asks, asker, lease)


def test_one_request_is_made_kept_and_withdrawn(tmp_path: Path) -> None:
    lab, asker = made(tmp_path), Asker()
    lab.write({"b": session("b", GPUS.format(count=8))})
    (request,) = planned(lab).node_requests
    assert settled(lab, asker, NodeAsks()) == () and asker.calls == ["lease", "ask Session/p/b"]
    asker.calls.clear()
    for state in ("new", "accepted", "not-found", "provisioned", "expired", "failed", "revoked"):
        settled(lab, asker, seen(asked(request, state=state)))
    assert asker.calls == [], "where it is there nobody is asked, whatever it says"
    settled(lab, asker, seen(asked(request, state="incomplete")))
    assert asker.calls == ["lease", "ask Session/p/b"]
    asker.calls.clear()
    lab.drop("b")
    settled(lab, asker, seen(asked(request, state="provisioned")))
    assert asker.calls == ["lease", f"withdraw {request.name}"]


def test_who_is_placed_is_not_asked_for_any_more(tmp_path: Path) -> None:
    lab, asker = made(tmp_path), Asker()
    lab.drop("nodes")
    lab.write({"b": session("b", GPUS.format(count=2))})
    (request,) = planned(lab).node_requests
    lab.write({"nodes": Lab(tmp_path / "more").folder.joinpath("nodes.yaml").read_text()})
    settled(lab, asker, seen(asked(request)))
    assert asker.calls == ["lease", f"withdraw {request.name}"]


def test_requests_of_others_stay(tmp_path: Path) -> None:
    lab, asker = made(tmp_path), Asker()
    theirs = AskedNodes("bai", "theirs", owner_mark(REPO, "elsewhere"), "new")
    settled(lab, asker, seen(theirs))
    assert asker.calls == []


def test_what_is_left_of_a_group_that_asked_once_goes(tmp_path: Path) -> None:
    """It is looked for once: an idle loop asks nobody."""
    lab, asker, requests = made(tmp_path), Asker(), NodeRequests()
    asker.left = [AskedNodes("bai", "old", OURS, "new")]
    settled(lab, asker, None, requests)
    assert asker.calls == ["left", "lease", "withdraw old"]
    asker.calls.clear()
    settled(lab, asker, None, requests)
    assert asker.calls == []


def test_what_is_refused_is_said_and_holds_nobody_up(tmp_path: Path) -> None:
    lab, asker = made(tmp_path), Asker(refuses=True)
    lab.write({"a": session("a", GPUS.format(count=8)), "b": session("b", GPUS.format(count=8))})
    wrong = settled(lab, asker, NodeAsks())
    assert [line.partition(":")[0] for line in wrong] == [
        "no node is asked for, for Session/p/a", "no node is asked for, for Session/p/b",
    ]  # fmt: skip
    assert asker.calls == ["lease", "ask Session/p/a", "ask Session/p/b"]


def test_a_group_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    lab = made(tmp_path)
    lab.write(
        {"base": (lab.folder / "base.yaml").read_text().replace("Requests: {default:", "Requests: {h100:")}
    )
    with pytest.raises(InvalidRepository) as refused:
        lab.desired()
    (problem,) = refused.value.problems
    assert "h100" in str(problem) and "base.yaml" in str(problem)


@pytest.mark.parametrize("pool", ["", "nodeSelector: {}", f"{POOL}, maxNodes: 0", f"{POOL}, maxNodes: 33"])
def test_a_pool_has_labels_and_a_limit(tmp_path: Path, pool: str) -> None:
    """Without labels any pool of the cluster would grow."""
    with pytest.raises(InvalidRepository):
        made(tmp_path, pool).desired()


class Grower(FakeProvider):
    """A provider of nodes that an autoscaler looks after."""

    complete = True

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.requests: dict[tuple[str, str], AskedNodes] = {}

    def observe(self) -> Observation:
        found = replace(super().observe(), node_asks=NodeAsks(dict(self.requests)))
        return found if self.complete else replace(found, complete=False, errors=("half of it",))

    def ask_for_nodes(self, request: NodeRequest) -> None:
        assert request.key not in self.requests, "once"
        own = owner_mark(request.repo, request.cluster)
        self.requests[request.key] = asked(request, owner=own)

    def withdraw_request(self, asked: AskedNodes) -> None:
        del self.requests[asked.key]

    def requests_left(self, repo: str, cluster: str) -> list[AskedNodes]:
        return list(self.requests.values())


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path, Grower)
    made.write("base", BASE.replace("{provider: fake}", KUBERNETES.format(pool=POOL)))
    made.workspace = made.workspace.reloaded()
    made.workspace.provider = made.provider
    made.loop = made.make()
    yield made
    made.close()


def requests_of(house: House) -> list[str]:
    assert isinstance(house.provider, Grower)
    return sorted(name.rpartition("-")[0] for _, name in house.provider.requests)


def test_the_loop_asks_keeps_asking_and_stops_with_the_session(house: House) -> None:
    assert isinstance(house.provider, Grower)
    house.write("a", session("a", GPUS.format(count=8)))
    house.once()
    assert requests_of(house) == ["a"]
    house.once()
    house.provider.complete = False
    house.write("b", session("b", GPUS.format(count=8)))
    house.once()
    assert requests_of(house) == ["a"], "what is not seen whole changes nothing"
    house.provider.complete = True
    house.once()
    assert requests_of(house) == ["a", "b"]
    (house.folder / "a.yaml").unlink()
    house.once()
    assert requests_of(house) == ["b"]


def test_a_loop_that_changes_nothing_asks_for_nothing(house: House) -> None:
    house.loop = house.make(observe_only=True)
    house.write("a", session("a", GPUS.format(count=8)))
    house.once()
    assert requests_of(house) == []
    house.loop = house.make()
    issue_directive(house.workspace.store, "here", "suspend", Directive("ada", 1.0))
    house.once()
    assert requests_of(house) == []


def test_who_is_refused_by_a_policy_has_no_node_asked_for(house: House) -> None:
    house.write("policy", POLICY)
    house.write("a", session("a", GPUS.format(count=8)))
    house.write("b", session("b", GPUS.format(count=8).replace("i:1", "registry.example/good:1")))
    said = house.once()
    assert any(line.startswith("refused: Policy/known") for line in said)
    assert requests_of(house) == ["b"]
    house.once()
    assert requests_of(house) == ["b"]
