"""What a terminal shows, as text and as a picture."""

from __future__ import annotations

import os
from pathlib import Path
from xml.sax.saxutils import escape

from rich.console import Console, RenderableType
from rich.style import Style

SCREENS = Path(__file__).parents[2] / "docs" / "gallery" / "screens"
_COLUMN, _LINE, _BELOW = 8.4, 18, 5
_COLORS = ["", "#ff7b72", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd"]
"""By the number that a terminal knows them by: red, green, yellow, blue, magenta, cyan."""
_FOREGROUND = "#e6edf3"


def expect_screen(name: str, text: str) -> None:
    """The gallery's screen of this name is this; `BAI_RECORD=1` writes it anew."""
    if os.environ.get("BAI_RECORD"):
        (SCREENS / name).write_text(text, encoding="utf-8")
    assert text == (SCREENS / name).read_text(encoding="utf-8"), f"{name} is stale: `make screens`"


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
    number = style.color.number if style and style.color else None
    color = _COLORS[number] if number else _FOREGROUND
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
