"""What a terminal shows, as text and as a picture."""

from __future__ import annotations

from xml.sax.saxutils import escape

from rich.console import Console, RenderableType
from rich.style import Style

_COLUMN, _LINE, _BELOW = 8.4, 18, 5
_COLORS = {
    "red": "#ff7b72", "green": "#56d364", "yellow": "#e3b341", "blue": "#79c0ff", "magenta": "#d2a8ff",
    "cyan": "#56d4dd",
}  # fmt: skip


def screen_svg(renderable: RenderableType, width: int) -> str:
    """The renderable on a dark terminal of so many columns."""
    console = Console(width=width, force_terminal=True, markup=False, highlight=False, emoji=False)
    lines = console.render_lines(renderable, pad=False)
    wide, high = (width + 2) * _COLUMN, (len(lines) + 1) * _LINE
    found = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{high}" '
        'font-family="monospace" font-size="14">',
        f'<rect width="{wide:g}" height="{high}" fill="#0d1117"/>',
    ]
    for at, line in enumerate(lines, start=1):
        column = 1
        for part in line:
            if part.text.strip():
                found.append(_text(part.text, part.style, column, at))
            column += part.cell_length
    return "\n".join([*found, "</svg>"]) + "\n"


def _text(text: str, style: Style | None, column: int, line: int) -> str:
    shown = text.strip()
    column += len(text) - len(text.lstrip())
    color = _COLORS.get(style.color.name, "#e6edf3") if style and style.color else "#e6edf3"
    marks = ""
    if style and style.bold:
        marks += ' font-weight="bold"'
    if style and style.dim:
        marks += ' opacity="0.7"'
    if style and style.underline:
        marks += ' text-decoration="underline"'
    place = (
        f'x="{column * _COLUMN:.1f}" y="{line * _LINE - _BELOW + 5}" textLength="{len(shown) * _COLUMN:.1f}"'
    )
    return f'<text {place} fill="{color}"{marks} xml:space="preserve">{escape(shown)}</text>'
