"""Files of volumes on the nodes that look after them, over `Machine`; every call is one command."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Generator, Iterator
from typing import Any

from providers.machines import streams
from providers.machines.base import Machine, Process
from providers.machines.folder_listing import FolderListing, parse_listing
from providers.machines.one_file_archive import ArchivedFile, NoFile
from providers.machines.remote_modules import start_remote
from providers.storage.base import VolumeFolder
from providers.storage.node import files
from providers.storage.node_modules import FILE_MODULES
from providers.storage.requests import folder_request
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.node import VolumeRefused
from schemas.problems.errors.provider import ProviderError

LONGEST_LINE = 64 * 2**20
"""Bytes of how it went: whoever answers may be anybody who has taken the node over."""


class NodeFiles:
    """`KeepsVolumeFiles` on the machines that `machine` gives by node name; None is this one."""

    def __init__(self, machine: Callable[[str], Machine | None]) -> None:
        self._machine = machine

    def list_files(self, folder: VolumeFolder, path: str, most: int) -> FolderListing:
        pieces = self._stream(folder, path, {"do": "list", "most": most})
        with contextlib.closing(pieces):
            answer, _ = _begin(folder, pieces)
        try:
            return parse_listing(answer)
        except ValueError as error:
            raise _refusal(folder, str(error)) from error

    def read_file(self, folder: VolumeFolder, path: str) -> ArchivedFile:
        answer, rest = _begin(folder, self._stream(folder, path, {"do": "read"}))
        size = answer.get("size")
        if not isinstance(size, int) or size < 0:
            raise _refusal(folder, "what it answered is no file")
        return ArchivedFile(size, _exactly(size, rest))

    def read_folder(self, folder: VolumeFolder, path: str) -> Iterator[bytes]:
        return _begin(folder, self._stream(folder, path, {"do": "pack"}))[1]

    def write_file(self, folder: VolumeFolder, path: str, size: int, data: Iterator[bytes]) -> None:
        pieces = self._stream(folder, path, {"do": "write", "size": size}, data)
        _, rest = _begin(folder, pieces)
        for _ in rest:
            pass

    def _stream(
        self, folder: VolumeFolder, path: str, order: dict[str, Any], sent: Iterator[bytes] | None = None
    ) -> Generator[bytes]:
        request = {"folder": folder_request(folder), "path": os.fsencode(path).hex(), **order}
        data = iter(()) if sent is None else sent
        machine = self._machine(folder.node)
        if machine is not None:
            return _remote(machine, request, data)
        source = streams.chunks_as_file(data)
        return streams.pipe_writer(lambda sink: files.stream(request, source, sink))


def _remote(machine: Machine, request: dict[str, Any], data: Iterator[bytes]) -> Generator[bytes]:
    """Raises what `data` raises, when the other side has ended with what it has."""
    process = start_remote(machine, FILE_MODULES, request)
    try:
        failed = _feed(process, data)
        process.close_stdin()
        if failed is not None:
            for _ in process.read():  # Until it has taken back what it has.
                pass
            raise failed
        yield from process.read()
        if process.wait():
            said = process.errors().decode(errors="replace").strip().splitlines()
            raise ProviderError(provider=machine.name, why=said[-1] if said else "it ended early")
    finally:
        process.close()


def _feed(process: Process, data: Iterator[bytes]) -> Exception | None:
    """What broke off, if it was what is sent. Whoever has refused it reads no more."""
    while True:
        try:
            piece = next(data, None)
        except Exception as error:
            return error
        if piece is None:
            return None
        try:
            process.write(piece)
        except (OSError, BaiError):
            return None


def _begin(folder: VolumeFolder, pieces: Iterator[bytes]) -> tuple[dict[str, Any], Iterator[bytes]]:
    """How it went, and what follows. Raises VolumeRefused, ProviderError."""
    stream = streams.chunks_as_file(pieces)
    line = stream.readline(LONGEST_LINE)
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise _refusal(folder, "what its node answered makes no sense")
    if "refused" in answer:
        raise _refusal(folder, str(answer["refused"]))

    def rest() -> Iterator[bytes]:
        while data := stream.read1(streams.CHUNK):
            yield data

    return answer, rest()


def _exactly(size: int, pieces: Iterator[bytes]) -> Iterator[bytes]:
    left = size
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            break
        yield piece
    if left:
        raise NoFile("it did not come whole")


def _refusal(folder: VolumeFolder, why: str) -> VolumeRefused:
    return VolumeRefused(volume=folder.volume, node=folder.node, why=why)
