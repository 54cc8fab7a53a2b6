"""The curves of a simulation as an SVG file: allocation, queue and fragmentation over time, and the waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from bai.render.analysis.chart import Curve, Panel, panel_lines
from bai.render.humanize import clean
from planner.simulation.measures import curve

if TYPE_CHECKING:
    from planner.simulation.values import Replay

COLOURS = (
    "#1a73e8", "#d93025", "#188038", "#e37400", "#9334e6", "#12b5cb",
    "#c2185b", "#5f6368", "#827717", "#5d4037", "#00796b", "#3949ab",
)  # fmt: skip
DASHES = ("", "7 3", "2 3")
POINTS = 160
WIDTH, PANEL_WIDTH, PANEL_HEIGHT, MARGIN, HEAD, LINE = 1080, 510, 260, 20, 44, 20
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#202124}.small{font-size:11px;fill:#5f6368}"
    ".title{font-weight:600}.curve{fill:none;stroke-width:1.8;stroke-linejoin:round}"
)


def render_simulation_svg(title: str, replays: Sequence[tuple[str, Replay]]) -> str:
    """The whole picture; the same replays give the same bytes."""
    panels = _panels(replays)
    rows = -(-len(panels) // 2)
    legend = MARGIN + HEAD + rows * (PANEL_HEIGHT + MARGIN)
    height = legend + LINE * -(-len(replays) // 2) + MARGIN
    body = [f'<text x="{MARGIN}" y="30" class="title" style="font-size:15px">{escape(clean(title))}</text>']
    for at, panel in enumerate(panels):
        x = MARGIN + at % 2 * (PANEL_WIDTH + MARGIN)
        body += panel_lines(
            panel, x, MARGIN + HEAD + at // 2 * (PANEL_HEIGHT + MARGIN), PANEL_WIDTH, PANEL_HEIGHT
        )
    for at, (name, _) in enumerate(replays):
        x, y = MARGIN + at % 2 * (PANEL_WIDTH + MARGIN), legend + LINE * (at // 2)
        stroke = f'stroke="{_colour(at)}" stroke-dasharray="{_dash(at)}"'
        body.append(f'<path class="curve" {stroke} d="M{x} {y} h28"/>')
        body.append(f'<text x="{x + 36}" y="{y + 4}">{escape(clean(name, 70))}</text>')
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
            f' viewBox="0 0 {WIDTH} {height}" role="img" aria-label={quoteattr(clean(title))}>',
            f"<style>{STYLE}</style>",
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            *body,
            "</svg>\n",
        )
    )


def _panels(replays: Sequence[tuple[str, Replay]]) -> list[Panel]:
    span = max(
        (min(1.05 * (one.settled - one.begin), one.end - one.begin) for _, one in replays), default=0.0
    )
    span = span or max((one.end - one.begin for _, one in replays), default=0.0)
    devices = any(one.capacity["devices"] for _, one in replays)
    slot = "devices" if devices else "cpu"
    found = [
        Panel(
            f"{'Devices' if devices else 'CPU'} allocated (% of the cluster)",
            [_allocation_curve(at, one, span, slot) for at, (_, one) in enumerate(replays)],
            span,
            100.0,
        ),
        Panel(
            "Sessions that wait", [_waiting_curve(at, one, span) for at, (_, one) in enumerate(replays)], span
        ),
    ]
    if devices:
        lies = [_fragmentation_curve(at, one, span) for at, (_, one) in enumerate(replays)]
        found.append(Panel("Free devices beside taken ones (% of the cluster)", lies, span))
    longest = max((_longest_wait(one) for _, one in replays), default=0.0)
    shares = [_wait_distribution(at, one, longest) for at, (_, one) in enumerate(replays)]
    found.append(Panel("Sessions started within a waiting time (%)", shares, longest, 100.0))
    return found


def _colour(at: int) -> str:
    return COLOURS[at % len(COLOURS)]


def _dash(at: int) -> str:
    """Curves that lie on each other stay visible."""
    return DASHES[at % len(DASHES)]


def _curve(at: int, points: Sequence[tuple[float, float]]) -> Curve:
    return Curve(_colour(at), _dash(at), tuple(points))


def _allocation_curve(at: int, one: Replay, span: float, slot: str) -> Curve:
    values = one.samples.devices if slot == "devices" else one.samples.cpu
    capacity = max(1, one.capacity[slot])
    return _curve(at, [(x, 100 * y / capacity) for x, y in curve(one, values, span, POINTS)])


def _waiting_curve(at: int, one: Replay, span: float) -> Curve:
    return _curve(at, curve(one, one.samples.waiting, span, POINTS))


def _fragmentation_curve(at: int, one: Replay, span: float) -> Curve:
    capacity = max(1, one.capacity["devices"])
    return _curve(at, [(x, 100 * y / capacity) for x, y in curve(one, one.samples.fragmented, span, POINTS)])


def _longest_wait(one: Replay) -> float:
    return max((each.wait for each in one.results if each.wait is not None), default=0.0)


def _wait_distribution(at: int, one: Replay, longest: float) -> Curve:
    """Share of all sessions, those that never started among them, that started within a time."""
    waits = sorted(each.wait for each in one.results if each.wait is not None)
    whole, reached, points = max(1, len(one.results)), 0, []
    for step in range(POINTS + 1):
        x = longest * step / POINTS
        while reached < len(waits) and waits[reached] <= x:
            reached += 1
        points.append((x, 100 * reached / whole))
    return _curve(at, points)
