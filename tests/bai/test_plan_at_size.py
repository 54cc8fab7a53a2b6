"""A plan of five hundred sessions is read on a few screens, and everything is found with `--details`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from bai.cli.plans.show_plan import known_nodes
from bai.render.humanize import short_name
from bai.render.nodes import picture_text
from bai.render.plan import markdown, terminal
from bai.render.plan.contents import plan_contents
from bai.render.plan.placements import new_placements
from bai.render.plan.waits import wait_groups
from planner.model.types import NodeInfo, Placement, Reason, Wait
from reconciler.values.changes.cause import REMOVED, SPEC_CHANGED
from reconciler.values.changes.change import Change
from reconciler.values.plan import Plan
from reconciler.workspace.workspace import Workspace
from tests.bai.many_sessions import make_many_sessions
from tests.bai.plans import action, placed, side
from tests.bai.plans import plan as plan_of
from tests.bai.screens import expect_screen, screen_svg
from tests.bai.test_render import text_of


@dataclass(frozen=True)
class Noon:
    """A clock that stands."""

    def now(self) -> float:
        return 1_800_000_000.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Plan, dict[str, NodeInfo]]]:
    folder = make_many_sessions(tmp_path_factory.mktemp("many") / "cluster")
    with Workspace.open(folder, clock=Noon()) as workspace:
        yield workspace.plan(offline=True), known_nodes(workspace, offline=True)


ASCII = terminal.DrawingStyle(glyphs=picture_text.ASCII, bar="=", rest=".")
ALL = terminal.Fullness(details=True)
Many = tuple[Plan, dict[str, NodeInfo]]


def section(text: str, heading: str) -> str:
    """What is below the heading, to the next empty line."""
    return text[text.index(f"\n{heading}") + 1 :].partition("\n\n")[0]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_five_hundred_sessions_are_a_few_screens(many: Many, width: int) -> None:
    plan, nodes = many
    text = text_of(terminal.render_plan(plan, nodes, ASCII), width=width)
    lines = text.splitlines()
    assert sum(action.id.startswith("Session/") for action in plan.changes) == 500
    assert len(lines) <= 120 and max(map(len, lines)) <= width
    assert any("--details lists everything" in line for line in lines)
    waiting = " ".join(section(text, "Waiting").split())
    assert "332 sessions in group h100 wait behind the first of the queue" in waiting
    assert "18 sessions in group h100 wait for GPUs" in waiting
    assert "24 sessions in group h100 are held back by quota speech-gpus" in waiting
    assert "4 sessions in group h100 ask for more memory than can be given there" in waiting
    assert any("language/gang-[01-03]" in line and " dgx-[01-12]" in line for line in lines)


def test_nobody_is_left_uncounted(many: Many) -> None:
    plan, nodes = many
    groups = wait_groups(plan.waits)
    assert sorted(wait.session for group in groups for wait in group.waits) == sorted(
        wait.session for wait in plan.waits
    )
    for group in groups:
        keys = {tuple((one.code, one.lacks) for one in wait.reasons) for wait in group.waits}
        assert len(keys) == 1 and {wait.group for wait in group.waits} == {group.group}
    contents = plan_contents(plan, nodes, details=False)
    names = [name for entry in contents.entries for name in entry.names]
    assert sorted(names) == sorted(action.id for action in plan.changes) and not contents.more_entries
    placed = {short_name(one.session) for one in new_placements(plan)}
    assert {name for row in contents.shapes for name in row.sessions} == placed


def test_details_tell_of_each(many: Many) -> None:
    plan, nodes = many
    text = text_of(terminal.render_plan(plan, nodes, ASCII, ALL), width=120)
    assert "Told in short" not in text
    for wait in plan.waits:
        assert f" {short_name(wait.session)}  in group {wait.group}\n" in text
    for change in plan.changes:
        if change.placement_after:
            assert f"\n    {short_name(change.id)} " in text


def test_the_page_of_a_pull_request_tells_the_same_groups(many: Many) -> None:
    page = markdown.render_plan_markdown(*many)
    assert len(page) < 8_000 and "more not shown here" not in page
    assert "332 sessions in group h100 wait behind the first of the queue" in page
    assert "`--details` of `bai plan` and `bai review` lists each" in page


@pytest.mark.parametrize("width", [80, 200])
def test_screens_of_the_gallery(many: Many, width: int) -> None:
    """`make screens` draws them anew."""
    expect_screen(f"plan-{width}.txt", text_of(terminal.render_plan(*many), width=width))
    expect_screen(f"plan-{width}.svg", screen_svg(terminal.render_plan(*many), width))


def waiting(count: int, *reasons: Reason, **fields: object) -> list[Wait]:
    return [
        Wait(f"Session/p/s-{at:03}", "g", at, reasons, **fields)  # type: ignore[arg-type]
        for at in range(1, count + 1)
    ]


def test_waits_are_grouped_by_what_is_lacking_and_not_by_their_words() -> None:
    lacks = [Reason("no-capacity", f"needs {gpus} GPUs; none is free", "GPUs") for gpus in (1, 2, 4, 8, 16)]
    waits = [Wait(f"Session/p/s-{at:03}", "g", at, (lacks[at % 5],)) for at in range(1, 101)]
    waits[40] = replace(waits[40], freed_by="Session/p/x", latest=1_800_000_000.0)
    waits[70] = replace(waits[70], latest=1_700_000_000.0)
    waits += [Wait("Session/p/other", "g", 101, (Reason("no-capacity", "needs 1 GPU", "memory"),))]
    first, second = wait_groups(waits)
    assert first.title == "100 sessions in group g wait for GPUs" and first.names == "p/s-[001-100]"
    assert second.names == "p/other" and second.title == "in group g"
    assert first.lines == [
        "20 of them: no-capacity: needs 2 GPUs; none is free",
        "20 of them: no-capacity: needs 4 GPUs; none is free",
        "20 of them: no-capacity: needs 8 GPUs; none is free",
        "and 2 more reasons of these kinds, with other numbers",
        "p/s-041 is first freed by Session/p/x, at the latest at 2027-01-15T08:00:00Z",
        "the first that is known to fit is p/s-071, at the latest at 2023-11-14T22:13:20Z",
    ]


def test_few_waits_are_told_one_by_one() -> None:
    waits = waiting(8, Reason("no-capacity", "full", "GPUs"))
    assert [group.names for group in wait_groups(waits)] == [f"p/s-{at:03}" for at in range(1, 9)]
    assert len(wait_groups(waiting(9, Reason("no-capacity", "full", "GPUs")))) == 1


def test_many_similar_updates_and_deletes_are_told_together() -> None:
    image = Change("spec.image", '"a:1"', '"a:2"', forces=True)
    acts = []
    for at in range(300):
        held = placed(f"Session/p/s-{at:03}", (1,), ())
        rate = Change("spec.env.LR", '"1"', f'"{at % 40}"')
        both = (side(1, held, "RUNNING"), side(2, held, "RUNNING"))
        acts.append(action(held.session, *both, image, rate, cause=SPEC_CHANGED))
        gone = placed(f"Session/p/old-{at:03}", (1,), ())
        acts.append(action(gone.session, side(1, gone, "RUNNING"), None, cause=REMOVED))
    text = text_of(terminal.render_plan(plan_of(*acts)), width=120)
    changes = section(text, "Changes").splitlines()
    assert changes[1:4] == [
        "  -/+ 300 x Session  spec changed",
        "        p/s-[000-299]",
        '        spec.image: "a:1" -> "a:2"  # forces replacement',
    ]
    assert '        8 of them: spec.env.LR: "1" -> "0"' in changes
    assert "        and 37 other details, each of some of them" in changes
    assert changes[-3:] == [
        "    - 300 x Session  no longer in the repository",
        "        p/old-[000-299]",
        "        stops 300 containers",
    ]


def test_names_of_a_cluster_cannot_steer_the_terminal_when_they_are_joined() -> None:
    waits = [
        Wait(f"Session/p/\x1b[31m{at}", "\x1b[2Jg", at, (Reason("\x1bc", "\x1b", "\x1b]0;x\x07"),))
        for at in range(1, 20)
    ]
    text = text_of(terminal.render_plan(plan_of(waits=tuple(waits))))
    assert "\x1b" not in text and "\\x1b[31m[1-19]" in text


def test_a_cost_that_grows_with_what_is_planned() -> None:
    """Twenty thousand waits for different reasons: a bounded page."""
    waits = [Wait(f"Session/p/s{at}", f"g{at % 50}", at, (Reason("r", str(at)),)) for at in range(20_000)]
    lines = text_of(terminal.render_plan(plan_of(waits=tuple(waits)))).splitlines()
    assert len(lines) < 120 and any("more sessions, for other reasons" in line for line in lines)


@pytest.mark.parametrize("width", [72, 80, 100, 120, 200])
def test_a_gang_is_one_line_and_nothing_is_cut(width: int) -> None:
    cpus, gpus = (*range(2, 50), *range(58, 106)), (0, 1, 2)
    parts = [
        replace(placed("", cpus, gpus, node=f"dgx-{at:02}").kernels[0], kernel=f"sub{at}")
        for at in range(1, 17)
    ]
    gang = Placement("Session/language/pretrain", "h100", tuple(parts))
    apart = replace(
        placed("Session/p/sweep", (1,), ()),
        kernels=(
            replace(placed("", (1,), ()).kernels[0], kernel="main1"),
            replace(placed("", (2,), ()).kernels[0], kernel="sub1"),
        ),
    )
    made = plan_of(*(action(one.session, None, side(1, one, "RUNNING")) for one in (gang, apart)))
    lines = section(text_of(terminal.render_plan(made), width=width), "Placement").splitlines()
    assert max(map(len, lines)) <= width
    shown = " ".join(lines)
    assert "language/pretrain" in shown and "sub[1-16]" in shown and shown.count("dgx-[01-16]") == 1
    assert "gpu GPU-0-2" in " ".join(shown.split()) and "main1" in shown and "sub1" in shown
    assert shown.count("gpu-001") == 2 and ("container" in shown) == (width >= 80)
