"""Storage on the nodes themselves, over `Machine`; every call is one command, however many folders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from providers.machines.base import Machine
from providers.machines.remote_modules import call_remote
from providers.storage.base import FolderState, TrashedVolume, TrashLocation, VolumeFolder
from providers.storage.node import main
from providers.storage.node_files import NodeFiles
from providers.storage.node_modules import MODULES
from providers.storage.requests import folder_request
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.node import VolumeRefused
from schemas.problems.errors.provider import ProviderError
from schemas.values.resource_ref import identity_of

_AT_ONCE = 16

FolderAnswer = Mapping[str, Any]


class NodeStorage(NodeFiles):
    """`Storage` and `KeepsVolumeFiles` on the machines that `machine` gives by node name."""

    def observe(self, folders: Sequence[VolumeFolder], *, usage: bool = False) -> Mapping[str, FolderState]:
        nodes: dict[str, list[VolumeFolder]] = {}
        for folder in folders:
            nodes.setdefault(folder.node, []).append(folder)
        if not nodes:
            return {}
        with ThreadPoolExecutor(min(_AT_ONCE, len(nodes))) as pool:
            found = pool.map(lambda item: self._look_on_node(item[0], item[1], usage=usage), nodes.items())
            return {volume: seen for part in found for volume, seen in part.items()}

    def _look_on_node(self, node: str, folders: list[VolumeFolder], *, usage: bool) -> dict[str, FolderState]:
        try:
            answers = self._ask(node, "look", [{**folder_request(one), "usage": usage} for one in folders])
        except BaiError as error:
            return {folder.volume: FolderState("unknown", str(error)) for folder in folders}
        return {folder.volume: _parse_state(answer) for folder, answer in zip(folders, answers, strict=True)}

    def make(self, folder: VolumeFolder) -> None:
        self._ask_one(folder.node, "make", folder_request(folder))

    def trash(self, folder: VolumeFolder, record: TrashedVolume) -> None:
        about = {
            "volume": record.volume, "host": record.host, "path": record.path, "at": record.at,
            "commit": record.commit, "document": record.document,
        }  # fmt: skip
        self._ask_one(folder.node, "move", {**folder_request(folder), "entry": record.entry, "record": about})

    def trashed(self, trash: TrashLocation) -> tuple[TrashedVolume, ...]:
        answer = self._ask_one(trash.node, "trashed", _trash_request(trash))
        return tuple(_parse_trashed(one) for one in answer["entries"])

    def restore(self, trash: TrashLocation, entry: str) -> None:
        self._ask_one(trash.node, "restore", {**_trash_request(trash), "entry": entry})

    def purge(self, trash: TrashLocation, entry: str) -> None:
        self._ask_one(trash.node, "purge", {**_trash_request(trash), "entry": entry})

    def close(self) -> None:
        """See `Storage`: it has none of its own."""

    def _ask_one(self, node: str, verb: str, folder: dict[str, object]) -> FolderAnswer:
        answer = self._ask(node, verb, [folder])[0]
        if "refused" in answer:
            raise VolumeRefused(volume=folder["volume"], node=node, why=answer["refused"])
        return answer

    def _ask(self, node: str, verb: str, folders: list[dict[str, object]]) -> Sequence[FolderAnswer]:
        machine = self._machine(node)
        if machine is None:
            return main.serve({"do": verb, "folders": folders})
        return ask_folders(machine, verb, folders)


def ask_folders(machine: Machine, verb: str, folders: Iterable[Mapping[str, object]]) -> list[FolderAnswer]:
    """One answer per folder. Raises ProviderError."""
    wanted = list(folders)
    answers = call_remote(machine, MODULES, {"do": verb, "folders": wanted}, timeout=600)
    if not isinstance(answers, list) or len(answers) != len(wanted):
        raise ProviderError(provider=machine.name, why="it answered something else than was asked")
    return cast(list[FolderAnswer], answers)


def _trash_request(trash: TrashLocation) -> dict[str, object]:
    name = identity_of("StorageHost", trash.host)
    return {"volume": name, "root": trash.root, "path": "", "fileSystems": trash.file_systems}


def _parse_state(answer: FolderAnswer) -> FolderState:
    if "refused" in answer:
        return FolderState("refused", answer["refused"], mounted=answer.get("mounted") is not False)
    if not answer["there"]:
        return FolderState("absent", unheld=answer["unheld"])
    return FolderState(
        "there", "", answer["uid"], answer["gid"], answer["mode"], answer["quota"], answer["unheld"],
        answer["used"], answer["whole"],
    )  # fmt: skip


def _parse_trashed(one: Mapping[str, Any]) -> TrashedVolume:
    return TrashedVolume(
        str(one["volume"]), str(one["entry"]), str(one.get("host", "")), str(one["path"]),
        float(one.get("at", 0)), str(one.get("commit", "")), one.get("document"),
    )  # fmt: skip
