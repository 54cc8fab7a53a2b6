"""Captures by other tools → `Hardware`: one importer per format, each from bytes to `Facts` (`facts.py`),
put together by `combine.py`. `recognise` tells formats apart by content; what a capture could not know is in
`Hardware.unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from schemas.hardware.importers import (
    hwloc,
    lscpu,
    nccl,
    numactl,
    pasted,
    safe_xml,
    smi_query,
    smi_topo,
    snapshot,
)
from schemas.hardware.importers.combine import combine
from schemas.hardware.importers.facts import Facts, UnreadableCapture
from schemas.hardware.model import Hardware

__all__ = [
    "FORMATS",
    "Facts",
    "Importer",
    "UnreadableCapture",
    "combine",
    "import_captures",
    "read_facts",
    "recognise",
]

_PROMPT = re.compile(r"(?:# ?)?(?:[$#] )?(?:\(\S+\) )?(?:\[?\w[\w.-]*@[^$#]*[$#]|[$#])\s+(\S.*)$")
_COMMAND = re.compile(
    r"(nvidia-smi\s+topo\s+-mp?|nvidia-smi\s+-q\s+-x|nvidia-smi\s+(-L|--list-gpus)|numactl\s+(-H|--hardware)|lscpu(\s+-[epJ]\S*)?)\s*$"
)
_FENCE = re.compile(r"^(```|#{20,})")


@dataclass(frozen=True, slots=True)
class Importer:
    """One format. `rank`: whose word is taken first where several captures of one machine differ (low is
    better)."""

    name: str
    rank: int
    recognises: Callable[[bytes, str], bool]
    read: Callable[[bytes, str], Facts]
    by_line: bool = False
    """Whether a line tells that it begins here, so that others may stand in the same text."""


def _is_xml(name: str) -> Callable[[bytes, str], bool]:
    return lambda data, _: safe_xml.root_element_name(data) == name


def _contains(pattern: str) -> Callable[[bytes, str], bool]:
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda _, text: bool(compiled.search(text))


FORMATS: tuple[Importer, ...] = (
    Importer(
        "snapshot of /sys (tar)",
        0,
        lambda data, _: snapshot.is_tarball(data),
        lambda data, _: snapshot.read_snapshot(data),
    ),
    Importer("hwloc XML", 1, _is_xml("topology"), lambda data, _: hwloc.read_hwloc(data)),
    Importer("NCCL topology XML", 6, _is_xml("system"), lambda data, _: nccl.read_nccl(data)),
    Importer("NCCL graph XML", 9, _is_xml("graphs"), lambda data, _: nccl.read_nccl(data)),
    Importer(
        "nvidia-smi -q -x", 5, _is_xml("nvidia_smi_log"), lambda data, _: smi_query.read_smi_query(data)
    ),
    Importer(
        "lscpu -J",
        4,
        _contains(r'\A\s*\{\s*"lscpu"\s*:'),
        lambda data, _: lscpu.read_lscpu_json(data),
    ),
    Importer(
        "nvidia-smi topo -m",
        7,
        lambda _, text: any(smi_topo.is_header(line) for line in text.splitlines()),
        lambda _, text: smi_topo.read_smi_topo(text),
        by_line=True,
    ),
    Importer(
        "nvidia-smi -L",
        4,
        lambda _, text: smi_query.is_smi_list(text),
        lambda _, text: smi_query.read_smi_list(text),
        by_line=True,
    ),
    Importer(
        "numactl -H",
        3,
        _contains(r"^[^\S\n]*(node [0-9]+ cpus:|available: [0-9]+ nodes? \()"),
        lambda _, text: numactl.read_numactl(text),
        by_line=True,
    ),
    Importer(
        "lscpu -e",
        2,
        _contains(r"^[^\S\n]*CPU\s+(NODE|SOCKET|CORE)\b|^# CPU,"),
        lambda _, text: lscpu.read_lscpu_table(text),
        by_line=True,
    ),
    Importer(
        "lscpu",
        4,
        _contains(r"^[^\S\n]*(Architecture|On-line CPU\(s\) list|NUMA node[0-9]+ CPU\(s\)):"),
        lambda _, text: lscpu.read_lscpu(text),
        by_line=True,
    ),
)
"""In the order in which they are tried."""


def recognise(data: bytes) -> Importer | None:
    """The importer for a capture, by its content alone; None when no format fits."""
    return _matching_importer(data, data.decode("utf-8-sig", "replace"))


def _matching_importer(data: bytes, text: str) -> Importer | None:
    return next((importer for importer in FORMATS if importer.recognises(data, text)), None)


def read_facts(data: bytes) -> list[tuple[int, Facts]]:
    """(rank, facts) of a capture; several when it is a transcript of several commands, or the outputs of
    several behind each other. Raises UnreadableCapture."""
    if snapshot.is_tarball(data):
        return _read_output(data, "")
    plain = pasted.plain_text(data.decode("utf-8-sig", "replace"))
    try:
        if parts := _split_transcript(plain.text):
            return [each for before, part in parts for each in _read_part(before, part)]
        return _read_output(plain.text.encode() if plain.cut else data, plain.text)
    except UnreadableCapture as error:
        column = plain.column(error.line, error.column)
        raise UnreadableCapture(str(error), error.line, column, error.hint) from None


def _read_output(data: bytes, text: str) -> list[tuple[int, Facts]]:
    """What stands in a text without prompts."""
    found = _matching_importer(data, text)
    if found is None:
        raise UnreadableCapture(
            f"not a known capture of a machine; known are {', '.join(each.name for each in FORMATS)}"
        )
    able = [each for each in FORMATS if each.by_line and each.recognises(b"", text)] if found.by_line else []
    if len(able) < 2:
        return [(found.rank, found.read(data, text))]
    begins = [partial(each.recognises, b"") for each in able]
    parts = pasted.part_by_owner(text, begins)
    return [(able[number].rank, able[number].read(part.encode(), part)) for number, part in parts]


def import_captures(captures: Sequence[bytes]) -> Hardware:
    """The machine that these captures are of; raises UnreadableCapture."""
    ranked = [entry for data in captures for entry in read_facts(data)]
    return combine([facts for _, facts in sorted(ranked, key=lambda entry: entry[0])])


def _read_part(before: int, part: str) -> list[tuple[int, Facts]]:
    """The output of one command, behind so many lines of a transcript."""
    try:
        return _read_output(part.encode(), part)
    except UnreadableCapture as error:
        raise UnreadableCapture(str(error), before + error.line, error.column, error.hint) from None


def _split_transcript(text: str) -> list[tuple[int, str]]:
    """(lines before it, text) of the outputs of the known commands in a text that shows each command behind
    a prompt."""
    parts: list[tuple[int, list[str]]] = []
    taking = False
    for at, line in enumerate(text.splitlines(keepends=True)):
        found = _PROMPT.match(line.rstrip())
        command = found[1] if found else None
        if command is not None:
            taking = bool(_COMMAND.match(command))
            if taking:
                parts.append((at + 1, []))
        elif _FENCE.match(line):
            taking = taking and not "".join(parts[-1][1]).strip()
            if taking:
                parts[-1] = (at + 1, [])
        elif taking:
            parts[-1][1].append(line)
    joined = [(before, "".join(part)) for before, part in parts]
    return [(before, part) for before, part in joined if _matching_importer(part.encode(), part)]
