"""The page of a session, and that of its logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from bai.web.panel.views.logs_page import logs_page
from bai.web.panel.views.session_page import session_page
from schemas.problems.errors.command import NoSuchResource
from tests.bai.web.lab import Lab
from tests.bai.web.panel.rendering import SECRET, assert_harmless, hostile, render, texts_of, view_of
from tests.reconciler.lab import session


def test_it_tells_what_a_session_was_given(world: Lab) -> None:
    found = session_page(view_of(world), "p", "own")
    assert (found.phase, found.type, found.group, found.generation) == (
        "RUNNING",
        "interactive",
        "default",
        1,
    )
    assert found.asks == "cpu 2, cuda.device 1, mem 1GiB" and found.place == "own.yaml:2:1"
    (kernel,) = found.kernels
    assert (kernel.name, kernel.node, kernel.state, kernel.cores) == ("main1", "n1", "running", "0-1")
    assert (kernel.memory, kernel.devices, kernel.exit_code) == ("1GiB on numa0", "gpu 0", None)
    (picture,) = found.pictures
    cores = [core for numa in picture.numa_nodes for core in numa.cores]
    assert [core.holder.own for core in cores if core.holder] == [True, True, False]
    assert found.choice[0] == "concentrated: leaves 1 device, 6 cores, 63 GiB"
    assert (found.events[0].before, found.events[0].after) == ("CREATING", "RUNNING")
    assert found.explanation == () and found.efficiency == ()
    page = render("session.html", page=found)
    assert "/clusters/here/sessions/p/own/logs?kernel=main1" in page and "/clusters/here/nodes/n1" in page
    assert "    cuda.device: 1" in page and ' own" title="GPU 0 A100' in page


def test_why_a_session_waits_is_explained_in_full_where_that_is_asked_for(world: Lab) -> None:
    found = session_page(view_of(world), "p", "waiting", explain=True)
    assert found.wait is not None and found.wait.position == 2 and found.pictures == ()
    page = render("session.html", page=found)
    assert "How close the nodes come" in page and f"{SECRET}-run" in page
    assert "?explain=1" in render("session.html", page=session_page(view_of(world), "p", "waiting"))


@pytest.mark.parametrize("name", ["own", "waiting"])
def test_of_another_project_nothing_is_told(world: Lab, name: str) -> None:
    found = session_page(view_of(world, "ours"), "p", name, explain=True)
    assert not any(SECRET in text for text in texts_of(found))
    page = render("session.html", page=found)
    assert "another project" in page and SECRET not in page


@pytest.mark.parametrize(
    ("project", "name"),
    [(SECRET, f"{SECRET}-run"), ("p", "none"), ("", "own"), ("p", ""), ("p/own", ""), ("..", "own")],
)
def test_what_is_not_theirs_is_not_there(world: Lab, project: str, name: str) -> None:
    view = view_of(world, "ours")
    with pytest.raises(NoSuchResource):
        session_page(view, project, name)
    with pytest.raises(NoSuchResource):
        logs_page(view, project, name)


def test_what_is_hostile_stays_text(world: Lab) -> None:
    for name in ("own", "waiting"):
        found = session_page(view_of(world), "p", name, explain=True)
        assert_harmless(render("session.html", page=hostile(found)))
    assert_harmless(render("logs.html", page=hostile(logs_page(view_of(world), "p", "own"))))


def test_logs_are_of_one_container(world: Lab) -> None:
    found = logs_page(view_of(world), "p", "own")
    assert (found.kernels, found.kernel, found.node, found.state) == (("main1",), "main1", "n1", "running")
    page = render("logs.html", page=found)
    address = "/clusters/here/sessions/p/own/log-text?kernel=main1&amp;tail="
    assert f'data-follow="{address}1000&amp;follow=true"' in page and f'href="{address}100000"' in page
    with pytest.raises(NoSuchResource):
        logs_page(view_of(world), "p", "own", "main9")
    waiting = logs_page(view_of(world), "p", "waiting")
    assert waiting.kernel == "" and "It has no container yet." in render("logs.html", page=waiting)


def test_how_containers_ended_is_told_and_what_was_written_by_them_stays_text(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    attack = "<b onload=1>\x1b[2J"
    lab.write("a", session("a", "type: batch, resources: {cpu: 1}"))
    assert lab.once(), lab.lines
    kernel = next(each for each in lab.world.kernels if each.startswith("a-main1"))
    lab.world.die(kernel, exit_code=3, reason=attack)
    lab.once()
    found = session_page(view_of(lab), "p", "a")
    assert found.phase == "TERMINATED" and found.finished and found.pictures == ()
    assert {each.name: each.exit_code for each in found.kernels}["main1"] == 3
    assert "main1 exited with 3" in found.note
    page = render("session.html", page=found)
    assert "<b onload" not in page and "\x1b" not in page and "&lt;b onload" in page
    lab.close()
