"""The curves of `benchmarks.scale`: CPU seconds by number of sessions. What is in proportion is a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bai.render.analysis.chart import Curve, Panel, panel_lines

_COMMANDS = ("validate, cold", "validate, warm", "plan, cold", "plan, warm", "terraform plan")
_PASSES = ("loop, nothing to do", "loop, one more", "loop, the pass after")
PANELS = (("CPU seconds of a command", _COMMANDS), ("CPU seconds of a pass", _PASSES))
COLOURS = ("#1a73e8", "#12b5cb", "#188038", "#9334e6", "#d93025")
WIDTH, HEIGHT, MARGIN, LEGEND = 520, 280, 20, 20
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#202124}.small{font-size:11px;fill:#5f6368}"
    ".title{font-weight:600}.curve{fill:none;stroke-width:1.8;stroke-linejoin:round}"
)


def growth_svg(sizes: Mapping[int, Mapping[str, Mapping[str, float]]]) -> str:
    """By number of sessions and name of what was measured: its `cpu`."""
    order = sorted(sizes)
    height = HEIGHT + LEGEND * max(len(names) for _, names in PANELS) + 2 * MARGIN
    whole = len(PANELS) * (WIDTH + MARGIN) + MARGIN
    body: list[str] = []
    for at, (title, names) in enumerate(PANELS):
        x, shown = MARGIN + at * (WIDTH + MARGIN), [one for one in names if one in sizes[order[-1]]]
        curves = [_curve(sizes, order, name, COLOURS[number]) for number, name in enumerate(shown)]
        marks = [(float(size), f"{size:,}") for size in order]
        body += panel_lines(Panel(title, curves, float(order[-1]), marks=marks), x, MARGIN, WIDTH, HEIGHT)
        for number, name in enumerate(shown):
            y = MARGIN + HEIGHT + LEGEND * (number + 1)
            body.append(f'<path class="curve" stroke="{COLOURS[number]}" d="M{x} {y - 4} h28"/>')
            body.append(f'<text x="{x + 36}" y="{y}">{name}</text>')
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{height}"'
            f' viewBox="0 0 {whole} {height}" role="img" aria-label="CPU seconds by number of sessions">',
            f"<style>{STYLE}</style>",
            f'<rect width="{whole}" height="{height}" fill="#ffffff"/>',
            *body,
            "</svg>\n",
        )
    )


def _curve(
    sizes: Mapping[int, Mapping[str, Mapping[str, float]]], order: Sequence[int], name: str, colour: str
) -> Curve:
    points = tuple((float(size), sizes[size][name]["cpu"]) for size in order if name in sizes[size])
    return Curve(colour, "", points)
