"""Nodes before and after a plan, device by device as the plan's own JSON has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bai.queries.facts.node_infos import node_infos
from bai.web.panel.plans import node_pairs as module
from bai.web.panel.plans.node_pairs import NodePair, node_pairs
from bai.web.panel.views.node_drawing import DrawnNode
from reconciler.review.between_commits import ReviewedCommit
from reconciler.values.encoding.plan_json import plan_values
from tests.bai.web.panel.plans.following import GPU, FollowingLab
from tests.reconciler.lab import NODE, session

NEW = NODE.format(name="n3")
CHANGE: dict[str, str | None] = {
    "a.yaml": None,
    "b.yaml": session("b", "resources: {cpu: 4, memory: 1GiB, cuda.device: 2}"),
    "c.yaml": session("c", GPU),
    "d.yaml": session("d", "resources: {cpu: 400, memory: 1GiB}"),
    "n3.yaml": NEW,
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FollowingLab]:
    made = FollowingLab(tmp_path_factory.mktemp("pairs"))
    made.push(CHANGE, "next")
    made.once()
    yield made
    made.close()


def made_review(lab: FollowingLab, named: str = "next") -> ReviewedCommit:
    return lab.reviews.review(lab.reviews.find(named), "ada")


def pairs_of(lab: FollowingLab, made: ReviewedCommit) -> dict[str, NodePair]:
    latest = lab.hub.clusters["here"].good
    assert latest is not None and latest.actual is not None
    found = node_pairs(made.review.plan, node_infos(made.base, latest.actual), made.review.nodes)
    return {each.name: each for each in found.items}


Held = dict[tuple[str, str], set[str]]
"""Node and device or CPU → sessions."""


def held_in_json(values: dict[str, Any], side: str) -> Held:
    found: Held = {}
    for action in values["actions"]:
        placement = (action[side] or {}).get("placement") or {}
        for kernel in placement.get("kernels", ()):
            names = [each["id"] for each in kernel["devices"]] + [f"cpu{cpu}" for cpu in kernel["cpus"]]
            for name in names:
                found.setdefault((kernel["node"], name), set()).add(placement["session"])
    return found


def held_in_picture(picture: DrawnNode) -> Held:
    found: Held = {}
    for numa in picture.numa_nodes:
        for gpu in (gpu for switch in numa.switches for gpu in switch.gpus):
            names = {f"Session/{each.text}" for each in gpu.holders}
            if names:
                found[picture.name, gpu.title.partition(":")[0].split()[-1]] = names
        for core in numa.cores:
            for cpu in core.title.partition(":")[0].split()[1].split("-") if core.holder else ():
                assert core.holder is not None
                found[picture.name, f"cpu{cpu}"] = {f"Session/{core.holder.text}"}
    return found


def test_each_device_is_held_by_whom_the_plan_says_before_and_after(lab: FollowingLab) -> None:
    made = made_review(lab)
    values, pairs = plan_values(made.review.plan), pairs_of(lab, made)
    assert set(pairs) == {"n1", "n2", "n3"}
    for side, pictures in (
        ("before", [each.before for each in pairs.values()]),
        ("after", [each.after for each in pairs.values()]),
    ):
        drawn: Held = {}
        for picture in pictures:
            drawn |= held_in_picture(picture) if picture is not None else {}
        expected = held_in_json(values, side)
        assert drawn == expected and expected, side
    assert pairs["n3"].before is None and pairs["n3"].after is not None


def test_what_leaves_and_what_is_placed_is_told_and_marked(lab: FollowingLab) -> None:
    pairs = pairs_of(lab, made_review(lab))
    gone = {each.session: each.what for pair in pairs.values() for each in pair.goes}
    come = {each.session: each.what for pair in pairs.values() for each in pair.comes}
    assert set(gone) == {"Session/p/a", "Session/p/b"} and set(come) == {"Session/p/b", "Session/p/c"}
    assert gone["Session/p/a"] == "gpu 0, cores 0-1"
    for pair in pairs.values():
        for picture, told in ((pair.before, pair.goes), (pair.after, pair.comes)):
            marked = {
                f"Session/{core.holder.text}"
                for numa in (picture.numa_nodes if picture else ())
                for core in numa.cores
                if core.use == "new" and core.holder
            }
            assert marked == {each.session for each in told}


def test_a_node_that_is_taken_away_has_no_picture_afterwards(lab: FollowingLab) -> None:
    lab.push({"nodes.yaml": NODE.format(name="n1")}, "fewer")
    lab.once()
    pairs = pairs_of(lab, made_review(lab, "fewer"))
    assert pairs["n2"].before is not None and pairs["n2"].after is None


def test_a_plan_that_changes_nothing_has_no_pictures(lab: FollowingLab) -> None:
    assert pairs_of(lab, made_review(lab, lab.commit)) == {}


def test_pictures_are_cut_into_pages(lab: FollowingLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PAIRS", 2)
    made = made_review(lab)
    found = [node_pairs(made.review.plan, made.review.nodes, made.review.nodes, at) for at in (1, 2, 3)]
    assert [[each.name for each in part.items] for part in found] == [["n1", "n2"], ["n3"], ["n3"]]
    assert (found[0].number, found[0].count, found[0].total) == (1, 2, 3)
