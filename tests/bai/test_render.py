"""Renderers are pure: a Plan in, the same text out. `BAI_RECORD=1` writes the expected files anew."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console, RenderableType

from bai.render.humanize import name_list
from bai.render.nodes import svg
from bai.render.nodes.picture import HeldPlacement, node_picture
from bai.render.nodes.picture_text import ASCII, STYLES, UNICODE, draw_node, legend
from bai.render.plan import markdown, placements, terminal, waits
from bai.render.plan.sections import plan_summary
from planner.model.types import DeviceGrant, KernelPlacement, NodeInfo, Placement, Reason, Wait
from reconciler.values.changes.cause import NEW, Cause, CauseCode
from reconciler.values.changes.change import Change
from reconciler.values.plan import Plan
from schemas.hardware.model import Gpu, Hardware, NumaNode
from tests.bai.plans import action, full_plan, machine, placed, plan, side

CASES = Path(__file__).parent.parent / "cases" / "render"
NODES = {"gpu-001": machine()}


def text_of(renderable: RenderableType, *, width: int = 100, color: bool = False) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        markup=False,
        highlight=False,
        force_terminal=color,
        color_system="truecolor" if color else None,
    )
    console.print(renderable)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def expect(name: str, text: str) -> None:
    path = CASES / name
    if os.environ.get("BAI_RECORD"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def no_change() -> Plan:
    held = placed("Session/vision/eval", (8, 9), (2,), numa=1)
    return plan(action("Session/vision/eval", side(1, held, "RUNNING"), side(1, held, "RUNNING")))


@pytest.mark.parametrize(("name", "made"), [("full", full_plan()), ("no-change", no_change())])
def test_terminal_text(name: str, made: Plan) -> None:
    expect(f"{name}.txt", text_of(terminal.render_plan(made, NODES)))


@pytest.mark.parametrize(("name", "made"), [("full", full_plan()), ("no-change", no_change())])
def test_ascii_text_is_ascii(name: str, made: Plan) -> None:
    look = terminal.DrawingStyle(glyphs=ASCII, bar="=", rest=".")
    text = text_of(terminal.render_plan(made, NODES, look))
    assert text.isascii()
    expect(f"{name}.ascii.txt", text)


@pytest.mark.parametrize(("name", "made"), [("full", full_plan()), ("no-change", no_change())])
def test_markdown(name: str, made: Plan) -> None:
    expect(f"{name}.md", markdown.render_plan_markdown(made, NODES))


def test_same_plan_same_bytes() -> None:
    assert markdown.render_plan_markdown(full_plan(), NODES) == markdown.render_plan_markdown(
        full_plan(), NODES
    )
    assert text_of(terminal.render_plan(full_plan(), NODES)) == text_of(
        terminal.render_plan(full_plan(), NODES)
    )


def test_terminal_has_colour_only_when_asked() -> None:
    assert "\x1b[" in text_of(terminal.render_plan(full_plan(), NODES), color=True)
    assert "\x1b[" not in text_of(terminal.render_plan(full_plan(), NODES))


@pytest.mark.parametrize("sessions", [1, 400, 4000])
@pytest.mark.parametrize("limit", [2_000, 60_000])
def test_markdown_is_bounded_and_counts_what_it_leaves_out(sessions: int, limit: int) -> None:
    actions = [
        action(
            f"Session/vision/s{at:05}",
            None,
            side(1, placed(f"Session/vision/s{at:05}", (1,), ()), "RUNNING"),
            cause=NEW,
        )
        for at in range(sessions)
    ]
    waits = tuple(
        Wait(f"Session/nlp/w{at:05}", "a100", at + 1, (Reason("no-capacity", "needs 8 GPUs"),))
        for at in range(sessions)
    )
    text = markdown.render_plan_markdown(plan(*actions, waits=waits), NODES, limit=limit)
    assert len(text) <= limit
    assert (
        text.splitlines()[2]
        == f"**Plan: {sessions} to create; {sessions} wait{'s' if sessions == 1 else ''}.**"
    )
    if sessions == 4000:
        assert "4000 x Session: vision/s[00000-03999]" in text and "nlp/w[00000-03999]" in text


def test_texts_from_outside_cannot_steer_the_terminal_or_the_page() -> None:
    nasty = "\x1b[31mred\x1b[0m\r\n| `code` <img src=x> @everyone \u202e"
    act = action("Session/vision/x", side(), side(2), cause=Cause(CauseCode.NEW, nasty))
    made = plan(act, warnings=(nasty,))
    shown = text_of(terminal.render_plan(made))
    assert "\x1b" not in shown and "\u202e" not in shown and "\\x1b[31mred" in shown
    page = markdown.render_plan_markdown(made)
    assert "<img" not in page.replace("\\<img", "") and "\x1b" not in page
    assert all(
        line.count("|") - line.count("\\|") == 5 for line in page.splitlines() if line.startswith("| `~`")
    )


def test_a_page_calls_nobody() -> None:
    made = plan(warnings=("ask @ops-team about #12 and !7, or mail ops@example.org; a & b",))
    page = markdown.render_plan_markdown(made)
    line = next(line for line in page.splitlines() if line.startswith("- ⚠"))
    assert line == (
        "- ⚠ ask @&#8203;ops-team about \\#&#8203;12 and !&#8203;7, or mail ops@&#8203;example.org; a \\& b"
    )


def test_summary_counts_by_kind() -> None:
    assert (
        plan_summary(full_plan())
        == "Plan: 4 to create, 1 to update in place, 1 to replace, 1 to delete, 1 to queue; 1 waits."
    )
    assert plan_summary(no_change()) == "No changes."


def test_an_incomplete_observation_is_said() -> None:
    assert "nothing is deleted" in text_of(terminal.render_plan(replace(no_change(), complete=False)))
    assert "nothing is deleted" in markdown.render_plan_markdown(replace(no_change(), complete=False))


def test_only_new_placements_are_listed() -> None:
    text = text_of(terminal.render_plan(full_plan(), NODES))
    listed = text[text.index("Placement") : text.index("Waiting")]
    assert "vision/llama-sft" in listed and "vision/eval" not in listed


def test_picture_marks_every_use() -> None:
    held = [
        HeldPlacement(placed("Session/a/new", (1, 17), (0,))),
        HeldPlacement(placed("Session/a/old", (2, 18), (1,)), new=False),
    ]
    lines = [line.plain for line in draw_node(node_picture(machine(), held), ASCII)]
    assert lines[1] == "  numa0 [x#+.....] 256GiB   gpu 0 +"
    assert lines[2] == "  numa1 [........] 256GiB   gpu . !"


def test_picture_joins_cores_of_wide_nodes() -> None:
    lines = [line.plain for line in draw_node(node_picture(machine(cores=128)), ASCII, most_cells=32)]
    assert lines[1].startswith("  numa0 [%" + "." * 31 + "]")


def test_picture_shows_parts_of_devices_and_devices_without_a_numa_node() -> None:
    hardware = Hardware(numa_nodes=(NumaNode(id=0, cpus=(0, 1)),), gpus=(Gpu(id="G", index=0),))
    kernel = KernelPlacement("main1", "n", (), 500, (0,), 1, (DeviceGrant("G", "cuda", 500),))
    held = [HeldPlacement(Placement("Session/a/b", "g", (kernel,)))]
    lines = [line.plain for line in draw_node(node_picture(NodeInfo("n", hardware, "g"), held), ASCII)]
    assert lines[2] == "  gpus  (NUMA node unknown) gpu 0/0.5"
    assert lines[3] == "  0.5 cores shared, on cores that no session has alone"


def test_memory_only_numa_nodes_have_no_cores() -> None:
    hardware = Hardware(numa_nodes=(NumaNode(id=0, cpus=(0,)), NumaNode(id=2, kind="cxl", memory=1 << 30)))
    lines = [line.plain for line in draw_node(node_picture(NodeInfo("n", hardware, "")), ASCII)]
    assert lines[2] == "  numa2 []  1GiB cxl"


def test_svg_is_well_formed_and_tells_owners() -> None:
    text = svg.render_node_svg(
        node_picture(
            machine(name="a<b>&"), [HeldPlacement(placed("Session/v/<x>", (1, 17), (0,), node="a<b>&"))]
        )
    )
    root = ElementTree.fromstring(text)
    titles = [item.text or "" for item in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "CPU 1,17: Session/v/<x>" in titles
    assert sum(title.startswith("GPU ") for title in titles) == 4
    expect("node.svg", svg.render_node_svg(node_picture(machine())))


@pytest.mark.parametrize("width", [80, 100, 140])
def test_why_a_place_was_chosen_is_told_in_full(width: int) -> None:
    """Below the table, over as many lines as it takes: nothing is cut off."""
    reasons = [row.why for row in placements.placement_rows(full_plan(), NODES) if row.why]
    lines = text_of(terminal.render_plan(full_plan(), NODES), width=width).splitlines()
    flowing = " ".join(line.strip() for line in lines)
    assert reasons and all(reason in flowing for reason in reasons)
    assert max(map(len, lines)) <= width and not any("…" in line for line in lines)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_names_are_not_broken_at_usual_widths(width: int) -> None:
    """A gang of a long name on many cores: the other columns go over several lines."""
    cpus = (*range(2, 50), *range(58, 106))
    made = placed("Session/language/inference-bench", cpus, (0, 1))
    shown = text_of(
        terminal.render_plan(plan(action(made.session, None, side(1, made, "RUNNING"))), NODES), width=width
    )
    assert "    language/inference-bench  gpu-001  2-49, " in shown
    narrow = text_of(
        terminal.render_plan(plan(action(made.session, None, side(1, made, "RUNNING"))), NODES), width=44
    )
    assert max(map(len, narrow.splitlines())) <= 44


def test_a_long_change_stays_below_its_entry() -> None:
    long = Change("spec.command", "word " * 30, "other " * 30, forces=True)
    both = placed("Session/a/b", (1,), ())
    act = replace(action("Session/a/b", side(1, both, "RUNNING"), side(2, both, "RUNNING")), changes=(long,))
    lines = text_of(terminal.render_plan(plan(act), NODES), width=80).splitlines()
    first = next(at for at, line in enumerate(lines) if "spec.command" in line)
    assert all(line.startswith("        ") for line in lines[first : first + 4])


def test_a_search_that_was_cut_short_is_told() -> None:
    wait = Wait("Session/p/s", "g", 1, (Reason("no-capacity", "full"),))
    assert waits.wait_lines(wait) == ["no-capacity: full"]
    (_, said) = waits.wait_lines(replace(wait, cut_short=True))
    assert said.startswith("what would free it is not known")


def changed(before: object, after: object) -> list[str]:
    """What a plan says of one field, line by line."""
    values = [None if value is None else json.dumps(value) for value in (before, after)]
    both = placed("Session/a/b", (1,), ())
    change = Change("spec.script", *values, forces=True)
    act = replace(
        action("Session/a/b", side(1, both, "RUNNING"), side(2, both, "RUNNING")), changes=(change,)
    )
    lines = text_of(terminal.render_plan(plan(act)), width=100).splitlines()
    first = next(at for at, line in enumerate(lines) if "spec.script" in line)
    return lines[first : lines.index("", first)]


def test_a_text_of_several_lines_is_told_by_the_lines_that_change() -> None:
    before = "\n".join(f"step {at}" for at in range(200))
    after = before.replace("step 7\n", "step seven\n").replace("step 190", "step \x1b[31m190")
    assert changed(before, after) == [
        "        spec.script: these lines change  # forces replacement",
        "          - step 7",
        "          + step seven",
        "          - step 190",
        "          + step \\x1b[31m190",
    ]
    assert changed(None, "a\nb")[1:] == ["          + a", "          + b"]
    many = changed("\n".join("ab"), "\n".join(f"x{at}" for at in range(100)))
    assert len(many) == 14 and many[-1] == "          and 90 more lines"
    whole = " ".join(" ".join(changed("\n" * 3, "x\n" * 500)).split())
    assert whole.startswith('spec.script: "\\n\\n\\n" -> "x\\nx')
    assert changed("half \ud800\n", "a\nb")[1] == "          - half \\ud800"


def test_texts_of_one_line_and_other_values_are_told_whole() -> None:
    assert changed("a", "b") == ['        spec.script: "a" -> "b"  # forces replacement']
    assert changed(["a\n"], 4) == ['        spec.script: ["a\\n"] -> 4  # forces replacement']


def test_uses_are_told_apart_without_colour() -> None:
    for glyphs in (ASCII, UNICODE):
        marks = [glyphs.of(use) for use in STYLES] + [glyphs.mixed]
        assert len(set(marks)) == len(marks)
        explained = " ".join(line.plain for line in legend(glyphs))
        assert all(f"{mark} " in explained for mark in marks) and "gpu:" in explained


def test_names_are_joined_only_where_nothing_is_lost() -> None:
    names = [f"n{at:02}" for at in range(8, 12)] + ["n9", "n10", "n11", "x", "n009", "n10", "n11", "a1", "a2"]
    assert name_list(names, 20) == "n[08-11], n[9-11], x, n009, n10, n11, a1, a2"
    assert name_list(names, 2) == "n[08-11], n[9-11] and 6 more"
    assert name_list([], 2) == "" and name_list(["7", "8", "9"], 1) == "[7-9]"
