"""The page of a node: what it is, how it is, and who is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bai.render.nodes.picture import HeldPlacement
from bai.web.panel.views.node_drawing import draw_node
from bai.web.panel.views.node_page import node_page
from planner.model.types import DeviceGrant, Placement
from schemas.problems.errors.command import NoSuchResource
from tests.bai.plans import machine, placed
from tests.bai.web.lab import Lab
from tests.bai.web.panel.rendering import (
    LABELLED_NODE,
    SECRET,
    assert_harmless,
    hostile,
    render,
    texts_of,
    view_of,
)


def test_it_tells_who_is_there(world: Lab) -> None:
    found = node_page(view_of(world), "n1")
    held = {row.holder.text: row for row in found.held}
    assert set(held) == {"p/own", f"{SECRET}/{SECRET}-run"}
    own = held["p/own"]
    assert (own.kernel, own.phase, own.cores, own.memory) == ("main1", "RUNNING", "0-1", "1GiB on numa0")
    assert own.devices == "gpu 0"
    assert found.summary.startswith("x86_64, 2 NUMA nodes, 8 cores (8 CPUs), 2 GPUs")
    assert found.labels == (("rack", f"{SECRET}-n1"),)
    assert found.memory == "2GiB of 64GiB" and found.row.used_gpus == 2
    page = render("node.html", page=found)
    assert f'href="/clusters/here/sessions/{SECRET}/{SECRET}-run"' in page
    assert 'class="cell busy' in page and "GPU-n1-1" in page


def test_of_another_project_only_that_something_is_taken_is_told(world: Lab) -> None:
    found = node_page(view_of(world, "ours"), "n1")
    assert [row.holder.text for row in found.held] == ["p/own", "another project"]
    hidden = found.held[1]
    assert (hidden.kernel, hidden.phase, hidden.devices) == ("", "", "gpu 1")
    assert found.labels == () and found.events == ()
    page = render("node.html", page=found)
    assert "p/own" in page and "CPU 4: another project" in page and SECRET not in page
    assert not any(SECRET in text for text in texts_of(found))


def test_what_is_hostile_stays_text(world: Lab) -> None:
    assert_harmless(render("node.html", page=hostile(node_page(view_of(world), "n1"))))


def test_there_is_no_such_node(world: Lab) -> None:
    with pytest.raises(NoSuchResource):
        node_page(view_of(world), "n9")


def test_why_a_node_is_in_its_state_and_what_happened_to_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path, node=LABELLED_NODE)
    assert lab.once(), lab.lines
    lab.world.down["n1"] = "no answer\x1b[2J"
    lab.once()
    found = node_page(view_of(lab), "n1")
    assert found.row.state == "unreachable" and "no answer\\x1b[2J" in found.note
    page = render("node.html", page=found)
    assert "no answer" in page and "\x1b" not in page
    theirs = node_page(view_of(lab, "ours"), "n1")
    assert (theirs.row.state, theirs.note) == ("unreachable", "")
    assert "no answer" not in render("node.html", page=theirs)
    lab.close()


def partly(session: str, gpu: str, node: str, milli: int) -> Placement:
    (kernel,) = placed(session, (), (), node=node).kernels
    grant = DeviceGrant(gpu, "cuda.shares", milli)
    return Placement(session, "a100", (replace(kernel, devices=(grant,)),))


def test_parts_of_a_gpu_are_told_of_each_holder() -> None:
    node = machine()
    gpu = node.hardware.gpus[0].id
    held = [
        HeldPlacement(partly(f"Session/{name}", gpu, node.name, milli), new=False)
        for name, milli in (("p/a", 250), (f"{SECRET}/b", 250), (f"{SECRET}/c", 100))
    ]
    drawn = draw_node("here", node, held, lambda identity: SECRET not in identity, own="Session/p/a")
    tiles = [gpu for numa in drawn.numa_nodes for switch in numa.switches for gpu in switch.gpus]
    tile = next(gpu for gpu in tiles if gpu.index == 0)
    assert [(each.text, each.milli, each.own) for each in tile.holders] == [
        ("p/a", 250, True),
        ("another project", 350, False),
    ]
    assert (tile.milli, tile.fill, tile.own) == (600, 6, True)
    assert tile.title.endswith(": p/a (0.25), another project (0.35)")
