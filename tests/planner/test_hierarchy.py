"""Dominant shares of domains, projects and users."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from planner.model.plan_time import PlanTime
from planner.model.types import GroupInfo, SessionRequest, Snapshot
from planner.queue.base import QueueView
from tests.planner.audit import audit
from tests.planner.support import BUILT_IN, machine, node, place, session


def ask(at: int, who: str, cpu: int = 1) -> SessionRequest:
    """`who`: `domain/project/user`."""
    domain, project, user = who.split("/")
    return session(
        f"{who.replace('/', '.')}.{at}",
        cpu=cpu,
        memory=0,
        domain=domain,
        project=project,
        user=user,
        enqueued=float(at),
    )


def order(pending: list[SessionRequest], count: int | None = None, **weights: int) -> list[str]:
    """The first sessions of the queue, each placed as soon as it is named."""
    named = {key.replace("_", "/"): weight for key, weight in weights.items()}
    group = GroupInfo("main", queue="drf", queue_options={"hierarchy": True, "weights": named})
    view = QueueView(group, PlanTime(0.0), {"cpu": 100_000})
    found = []
    for one in BUILT_IN.queue["drf"](pending, view):
        view.hold(one)
        found.append(one.id.rpartition(".")[0])
    return found if count is None else found[:count]


def test_domains_share_before_projects_and_projects_before_users() -> None:
    many = [ask(at, f"a/p{at % 3}/u{at}") for at in range(9)]
    few = [ask(10 + at, "b/q/solo") for at in range(9)]
    first = Counter(name[0] for name in order(many + few, 10))
    assert first == {"a": 5, "b": 5}
    inside = Counter(name.split(".")[1] for name in order(many))
    assert inside == {"p0": 3, "p1": 3, "p2": 3}
    assert [name.split(".")[1] for name in order(many, 3)] == ["p0", "p1", "p2"]


def test_a_heavy_user_of_a_project_does_not_cost_the_others_of_its_project_alone() -> None:
    pending = [ask(at, "a/p/heavy") for at in range(6)] + [ask(10 + at, "a/p/light") for at in range(2)]
    pending += [ask(20 + at, "a/q/other") for at in range(4)]
    assert order(pending, 6) == [
        "a.p.heavy",
        "a.q.other",
        "a.p.light",
        "a.q.other",
        "a.p.heavy",
        "a.q.other",
    ]


def test_weights_count_at_their_level() -> None:
    pending = [ask(at, "a/p/u") for at in range(12)] + [ask(20 + at, "b/p/u") for at in range(12)]
    assert Counter(name[0] for name in order(pending, 9, domain_a=2)) == {"a": 6, "b": 3}
    assert Counter(name[0] for name in order(pending, 8, project_p=5, user_u=7)) == {"a": 4, "b": 4}


def test_users_of_one_name_in_two_projects_are_two() -> None:
    pending = [ask(0, "a/p/u"), ask(1, "a/p/u"), ask(2, "a/q/u")]
    assert order(pending) == ["a.p.u", "a.q.u", "a.p.u"]


@given(st.lists(st.tuples(st.sampled_from(["a/p/u", "a/p/v", "a/q/u", "b/r/w", "/r/"]), st.integers(1, 5))))
def test_every_session_comes_once_and_the_poorest_domain_is_next(asked: list[tuple[str, int]]) -> None:
    pending = [ask(at, who, cpu) for at, (who, cpu) in enumerate(asked)]
    names = order(pending)
    assert Counter(names) == Counter(one.id.rpartition(".")[0] for one in pending)
    left, held = Counter(name.split(".")[0] for name in names), Counter[str]()
    sizes = {name: [one for one in pending if one.id.rpartition(".")[0] == name] for name in names}
    for name in names:
        domain = name.split(".")[0]
        assert all(held[domain] <= held[other] for other in left if left[other])
        left[domain] -= 1
        held[domain] += sizes[name].pop(0).kernels[0].slots["cpu"]


def test_in_a_plan_the_cluster_is_shared_by_the_hierarchy() -> None:
    group = GroupInfo("main", queue="drf", queue_options={"hierarchy": True, "weights": {"domain/a": 3}})
    pending = [ask(at, f"a/p/u{at}") for at in range(20)] + [ask(30 + at, "b/q/v") for at in range(20)]
    snapshot = Snapshot((node("n", machine(numa=1, cores=8, gpus=0)),), (group,), pending=tuple(pending))
    outcome = place(snapshot)
    audit(snapshot, outcome)
    assert Counter(one.session[0] for one in outcome.placements) == {"a": 6, "b": 2}
    assert Fraction(6, 3) == Fraction(2, 1)
