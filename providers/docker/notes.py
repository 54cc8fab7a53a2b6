"""What is said about a kernel after its container was made. An engine never changes a container's labels, so
a note is an empty volume with labels: it lies with the engine itself, outlives a restart and bai's store, and
is there or not there, never half written.

A note names the very container that it is about: one made later under the same name is not meant. A note that
somebody prunes is missed by nobody for long: the labels are old then, and the next apply writes it again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from providers.base import Labels
from providers.docker.engine.engine import Engine
from providers.docker.engine.http import quote_segment
from providers.docker.labels import ID, from_engine_labels, to_engine_labels
from schemas.values.naturals import parse_natural

NOTE = "bai.note"
"""The kernel that a note is about; a note has no `bai.id`."""
_CONTAINER, _STOPPED, _NUMBER = "bai.container", "bai.stopped", "bai.number"
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Note:
    """What is noted about one container: its present labels, and when it was stopped by bai."""

    labels: Labels | None = None
    stopped: datetime | None = None

    def ended(self, started: datetime | None, finished: datetime | None) -> bool:
        """Whether being stopped is why it ended; it may have been started again since. Engines date volumes
        by the second."""
        if self.stopped is None or finished is None:
            return False
        return (started is None or started < self.stopped + _SECOND) and self.stopped <= finished


def parse_notes(volumes: Iterable[Mapping[str, Any]]) -> dict[str, Note]:
    """Container id → what is noted about it; of several labels the newest count. Pure."""
    found: dict[str, Note] = {}
    for volume in sorted(volumes, key=_note_number):
        said = volume.get("Labels") or {}
        container = said.get(_CONTAINER, "")
        note = found.get(container, Note())
        if _STOPPED in said:
            found[container] = Note(note.labels, _created_at(volume))
        else:
            found[container] = Note(from_engine_labels(said) or note.labels, note.stopped)
    return found


def _note_number(volume: Mapping[str, Any]) -> int:
    number = (volume.get("Labels") or {}).get(_NUMBER, "")
    return parse_natural(number) or 0


def _created_at(volume: Mapping[str, Any]) -> datetime | None:
    try:
        return datetime.fromisoformat(volume["CreatedAt"])
    except (KeyError, ValueError):
        return None


def list_notes(engine: Engine, kernel: str = "") -> list[dict[str, Any]]:
    """The volumes that are notes, of one kernel or of all."""
    label = f"{NOTE}={kernel}" if kernel else NOTE
    found = engine.call("GET", "/volumes", query={"filters": {"label": [label]}})
    return list(found.get("Volumes") or ())


def relabel(engine: Engine, kernel: str, container: str, labels: Labels) -> None:
    """From now on the kernel has these labels. Older notes of labels go after the new one is there."""
    before = list_notes(engine, kernel)
    said = {name: value for name, value in to_engine_labels(kernel, labels).items() if name != ID}
    _write_note(engine, kernel, container, said)
    for volume in before:
        if _STOPPED not in (volume.get("Labels") or {}):
            _remove_note(engine, volume["Name"])


def note_stop(engine: Engine, kernel: str, container: str) -> None:
    """It is about to be stopped by bai, not by itself."""
    _write_note(engine, kernel, container, {_STOPPED: "true"})


def remove_notes(engine: Engine, kernel: str) -> None:
    """All that is noted about a kernel."""
    for volume in list_notes(engine, kernel):
        _remove_note(engine, volume["Name"])


def _write_note(engine: Engine, kernel: str, container: str, said: Mapping[str, str]) -> str:
    number = time.time_ns()
    name = f"bai-{kernel}-{number}"
    labels = {**said, NOTE: kernel, _CONTAINER: container, _NUMBER: str(number)}
    engine.call("POST", "/volumes/create", body={"Name": name, "Driver": "local", "Labels": labels})
    return name


def _remove_note(engine: Engine, name: str) -> None:
    engine.call("DELETE", f"/volumes/{quote_segment(name)}", query={"force": True})
