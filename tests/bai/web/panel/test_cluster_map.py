"""The cluster's page: how it stands, and its nodes as cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from bai.web.panel.views import cluster_map as module
from bai.web.panel.views.cluster_map import ClusterMap, NodeCell, cluster_map
from bai.web.panel.views.device_drawing import fill_step
from tests.bai.web.lab import Lab
from tests.bai.web.panel.rendering import (
    LABELLED_NODE,
    SECRET,
    assert_harmless,
    bench_view,
    hostile,
    render,
    texts_of,
    view_of,
)
from tests.harness.work import instructions, instructions_per_pair
from tests.reconciler.lab import session


def cells(found: ClusterMap) -> dict[str, NodeCell]:
    return {cell.name: cell for group in found.groups for rack in group.racks for cell in rack.cells}


def test_cells_tell_what_is_held_and_by_whom(world: Lab) -> None:
    found = cluster_map(view_of(world))
    (group,) = found.groups
    assert (group.name, group.nodes, group.gpus, group.gpus_used) == ("default", 2, 4, "3")
    assert [rack.name for rack in group.racks] == [f"{SECRET}-n1", f"{SECRET}-n2"]
    first, second = cells(found).values()
    assert (first.gpus, first.gpu_milli, first.cores, first.core_milli, first.fill) == (2, 2000, 8, 3000, 10)
    assert (second.gpu_milli, second.fill, second.project) == (1000, 5, SECRET)
    assert second.title == f"n2: ready, 1 of 2 GPUs used, 1 of 8 cores used, most of it by {SECRET}"
    assert (found.gpus, found.gpus_used, found.gpus_free, found.waiting) == (4, "3", 1, 2)
    assert found.status.phases == {"PENDING": 2, "RUNNING": 3} and found.status.queue == {"no-capacity": 2}
    assert [picture.name for picture in found.pictures] == ["n1", "n2"]


def test_the_page_links_nodes_sessions_and_phases(world: Lab) -> None:
    page = render("cluster.html", map=cluster_map(view_of(world)))
    for link in (
        "/clusters/here/nodes/n1", "/clusters/here/queue", "/clusters/here/sessions?phase=pending",
        f"/clusters/here/sessions/{SECRET}/{SECRET}-run", f"/clusters/here/sessions?project={SECRET}",
    ):  # fmt: skip
        assert f'href="{link}"' in page


def test_of_another_project_only_that_something_is_taken_is_told(world: Lab) -> None:
    found = cluster_map(view_of(world, "ours"))
    first, second = cells(found).values()
    assert (second.gpu_milli, second.fill, second.project) == (1000, 5, "")
    assert second.title.endswith("most of it by another project")
    assert first.project == "p" and found.projects == ("p",)
    assert [rack.name for rack in found.groups[0].racks] == [""]  # Labels are what documents say.
    page = render("cluster.html", map=found)
    assert "p/own" in page and "another project" in page and SECRET not in page
    assert not any(SECRET in text for text in texts_of(found.pictures))


def test_what_is_hostile_stays_text(world: Lab) -> None:
    assert_harmless(render("cluster.html", map=hostile(cluster_map(view_of(world)))))


def test_states_and_problems(tmp_path: Path) -> None:
    lab = Lab(tmp_path, node=LABELLED_NODE)
    lab.write("a", session("a", "resources: {cpu: 1}"))
    assert lab.once(), lab.lines
    busy = lab.workspace.store.recorded("here")["Session/p/a"].placement
    assert busy is not None
    node = busy.kernels[0].node
    other = "n2" if node == "n1" else "n1"
    lab.world.down[other] = "no answer"
    lab.once()
    found = cluster_map(view_of(lab))
    assert cells(found)[other].state == "unreachable" and cells(found)[node].state == "ready"
    assert f"1 node cannot be reached: {other}" in found.problems
    assert "is-down" in render("cluster.html", map=found)
    lab.close()


@pytest.mark.parametrize(
    ("used", "total", "step"),
    [(0, 8000, 0), (1, 8000, 1), (4000, 8000, 5), (7999, 8000, 9), (8000, 8000, 10), (9000, 8000, 10),
     (0, 0, 0), (5, 0, 0)],
)  # fmt: skip
def test_only_what_is_empty_looks_empty_and_only_what_is_full_looks_full(
    used: int, total: int, step: int
) -> None:
    assert fill_step(used, total) == step


def test_large_clusters_are_not_drawn(world: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PICTURES", 1)
    assert cluster_map(view_of(world)).pictures == ()


def test_it_is_no_work_for_each_pair_of_nodes_and_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PICTURES", 1000)  # Each is drawn, however many there are.

    def work(size: int) -> int:
        with bench_view(size // 2, size) as view:
            assert len(cells(cluster_map(view))) == size // 2
            return instructions(lambda: cluster_map(view))

    assert instructions_per_pair(work, 16) <= 0.2
