"""Stamps a node as provisioned, and compares it with its stamp. One request, one answer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from providers.condition.node.state import ABSENT, state
from providers.condition.node.system import facts

TYPE_CHECKING = False  # to import typing would take as long as to look
if TYPE_CHECKING:
    from typing import Any

FOLDER = "/var/lib/bai"
SEAL = "seal.json"
FORM = 1


def serve(request: Mapping[str, Any]) -> dict[str, Any]:
    """`look`: the stamp, and what is not as it says; `begin`: the stamp, if there is one, counts no more
    until the next `seal`: writes it, with the watched things as they are now. All answer as `look` does."""
    folder = str(request.get("folder") or FOLDER)
    if request["do"] == "seal":
        _write_stamp(folder, request)
    elif request["do"] == "begin":
        _invalidate_stamp(folder)
    return _compare_with_stamp(folder)


def _compare_with_stamp(folder: str) -> dict[str, Any]:
    seal, problem = _read_stamp(folder)
    deviations: list[list[str]] = []
    if seal is not None:
        deviations = _compare(seal["state"], state(seal["watch"]))
        seal = {name: value for name, value in seal.items() if name not in ("state", "watch")}
    return {**facts(), "seal": seal, "problem": problem, "deviations": deviations}


def _write_stamp(folder: str, request: Mapping[str, Any]) -> None:
    watch = request["watch"]
    boot = facts()["bootId"]
    seal = {**request["seal"], "form": FORM, "bootId": boot, "watch": watch, "state": state(watch)}
    _write_file(folder, seal)


def _invalidate_stamp(folder: str) -> None:
    seal, _ = _read_stamp(folder)
    if seal is not None:
        _write_file(folder, {**seal, "unfinished": True})


def _read_stamp(folder: str) -> tuple[dict[str, Any] | None, str]:
    """The stamp, or why there is none that can be used (empty: there is none at all)."""
    path = os.path.join(folder, SEAL)
    try:
        with open(path, encoding="utf-8") as file:
            seal = json.load(file)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"{path}: {(error.strerror or str(error)).lower()}"
    except ValueError:
        return None, path + " is not JSON"
    if not isinstance(seal, dict) or seal.get("form") != FORM:
        return None, path + " was written by another version of bai"
    if not isinstance(seal.get("state"), dict) or not isinstance(seal.get("watch"), dict):
        return None, path + " is not whole"
    return seal, ""


def _write_file(folder: str, seal: Mapping[str, Any]) -> None:
    """Whole or not at all, also over a loss of power."""
    os.makedirs(folder, mode=0o755, exist_ok=True)
    draft = os.path.join(folder, "." + SEAL)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(seal, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, os.path.join(folder, SEAL))
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _compare(sealed: Mapping[str, str], now: Mapping[str, str]) -> list[list[str]]:
    """What differs: name, as sealed, as it is."""
    return [
        [name, _shorten(sealed.get(name, ABSENT)), _shorten(now.get(name, ABSENT))]
        for name in sorted({*sealed, *now})
        if sealed.get(name, ABSENT) != now.get(name, ABSENT) and not _is_consequence(name, sealed, now)
    ]


def _is_consequence(name: str, sealed: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Mode and owner of a file that has gone, or come, say nothing more."""
    for end in (" mode", " owner"):
        if name.startswith("file ") and name.endswith(end):
            return ABSENT in (sealed.get(name[: -len(end)]), now.get(name[: -len(end)]))
    return False


def _shorten(value: str) -> str:
    return value[:19] if value.startswith("sha256 ") else value
