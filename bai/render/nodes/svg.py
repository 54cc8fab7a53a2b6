"""The picture of nodes as an SVG file: a box per NUMA node, a square per core, a tile per GPU.

It brings its own background, and another one where dark colours are preferred, so that it can be read on any
page. Nothing is told by colour alone: reserved and offline cores carry a mark, tiles name who has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from bai.render.humanize import clean, format_milli, size
from schemas.hardware.cpuset import format_cpus

if TYPE_CHECKING:
    from bai.render.nodes.picture import Cell, CellUse, GpuCell, NodePicture, NumaRow

LIGHT: dict[CellUse, str] = {
    "new": "#188038",
    "busy": "#1967d2",
    "reserved": "#e8a100",
    "offline": "#c5221f",
    "free": "#dfe3e8",
}
DARK: dict[CellUse, str] = {
    "new": "#188a3f",
    "busy": "#2f6fe0",
    "reserved": "#c78a00",
    "offline": "#cc3b2f",
    "free": "#3b424b",
}
WORDS: dict[CellUse, str] = {
    "new": "placed by this plan",
    "busy": "in use",
    "reserved": "reserved",
    "offline": "offline",
    "free": "free",
}
MARKS: dict[CellUse, str] = {"reserved": "×", "offline": "!"}
CELL, GAP, MARGIN, PAD, HEAD = 15, 3, 20, 12, 28
GPU_WIDTH, GPU_HEIGHT, GPU_GAP, GPUS_PER_LINE = 84, 42, 6, 4
LETTER = 6.1
"""Width of a small letter, on average."""


def _style() -> str:
    light = "".join(f".{use}{{fill:{colour}}}" for use, colour in LIGHT.items())
    dark = "".join(f".{use}{{fill:{colour}}}" for use, colour in DARK.items())
    return (
        "text{font:13px system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#202124}"
        "text.small{font-size:11px}text.dim{fill:#5f6368}text.on{fill:#ffffff}text.title{font-weight:600}"
        "text.mark{font-size:11px;font-weight:700;fill:#ffffff;text-anchor:middle}"
        ".page{fill:#ffffff}.box{fill:#f8f9fa;stroke:#c4c9cf}" + light + "@media (prefers-color-scheme:dark){"
        "text{fill:#e8eaed}text.dim{fill:#9aa0a6}.page{fill:#16191d}.box{fill:#20242a;stroke:#4a525c}"
        + dark
        + "}"
    )


def render_node_svg(picture: NodePicture) -> str:
    """One node; the same picture gives the same bytes."""
    return render_nodes_svg([picture])


def render_nodes_svg(pictures: Sequence[NodePicture], heading: str = "", notes: Sequence[str] = ()) -> str:
    """Several nodes below each other, under a heading; each of `notes` is a line below them."""
    sheet = _Sheet(pictures)
    body: list[str] = []
    top = MARGIN
    if heading:
        body.append(_text_element(MARGIN, top + 13, clean(heading, 120), "title"))
        top += 30
    for picture in pictures:
        body += sheet.node(picture, top)
        top += sheet.height(picture) + 14
    for note in notes:
        body.append(_text_element(MARGIN, top + 10, clean(note, 160), "small dim"))
        top += 18
    legend, wide = _legend(pictures, top + 4)
    width = max(sheet.width, wide, *(_text_width(note) for note in ("", *notes))) + 2 * MARGIN
    height = top + 4 + 14 + MARGIN
    title = heading or ", ".join(map(_title, pictures))
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}" role="img" aria-label={quoteattr(title)}>',
            f"<style>{_style()}</style>",
            f'<rect class="page" width="{width}" height="{height}" rx="10"/>',
            *body,
            *legend,
            "</svg>\n",
        )
    )


class _Sheet:
    """Measures that all nodes of one picture share, so that they stand in line."""

    def __init__(self, pictures: Sequence[NodePicture]) -> None:
        rows = [row for picture in pictures for row in picture.rows]
        most = max((len(row.cells) for row in rows), default=0)
        self.per_line = 12 if most <= 36 else 16 if most <= 64 else 28
        self.gpus = max((min(len(row.gpus), GPUS_PER_LINE) for row in rows), default=0)
        self.cores = min(max(most, 1), self.per_line) * (CELL + GAP) - GAP
        tiles = self.gpus * (GPU_WIDTH + GPU_GAP) - GPU_GAP
        self.box = max(2 * PAD + self.cores + (tiles + 20 if self.gpus else 0), 220)
        self.columns = 1 if max((len(picture.rows) for picture in pictures), default=1) < 2 else 2
        far = max((len(picture.unlocated_gpus) for picture in pictures), default=0)
        self.width = max(self.columns * (self.box + 10) - 10, far * (GPU_WIDTH + GPU_GAP))
        self.tall = max((self._box_height(row) for row in rows), default=0)

    def _box_height(self, row: NumaRow) -> int:
        lines = -(-len(row.cells) // self.per_line)
        tiles = -(-len(row.gpus) // GPUS_PER_LINE)
        return HEAD + max(lines * (CELL + GAP) - GAP, tiles * (GPU_HEIGHT + GPU_GAP) - GPU_GAP) + PAD

    def height(self, picture: NodePicture) -> int:
        lines = -(-len(picture.rows) // self.columns)
        far = GPU_HEIGHT + 28 if picture.unlocated_gpus else 0
        shared = 20 if picture.shared_milli else 0
        return 24 + lines * (self.tall + 10) - 10 + far + shared

    def node(self, picture: NodePicture, top: int) -> Iterator[str]:
        yield _text_element(MARGIN, top + 14, _title(picture), "title")
        top += 24
        for at, row in enumerate(picture.rows):
            line, column = divmod(at, self.columns)
            yield from self._numa(row, MARGIN + column * (self.box + 10), top + line * (self.tall + 10))
        top += -(-len(picture.rows) // self.columns) * (self.tall + 10) - 10
        if picture.unlocated_gpus:
            yield _text_element(MARGIN, top + 18, "GPUs whose NUMA node is unknown", "small dim")
            for at, gpu in enumerate(picture.unlocated_gpus):
                yield _gpu_tile(gpu, MARGIN + at * (GPU_WIDTH + GPU_GAP), top + 26)
            top += GPU_HEIGHT + 28
        if picture.shared_milli:
            shared = f"{format_milli(picture.shared_milli)} shared cpu, on cores nobody has pinned"
            yield _text_element(MARGIN, top + 16, shared, "small dim")

    def _numa(self, row: NumaRow, left: int, top: int) -> Iterator[str]:
        yield f'<rect class="box" x="{left}" y="{top}" width="{self.box}" height="{self.tall}" rx="8"/>'
        kind = "" if row.kind == "dram" else f" ({row.kind})"
        memory = f", {size(row.memory)}" if row.memory else ""
        yield _text_element(left + PAD, top + 18, f"NUMA node {row.id}{kind}{memory}", "small dim")
        for at, cell in enumerate(row.cells):
            line, column = divmod(at, self.per_line)
            yield _core_square(cell, left + PAD + column * (CELL + GAP), top + HEAD + line * (CELL + GAP))
        first = left + PAD + self.cores + 20
        for at, gpu in enumerate(row.gpus):
            line, column = divmod(at, GPUS_PER_LINE)
            yield _gpu_tile(
                gpu, first + column * (GPU_WIDTH + GPU_GAP), top + HEAD + line * (GPU_HEIGHT + GPU_GAP)
            )


def _title(picture: NodePicture) -> str:
    group = f" in {clean(picture.group)}" if picture.group else ""
    state = f", {picture.state}" if picture.state != "active" else ""
    return f"{clean(picture.name)}{group}{state}"


def _core_square(cell: Cell, x: int, y: int) -> str:
    owner = f": {clean(cell.owner)}" if cell.owner else f": {cell.use}"
    tip = escape(f"CPU {format_cpus(cell.cpus)}{owner}")
    square = f'<rect class="{cell.use}" x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="3"/>'
    mark = MARKS.get(cell.use, "")
    if mark:
        square += f'<text class="mark" x="{x + CELL / 2:g}" y="{y + 12}">{mark}</text>'
    return f"<g>{square}<title>{tip}</title></g>"


def _gpu_tile(gpu: GpuCell, x: int, y: int) -> str:
    """A tile; of a GPU that is taken in part, a bar at its foot is as long as that part."""
    partly = 0 < gpu.milli < 1000
    part = f" ({format_milli(gpu.milli)} taken)" if partly else ""
    owner = f": {clean(gpu.owner)}" if gpu.owner else f": {gpu.use}"
    tip = escape(f"GPU {gpu.index} {clean(gpu.model)} {clean(gpu.id)}{owner}{part}")
    use, ink = (gpu.use, " on") if gpu.use != "free" and not partly else ("free", "")
    shape = f'<rect class="{use}" x="{x}" y="{y}" width="{GPU_WIDTH}" height="{GPU_HEIGHT}" rx="5"/>'
    if partly:
        long = GPU_WIDTH * gpu.milli // 1000
        shape += (
            f'<rect class="{gpu.use}" x="{x}" y="{y + GPU_HEIGHT - 7}" width="{long}" height="7" rx="2"/>'
        )
    share = f" {format_milli(gpu.milli)}" if partly else ""
    shape += _text_element(x + 8, y + 16, f"GPU {gpu.index}{share}", f"small{ink}")
    below = _tile_label(gpu.owner) if gpu.owner else "offline" if gpu.use == "offline" else ""
    if below:
        shape += _text_element(x + 8, y + 30, below, f"small{ink}")
    return f"<g>{shape}<title>{tip}</title></g>"


def _tile_label(owner: str) -> str:
    """The last part of an identity, as much as fits into a tile."""
    name, most = clean(owner.rpartition("/")[2]), int((GPU_WIDTH - 14) / LETTER)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _used_colours(pictures: Sequence[NodePicture]) -> set[CellUse]:
    rows = [row for picture in pictures for row in picture.rows]
    cells: set[CellUse] = {cell.use for row in rows for cell in row.cells}
    tiles: set[CellUse] = {gpu.use for row in rows for gpu in row.gpus}
    return cells | tiles | {gpu.use for picture in pictures for gpu in picture.unlocated_gpus}


def _legend(pictures: Sequence[NodePicture], top: int) -> tuple[list[str], int]:
    """What the colours of this picture mean, and how wide that is."""
    shown, x = [], MARGIN
    uses = _used_colours(pictures)
    for use in (use for use in WORDS if use in uses):
        shown.append(f'<rect class="{use}" x="{x}" y="{top}" width="12" height="12" rx="3"/>')
        shown.append(_text_element(x + 18, top + 10, WORDS[use], "small dim"))
        x += 18 + _text_width(WORDS[use]) + 18
    shown.append(_text_element(x, top + 10, "a square is a core, a tile a GPU", "small dim"))
    return shown, x + _text_width("a square is a core, a tile a GPU") - MARGIN


def _text_width(text: str) -> int:
    return int(len(text) * LETTER) + 1


def _text_element(x: float, y: float, text: str, style: str) -> str:
    return f'<text class="{style}" x="{x:g}" y="{y:g}">{escape(text)}</text>'
