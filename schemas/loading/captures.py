"""`hardwareFrom`: which files are captured hardware and not documents, and what they say."""

from __future__ import annotations

import posixpath
from collections.abc import Collection
from functools import partial
from typing import Any

from schemas.files.sources import Source, escapes_root
from schemas.hardware.capture_reader import HardwareError, read_hardware
from schemas.hardware.model import Hardware
from schemas.problems.errors.repository import CannotRead
from schemas.problems.issues import Issue
from schemas.problems.positions import path_text
from schemas.problems.text import did_you_mean, printable
from schemas.rules.machine_rules import hardware_rules
from schemas.values.memo import Memo


def candidate_paths(file: str, reference: str) -> list[str]:
    """Where a reference may point: beside the document's file, then from the root; never outside."""
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(file), reference))
    paths = dict.fromkeys((beside, posixpath.normpath(reference)))
    return [path for path in paths if not escapes_root(path)]


def hardware_file(file: str, value: Any, files: Collection[str]) -> str | None:
    """The file among `files` that a plain Node or NodePool document names as its hardware."""
    if (
        not isinstance(value, dict)
        or value.get("kind") not in ("Node", "NodePool")
        or not isinstance(value.get("spec"), dict)
    ):
        return None
    reference = value["spec"].get("hardwareFrom")
    found = candidate_paths(file, reference) if isinstance(reference, str) else []
    return next((path for path in found if path in files), None)


class CaptureReader:
    """Reads each captured file once, and none that `known` has as it is."""

    def __init__(
        self, source: Source, files: Collection[str], known: Memo[str, Hardware | list[Issue]]
    ) -> None:
        self._source, self._files, self._known = source, files, known

    def hardware(self, file: str, reference: str) -> Hardware | list[Issue]:
        """The machine that a document in `file` refers to, or why there is none."""
        at = ("spec", "hardwareFrom")
        for path in candidate_paths(file, reference):
            try:
                data = self._source.data(path)
            except CannotRead:
                continue
            return self._known.get(path, (data,), partial(self._parse, path, data))
        hint = did_you_mean(reference, self._files)
        hint = hint if hint.startswith("did") else "save one with `bai nodes probe`"
        return [
            Issue(
                at,
                f"there is no file '{printable(reference)}' beside the document or at the root",
                hint,
                "BAI-V040",
            )
        ]

    @staticmethod
    def _parse(path: str, data: bytes) -> Hardware | list[Issue]:
        at = ("spec", "hardwareFrom")
        try:
            hardware = read_hardware(path, data)
        except HardwareError as error:
            return [
                Issue(at, f"{p.place}{f' ({p.path})' if p.path else ''}: {p.message}", p.hint, "BAI-V052")
                for p in error.problems
            ]
        broken = [
            Issue(at, f"{path} ({path_text(i.at)}): {i.message}", i.hint, "BAI-V052")
            for i in hardware_rules(hardware, ())
        ]
        return broken or hardware
