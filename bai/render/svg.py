"""The picture of a node as an SVG file: a box per NUMA node, a square per core, a tile per GPU."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from bai.render.picture import Cell, GpuCell, NodePicture, NumaRow, Use
from bai.render.words import clean, size, thousandths
from schemas.hardware.cpuset import format_cpus

COLOURS: dict[Use, str] = {
    "free": "#e8eaed",
    "new": "#34a853",
    "busy": "#4285f4",
    "reserved": "#f9ab00",
    "offline": "#d93025",
}
CELL, GAP, PER_LINE, MARGIN = 14, 3, 16, 16
GPU_WIDTH, GPU_HEIGHT, HEAD = 66, 34, 26
STYLE = "text{font:12px system-ui,sans-serif;fill:#202124}.small{font-size:10px}"


def render(picture: NodePicture) -> str:
    """The whole picture; the same picture gives the same bytes."""
    width = 2 * MARGIN + max((_row_width(row) for row in picture.rows), default=0)
    width = max(width, 480)
    body: list[str] = [_text(MARGIN, 24, _title(picture), "font-weight='bold'")]
    top = 40
    for row in picture.rows:
        body += _row(row, top, width)
        top += _row_height(row) + 12
    if picture.far_gpus:
        body.append(_text(MARGIN, top + 14, "GPUs whose NUMA node is unknown"))
        body += [
            _gpu(gpu, MARGIN + at * (GPU_WIDTH + GAP), top + 22) for at, gpu in enumerate(picture.far_gpus)
        ]
        top += GPU_HEIGHT + 34
    body += _legend(top)
    height = top + 30
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}" role="img" aria-label={quoteattr(_title(picture))}>',
            f"<style>{STYLE}</style>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *body,
            "</svg>\n",
        )
    )


def _title(picture: NodePicture) -> str:
    group = f" in {clean(picture.group)}" if picture.group else ""
    state = f", {picture.state}" if picture.state != "active" else ""
    return f"{clean(picture.name)}{group}{state}"


def _lines(row: NumaRow) -> int:
    return max(1, -(-len(row.cells) // PER_LINE))


def _cores_width(row: NumaRow) -> int:
    return min(max(len(row.cells), 1), PER_LINE) * (CELL + GAP)


def _row_width(row: NumaRow) -> int:
    return 24 + _cores_width(row) + 24 + len(row.gpus) * (GPU_WIDTH + GAP)


def _row_height(row: NumaRow) -> int:
    cores = _lines(row) * (CELL + GAP)
    return HEAD + max(cores, GPU_HEIGHT if row.gpus else 0) + 10


def _row(row: NumaRow, top: int, width: int) -> Iterator[str]:
    inner = width - 2 * MARGIN
    yield (
        f'<rect x="{MARGIN}" y="{top}" width="{inner}" height="{_row_height(row)}"'
        f' rx="6" fill="none" stroke="#9aa0a6"/>'
    )
    kind = "" if row.kind == "dram" else f" ({row.kind})"
    yield _text(MARGIN + 10, top + 17, f"NUMA node {row.id}{kind}, {size(row.memory)}")
    for at, cell in enumerate(row.cells):
        line, column = divmod(at, PER_LINE)
        yield _core(cell, MARGIN + 10 + column * (CELL + GAP), top + HEAD + line * (CELL + GAP))
    left = MARGIN + 10 + _cores_width(row) + 24
    for at, gpu in enumerate(row.gpus):
        yield _gpu(gpu, left + at * (GPU_WIDTH + GAP), top + HEAD)


def _core(cell: Cell, x: int, y: int) -> str:
    owner = f": {clean(cell.owner)}" if cell.owner else f": {cell.use}"
    tip = escape(f"CPU {format_cpus(cell.cpus)}{owner}")
    return (
        f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="2"'
        f' fill="{COLOURS[cell.use]}"><title>{tip}</title></rect>'
    )


def _gpu(gpu: GpuCell, x: int, y: int) -> str:
    part = f" ({thousandths(gpu.milli)} taken)" if 0 < gpu.milli < 1000 else ""
    owner = f": {clean(gpu.owner)}" if gpu.owner else f": {gpu.use}"
    tip = escape(f"GPU {gpu.index} {clean(gpu.model)} {clean(gpu.id)}{owner}{part}")
    dark = gpu.use in ("new", "busy", "offline")
    ink = "fill:#ffffff" if dark else "fill:#202124"
    return (
        f'<g><rect x="{x}" y="{y}" width="{GPU_WIDTH}" height="{GPU_HEIGHT}" rx="4"'
        f' fill="{COLOURS[gpu.use]}"/><text x="{x + 8}" y="{y + 21}" style="{ink}">GPU {gpu.index}</text>'
        f"<title>{tip}</title></g>"
    )


def _legend(top: int) -> Iterator[str]:
    for at, (use, colour) in enumerate(COLOURS.items()):
        x = MARGIN + at * 90
        yield f'<rect x="{x}" y="{top}" width="10" height="10" rx="2" fill="{colour}"/>'
        yield _text(x + 15, top + 9, use, 'class="small"')


def _text(x: int, y: int, text: str, extra: str = "") -> str:
    return f'<text x="{x}" y="{y}" {extra}>{escape(text)}</text>'
