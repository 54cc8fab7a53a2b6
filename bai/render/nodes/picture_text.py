"""The picture of a node as lines of text: `numa0 [xx■■■■··] 64GiB  gpu 0 1 · ·`.

Each use has a character of its own: colour only underlines what can be read without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from bai.render.humanize import clean, format_milli, name_list, size
from schemas.hardware.anonymous import is_anonymous

if TYPE_CHECKING:
    from bai.render.nodes.picture import Cell, CellUse, GpuCell, NodePicture, NumaRow

STYLES: dict[CellUse, str] = {
    "free": "dim",
    "new": "bold green",
    "busy": "blue",
    "reserved": "yellow",
    "offline": "red",
}
_MIXED_STYLE = "cyan"


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One character per use. `mixed` stands for several cores of different use drawn as one."""

    free: str = "·"
    new: str = "■"
    busy: str = "□"
    reserved: str = "×"
    offline: str = "!"
    mixed: str = "▨"

    def of(self, use: CellUse) -> str:
        return str(getattr(self, use))


UNICODE = Glyphs()
ASCII = Glyphs(free=".", new="#", busy="+", reserved="x", offline="!", mixed="%")


_MOST_NAMES = 4


def draw_node(picture: NodePicture, glyphs: Glyphs = UNICODE, *, most_cells: int = 32) -> list[Text]:
    """One line per NUMA node, headed by the node's name; cores are joined so as to fit into `most_cells`."""
    return [_title([picture]), *_body(picture, glyphs, most_cells)]


def draw_alike(
    pictures: Iterable[NodePicture], glyphs: Glyphs = UNICODE, *, most_cells: int = 32
) -> list[tuple[int, list[Text]]]:
    """Each look once, headed by the names of all nodes that look like it, and how many they are."""
    looks: dict[object, tuple[list[Text], list[NodePicture]]] = {}
    for picture in pictures:
        body = _body(picture, glyphs, most_cells)
        key = (picture.group, picture.state, tuple(line.plain for line in body))
        looks.setdefault(key, (body, []))[1].append(picture)
    return [(len(those), [_title(those), *body]) for body, those in looks.values()]


def _body(picture: NodePicture, glyphs: Glyphs, most_cells: int) -> list[Text]:
    heads = [f"numa{row.id}" for row in picture.rows]
    width = max((len(head) for head in heads), default=0)
    cells = max((min(len(row.cells), most_cells) for row in picture.rows), default=0)
    lines = []
    for head, row in zip(heads, picture.rows, strict=True):
        lines.append(_numa_line(head.ljust(width), row, glyphs, most_cells, cells))
    if picture.unlocated_gpus:
        lines.append(
            _append_gpus(Text(f"  {'gpus'.ljust(width)} (NUMA node unknown)"), picture.unlocated_gpus, glyphs)
        )
    if picture.shared_milli:
        shared = format_milli(picture.shared_milli)
        lines.append(Text(f"  {shared} cores shared, on cores that no session has alone"))
    return lines


def legend(glyphs: Glyphs = UNICODE) -> list[Text]:
    """What the characters mean."""
    text = Text("  ")
    words: tuple[tuple[CellUse, str], ...] = (
        ("new", "planned"),
        ("busy", "in use"),
        ("reserved", "reserved"),
        ("offline", "offline"),
        ("free", "free"),
    )
    for use, word in words:
        text.append(glyphs.of(use), STYLES[use]).append(f" {word}  ", "dim")
    text.append(glyphs.mixed, _MIXED_STYLE).append(" cores of several uses", "dim")
    gpus = "  gpu: a mark for each; a number is a GPU that is planned, /0.5 how much of it"
    return [text, Text(gpus, "dim")]


def _title(pictures: Sequence[NodePicture]) -> Text:
    """The names of nodes that look alike."""
    text = Text(name_list((clean(picture.name) for picture in pictures), _MOST_NAMES), "bold")
    if pictures[0].group:
        text.append(f" ({clean(pictures[0].group)})", "not bold dim")
    if pictures[0].state != "active":
        text.append(f" {pictures[0].state}", "yellow")
    if len(pictures) > 1:
        text.append(f"  {len(pictures)} nodes, each:", "not bold dim")
    return text


def _numa_line(head: str, row: NumaRow, glyphs: Glyphs, most_cells: int, cells: int) -> Text:
    text = Text(f"  {head} [")
    drawn = 0
    for group in _group_cells(row.cells, most_cells):
        use = group[0].use
        mixed = any(cell.use != use for cell in group)
        text.append(glyphs.mixed if mixed else glyphs.of(use), _MIXED_STYLE if mixed else STYLES[use])
        drawn += 1
    text.append("]" + " " * (cells - drawn))
    memory = size(row.memory) if row.memory else ""
    kind = "" if row.kind == "dram" else f" {row.kind}"
    text.append(f" {memory}{kind}".ljust(9), "dim")
    if row.gpus:
        return _append_gpus(text, row.gpus, glyphs)
    text.rstrip()
    return text


def _append_gpus(text: Text, gpus: Sequence[GpuCell], glyphs: Glyphs) -> Text:
    """GPUs taken by this plan by number, others by their glyph, and those that have a number and no identity;
    a part of a device with its share."""
    text.append(" gpu")
    for gpu in gpus:
        shown = str(gpu.index) if gpu.use == "new" and not is_anonymous(gpu.id) else glyphs.of(gpu.use)
        if 0 < gpu.milli < 1000:
            shown += f"/{format_milli(gpu.milli)}"
        text.append(" ").append(shown, STYLES[gpu.use])
    return text


def _group_cells(cells: Sequence[Cell], most: int) -> Iterator[Sequence[Cell]]:
    """Neighbouring cores in equal groups, as few to a group as the width allows."""
    step = max(1, -(-len(cells) // most))
    for at in range(0, len(cells), step):
        yield cells[at : at + step]
