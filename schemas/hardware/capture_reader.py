"""Captured hardware → `Hardware`. One reader per format; a new importer is one entry in `READERS`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from schemas.hardware.model import Hardware
from schemas.problems.problem import Problem, SourceLocation
from schemas.problems.text import printable

if TYPE_CHECKING:
    from schemas.hardware.importers.facts import UnreadableCapture


class HardwareError(Exception):
    """A capture that is not read; `problems` say why and where, each in the file that was handed in."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(str(problem) for problem in problems))


@dataclass(frozen=True, slots=True)
class CaptureFormat:
    """A capture format: its name, how it is recognised (file name, first bytes) and read (name, bytes)."""

    name: str
    recognises: Callable[[str, bytes], bool]
    read: Callable[[str, bytes], Hardware]


MOST_VALUES = 100_000
"""Values of one machine that are looked at."""


def read_hardware(name: str, data: bytes) -> Hardware:
    """The machine of a capture: what `bai nodes probe` saves, or whatever a registered format recognises.

    `name` is the file's name (used to recognise the format and in messages). Raises HardwareError.
    """
    for format_ in READERS:
        if format_.recognises(name, data[:4096]):
            return format_.read(name, data)
    known = ", ".join(format_.name for format_ in READERS)
    raise HardwareError(
        (
            Problem(
                SourceLocation(name),
                "BAI-V052",
                "",
                "not a known format of captured hardware",
                f"known are {known}",
            ),
        )
    )


def read_captures(captures: Sequence[tuple[str, bytes]]) -> Hardware:
    """The one machine that several captures (name, bytes), in any formats, are of. Raises HardwareError."""
    from schemas.hardware.importers import UnreadableCapture, combine, read_facts
    from schemas.hardware.importers.facts import hardware_facts

    ranked = []
    for name, data in captures:
        try:
            saved = not _is_capture(name, data[:4096])
            found = [(0, hardware_facts(_read_probe(name, data), name))] if saved else read_facts(data)
        except UnreadableCapture as error:
            raise HardwareError((_problem(name, error),)) from None
        ranked += found
    try:
        return combine([facts for _, facts in sorted(ranked, key=lambda entry: entry[0])])
    except UnreadableCapture as error:
        raise HardwareError((_problem(captures[0][0], error),)) from None


def _problem(name: str, error: UnreadableCapture) -> Problem:
    place = SourceLocation(name, error.line, error.column)
    return Problem(place, "BAI-V052", "", str(error), error.hint)


def _is_probe(name: str, head: bytes) -> bool:
    return name.lower().endswith((".json", ".yaml", ".yml")) or head.lstrip().startswith(b"{")


def _read_probe(name: str, data: bytes) -> Hardware:
    from schemas.problems.model_errors import issues_of
    from schemas.problems.positions import Positions, path_text

    value = _parse_json(data)
    if value is None:
        value = _parse_yaml(name, data)
    _require_bounded(name, value)
    try:
        return Hardware.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as error:
        positions = Positions(name, data)
        issues = issues_of(error, Hardware)
        found = (
            Problem(
                positions.find(0, i.at, key=i.key),
                i.code,
                path_text(i.at),
                i.message,
                i.hint or "save it with `bai nodes probe`",
            )
            for i in issues
        )
        raise HardwareError(tuple(found)) from None


def _require_bounded(name: str, value: object) -> None:
    """Raises HardwareError for more values than any machine has: what is wrong with each would be kept."""
    left, count = [value], 0
    while left:
        one = left.pop()
        below = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        count += len(below)
        if count > MOST_VALUES:
            why = f"more than {MOST_VALUES} values, which no machine has"
            raise HardwareError((Problem(SourceLocation(printable(name)), "BAI-V017", "", why),))
        left += below


def _parse_json(data: bytes) -> object:
    """The value of a JSON text, or None: positions are found by reading it as YAML, which JSON is."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _parse_yaml(name: str, data: bytes) -> object:
    from schemas.files.yaml_reader import read_documents

    documents, problems = read_documents(data, printable(name))
    if problems:
        raise HardwareError(tuple(problems))
    if len(documents) != 1:
        raise HardwareError(
            (
                Problem(
                    SourceLocation(name), "BAI-V052", "", f"{len(documents)} documents, one machine is needed"
                ),
            )
        )
    return documents[0].value


def _is_capture(name: str, head: bytes) -> bool:
    """Any other text or archive: `schemas.hardware.importers` tells its formats apart by content."""
    return not _is_probe(name, head) or head.lstrip().startswith(b'{"lscpu"') or b'"lscpu":' in head[:64]


def _read_capture(name: str, data: bytes) -> Hardware:
    from schemas.hardware.importers import UnreadableCapture, import_captures

    try:
        return import_captures([data])
    except UnreadableCapture as error:
        raise HardwareError((_problem(name, error),)) from None


READERS: list[CaptureFormat] = [
    CaptureFormat(
        "captures by other tools (lstopo, NCCL, nvidia-smi, numactl, lscpu, /sys)", _is_capture, _read_capture
    ),
    CaptureFormat("bai nodes probe (JSON, YAML)", _is_probe, _read_probe),
]
"""Formats in the order in which they are tried."""
