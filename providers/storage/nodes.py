"""Storage on the nodes themselves, over `Machine`; every call is one command, however many folders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from providers.machines.base import Machine
from providers.machines.remote_modules import call
from providers.storage.base import Folder, Seen, Trash, Trashed
from providers.storage.node import main
from schemas.problems.errors import BaiError, ProviderError, VolumeRefused

_HERE = "providers.storage.node"
MODULES = (
    "providers.storage.beneath",
    *(
        f"{_HERE}.{name}"
        for name in ("walk", "allowed", "whose", "mounts", "usage", "project", "quota", "trash", "main")
    ),
)
_AT_ONCE = 16

Answer = Mapping[str, Any]


class NodeStorage:
    """`Storage` on the machines that `machine` gives by node name; None is this one."""

    def __init__(self, machine: Callable[[str], Machine | None]) -> None:
        self._machine = machine

    def look(self, folders: Sequence[Folder], *, usage: bool = False) -> Mapping[str, Seen]:
        nodes: dict[str, list[Folder]] = {}
        for folder in folders:
            nodes.setdefault(folder.node, []).append(folder)
        if not nodes:
            return {}
        with ThreadPoolExecutor(min(_AT_ONCE, len(nodes))) as pool:
            found = pool.map(lambda item: self._look(item[0], item[1], usage=usage), nodes.items())
            return {volume: seen for part in found for volume, seen in part.items()}

    def _look(self, node: str, folders: list[Folder], *, usage: bool) -> dict[str, Seen]:
        try:
            answers = self._ask(node, "look", [{**_wire(one), "usage": usage} for one in folders])
        except BaiError as error:
            return {folder.volume: Seen("unknown", str(error)) for folder in folders}
        return {folder.volume: _seen(answer) for folder, answer in zip(folders, answers, strict=True)}

    def make(self, folder: Folder) -> None:
        self._one(folder.node, "make", _wire(folder))

    def trash(self, folder: Folder, record: Trashed) -> None:
        about = {
            "volume": record.volume, "host": record.host, "path": record.path, "at": record.at,
            "commit": record.commit, "document": record.document,
        }  # fmt: skip
        self._one(folder.node, "move", {**_wire(folder), "entry": record.entry, "record": about})

    def trashed(self, trash: Trash) -> tuple[Trashed, ...]:
        answer = self._one(trash.node, "trashed", _where(trash))
        return tuple(_trashed(one) for one in answer["entries"])

    def restore(self, trash: Trash, entry: str) -> None:
        self._one(trash.node, "restore", {**_where(trash), "entry": entry})

    def purge(self, trash: Trash, entry: str) -> None:
        self._one(trash.node, "purge", {**_where(trash), "entry": entry})

    def _one(self, node: str, verb: str, folder: dict[str, object]) -> Answer:
        answer = self._ask(node, verb, [folder])[0]
        if "refused" in answer:
            raise VolumeRefused(volume=folder["volume"], node=node, why=answer["refused"])
        return answer

    def _ask(self, node: str, verb: str, folders: list[dict[str, object]]) -> Sequence[Answer]:
        machine = self._machine(node)
        if machine is None:
            return main.serve({"do": verb, "folders": folders})
        return ask(machine, verb, folders)


def ask(machine: Machine, verb: str, folders: Iterable[Mapping[str, object]]) -> list[Answer]:
    """One answer per folder. Raises ProviderError."""
    wanted = list(folders)
    answers = call(machine, MODULES, {"do": verb, "folders": wanted}, timeout=600)
    if not isinstance(answers, list) or len(answers) != len(wanted):
        raise ProviderError(provider=machine.name, why="it answered something else than was asked")
    return cast(list[Answer], answers)


def _wire(folder: Folder) -> dict[str, object]:
    return {
        "volume": folder.volume, "root": folder.root, "path": folder.path, "fileSystems": folder.file_systems,
        "uid": folder.uid, "gid": folder.gid, "newOwner": folder.new_owner, "mode": folder.mode,
        "quota": folder.quota, "projects": folder.projects,
    }  # fmt: skip


def _where(trash: Trash) -> dict[str, object]:
    name = f"StorageHost/{trash.host}"
    return {"volume": name, "root": trash.root, "path": "", "fileSystems": trash.file_systems}


def _seen(answer: Answer) -> Seen:
    if "refused" in answer:
        return Seen("refused", answer["refused"])
    if not answer["there"]:
        return Seen("absent", unheld=answer["unheld"])
    return Seen(
        "there", "", answer["uid"], answer["gid"], answer["mode"], answer["quota"], answer["unheld"],
        answer["used"], answer["whole"],
    )  # fmt: skip


def _trashed(one: Mapping[str, Any]) -> Trashed:
    return Trashed(
        str(one["volume"]), str(one["entry"]), str(one.get("host", "")), str(one["path"]),
        float(one.get("at", 0)), str(one.get("commit", "")), one.get("document"),
    )  # fmt: skip
