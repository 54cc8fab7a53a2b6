"""`nvidia-smi topo -m` (and `-mp`): how GPUs and NICs are connected, and which CPUs and NUMA node are near
each GPU.

A cell of the matrix is never empty, so that any white space parts its cells, and each is held against its
mirror image. Only behind the matrix does an empty cell mean something (`smi_affinity`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from schemas.hardware.cpulist import format_cpus
from schemas.hardware.importers.facts import Facts, LinkFacts, UnreadableCapture
from schemas.hardware.importers.smi_affinity import TITLES, add_affinity_nodes, read_tail

_ANSI = re.compile(r"\x1b?\[[0-9;]*m")
_QUOTE = re.compile(r"(?:[>#] ?)+")
"""What mail, forges and comments put before each line."""
_DEVICE = re.compile(r"(GPU[0-9]{1,3}|NIC[0-9]{1,3}|[a-z][\w.-]*)\Z", re.ASCII)
_NUMBERED = re.compile(r"(GPU|NIC|[a-z][a-z_.-]*)[0-9][\w.-]*\Z", re.ASCII)
_LEGEND = re.compile(r"\s*(NIC[0-9]+):\s+(\S+)\s*\Z")
_COLUMN = re.compile(r"\w+\Z")
_FIRST_GPU = re.compile(r"GPU[0-9]+\Z")
_CELL = re.compile(r"(X|NV([0-9]{1,2})|PIX|PXB|PHB|NODE|SYS|SOC|N/A)\Z")
_PEER = ("OK", "CNS", "GNS", "TNS", "NS", "DR", "U")
_SAVE = "save it anew: nvidia-smi topo -m > topo.txt"


@dataclass
class _Matrix:
    """One matrix of a text: its header, its rows, its own legend."""

    line: int
    header: str
    columns: list[str]
    names: dict[str, str] = field(default_factory=dict)
    rows: set[str] = field(default_factory=set)
    tails: dict[int, list[str | None]] = field(default_factory=dict)
    links: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def id_of(self, column: str) -> str:
        return f"gpu{int(column[3:])}" if column.startswith("GPU") else self.names.get(column, column)


def is_header(line: str) -> bool:
    """The line of column names: names a GPU before anything that is no name, and has no cell of a row. One
    that lost the white space before it must be nothing but numbered devices and known titles."""
    if "GPU" not in line and "[" not in line:  # A colour may part a name.
        return False
    plain = _plain(line)[0]
    words = TITLES.sub(" ", plain).split()
    if not words or any(_CELL.match(word) for word in words):
        return False
    if plain[:1].isspace():
        first = next((word for word in words if _FIRST_GPU.match(word) or not _COLUMN.match(word)), "")
        return bool(_FIRST_GPU.match(first))
    alone = len(words) == 1 and not TITLES.search(plain)
    return bool(_FIRST_GPU.match(words[0])) and not alone and all(_NUMBERED.match(word) for word in words)


def read_smi_topo(text: str) -> Facts:
    """Raises UnreadableCapture when there is no matrix, another one (`topo -p2p`), or one that contradicts
    itself or a second one."""
    lines = text.splitlines()
    starts = [at for at, line in enumerate(lines) if is_header(line)]
    if not starts:
        raise UnreadableCapture("no header line with GPU0 of nvidia-smi topo -m", hint=_SAVE)
    whole = text[-1:] in "\r\n"
    found = [
        _read_matrix(lines, start, end, whole)
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
    ]
    first, *others = [matrix for matrix in found if matrix.rows] or found[:1]
    for other in others:
        _require_same_matrix(first, other)
    return _matrix_facts(first)


def _plain(line: str) -> tuple[str, int]:
    """The line without colours and what quotes it, and how many characters that took from its front."""
    line = _ANSI.sub("", line).rstrip()
    quote = _QUOTE.match(line)
    return (line[quote.end() :], quote.end()) if quote else (line, 0)


def _read_matrix(lines: list[str], start: int, end: int, whole: bool) -> _Matrix:
    header = _plain(lines[start])[0]
    columns = [name for name in TITLES.sub(" ", header).split() if _DEVICE.match(name)]
    if len(set(columns)) < len(columns):
        doubled = next(name for name in columns if columns.count(name) > 1)
        raise UnreadableCapture(f"the header names {doubled} twice", start + 1, hint=_SAVE)
    matrix = _Matrix(start + 1, header, columns)
    _read_legend(matrix, lines, start, end)
    known, cells_at = set(columns), {name: at for at, name in enumerate(columns)}
    for at in range(start + 1, end):
        line, cut = _plain(lines[at])
        word = re.match(r"\s*(\S+)", line)
        if word is None:
            continue
        if word[1] not in known:
            break
        last = at == len(lines) - 1
        _read_row(matrix, word[1], cells_at[word[1]], line, word.end(), (at + 1, cut), last and not whole)
    return matrix


def _read_legend(matrix: _Matrix, lines: list[str], start: int, end: int) -> None:
    devices: dict[str, str] = {}
    for at in range(start + 1, end):
        found = _LEGEND.match(_plain(lines[at])[0])
        if not found:
            continue
        told = matrix.names.setdefault(found[1], found[2])
        if told != found[2] or devices.setdefault(told, found[1]) != found[1]:
            raise UnreadableCapture(
                f"the legend gives {found[1]} the name {found[2]}, and that contradicts another line of it",
                at + 1,
                hint=_SAVE,
            )


def _read_row(
    matrix: _Matrix, name: str, own: int, line: str, start: int, place: tuple[int, int], cut: bool
) -> None:
    """A row of the matrix. `place`: its line, and what stood before it there; `cut`: the text ends in it."""
    at, before = place
    columns = matrix.columns
    words = list(re.finditer(r"\S+", line[start:]))
    cells = words[: len(columns)]
    ends_in_matrix = cut and len(words) == len(columns) and words[-1][0] != "X"
    if len(cells) < len(columns) or ends_in_matrix:
        if cut:
            matrix.notes.append(f"links of {name} and what is near it: its row is cut off")
            return
        raise UnreadableCapture(
            f"the row of {name} has {len(cells)} cells for {len(columns)} devices: lines were wrapped or cut",
            at,
            before + len(line) + 1,
            _SAVE,
        )
    for column, (device, cell) in enumerate(zip(columns, cells, strict=True)):
        where = (at, before + start + cell.start() + 1)
        _add_link(matrix, name, device, cell[0], column == own, where)
    matrix.rows.add(name)
    if name.startswith("GPU"):
        rest = start + cells[-1].end()
        tail = read_tail(matrix.header, line, rest, (at, before))
        if cut and tail and all(tail[-1:] != other[-1:] for other in matrix.tails.values()):
            tail[-1] = None  # it may have been longer, and nothing says that it was not
        if tail is None:
            matrix.notes.append(f"what is near {name}: its cells behind the links do not fit the header")
        matrix.tails[int(name[3:])] = tail or []


def _add_link(matrix: _Matrix, name: str, device: str, cell: str, own: bool, where: tuple[int, int]) -> None:
    found = _CELL.match(cell)
    if not found:
        if cell in _PEER:
            raise UnreadableCapture(
                "this is the matrix of topo -p2p; save the output of nvidia-smi topo -m", *where
            )
        raise UnreadableCapture(f"{cell!r} is not a kind of link of nvidia-smi topo -m", *where, hint=_SAVE)
    if (cell == "X") != own and cell != "N/A":
        said = "no X" if own else "an X, which stands for the device itself"
        raise UnreadableCapture(f"the row of {name} has {said} below {device}", *where, hint=_SAVE)
    if cell in ("X", "N/A"):
        return
    kind = "NV" if found[2] else ("SYS" if cell == "SOC" else cell)
    link = (kind, max(1, int(found[2] or 1)))
    known = matrix.links.setdefault((min(name, device), max(name, device)), link)
    if known != link:
        raise UnreadableCapture(
            f"{name} to {device} is {cell}, but {_written(known)} the other way round", *where, hint=_SAVE
        )


def _written(link: tuple[str, int]) -> str:
    return f"NV{link[1]}" if link[0] == "NV" else link[0]


def _require_same_matrix(first: _Matrix, other: _Matrix) -> None:
    """A second matrix is the same one, or that of `topo -mp`, which hides NVLinks."""
    differs = ""
    if set(first.columns) != set(other.columns):
        differs = f"its devices are {len(other.columns)}, not the {len(first.columns)} of"
    for name, told in other.names.items():
        if first.names.get(name, told) != told:
            differs = f"{name} is {told}, not {first.names[name]} as in"
    for pair, link in other.links.items():
        known = first.links.setdefault(pair, link)
        if link[0] == "NV" != known[0]:
            first.links[pair] = link
        elif link != known and (link[0] == "NV" or known[0] != "NV"):
            differs = f"{pair[0]} to {pair[1]} is {_written(link)}, not {_written(known)} as in"
    for gpu, tail in other.tails.items():
        if first.tails.get(gpu, tail)[:2] != tail[:2]:
            differs = f"other CPUs are near GPU{gpu} than in"
    if differs:
        raise UnreadableCapture(
            f"a second matrix, of another machine: {differs} the one of line {first.line}",
            other.line,
            hint="save each machine in a file of its own",
        )


def _matrix_facts(matrix: _Matrix) -> Facts:
    facts = Facts("nvidia-smi topo -m", siblings=None, notes=list(matrix.notes))
    facts.gpus = [
        {"id": matrix.id_of(name), "index": int(name[3:]), "slot": "cuda", "vendor": "nvidia"}
        for name in matrix.columns
        if name.startswith("GPU")
    ]
    facts.nics = [{"id": matrix.id_of(name)} for name in matrix.columns if not name.startswith("GPU")]
    facts.links = [
        LinkFacts(matrix.id_of(a), matrix.id_of(b), kind, count)
        for (a, b), (kind, count) in matrix.links.items()
    ]
    missing = {gpu["index"] for gpu in facts.gpus} - matrix.tails.keys()
    if missing:
        facts.notes.append(
            f"links among GPUs {format_cpus(missing)} and what is near them: their rows are cut off"
        )
    add_affinity_nodes(facts, TITLES.findall(matrix.header), matrix.tails)
    return facts
