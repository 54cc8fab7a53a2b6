"""Folders of containers that run, and new files in them. What is in a folder their node says
(`root_folder`): an engine's API would give all that is in the files, too. A file comes through the engine
beside the one that it is to be, and takes its place when it is whole.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import secrets
from collections.abc import Iterator
from typing import Any

from providers.docker.container import copy
from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import NAME, engine_errors
from providers.docker.engine.http import EngineRefusal
from providers.machines.folder_listing import FolderListing, parse_listing
from providers.machines.folder_view import PREFIX
from providers.machines.one_file_archive import one_file_archive
from providers.machines.remote_modules import call_remote
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.kernel import FilesRefused, NotRunning

MODULES = ("providers.machines.folder_view", "providers.docker.interaction.root_folder")


def list_files(engine: Engine, kernel: str, path: str, most: int) -> FolderListing:
    """Raises FilesRefused, NotRunning, KernelNotFound, ProviderError."""
    answer = _ask_node(engine, kernel, path, {"do": "list", "most": most})
    try:
        return parse_listing(answer)
    except ValueError as error:
        raise _refusal(kernel, path, str(error)) from error


def write_file(engine: Engine, kernel: str, path: str, size: int, data: Iterator[bytes]) -> None:
    """Raises the same, and what `data` raises."""
    folder, name = posixpath.split(path)
    if name in ("", ".", "..") or "\0" in path:
        raise _refusal(kernel, path, "that is no name of a file")
    folder = folder or "."
    list_files(engine, kernel, folder, 0)  # Whether that is a folder that its node can look at.
    temporary = PREFIX + secrets.token_hex(8)
    named = {"name": os.fsencode(temporary).hex()}
    try:
        _send(engine, kernel, folder, temporary, (size, data))
        _ask_node(engine, kernel, folder, {"do": "rename", **named, "new": os.fsencode(name).hex()})
    except BaseException:
        with contextlib.suppress(BaiError):
            _ask_node(engine, kernel, folder, {"do": "remove", **named})
        raise


def _send(engine: Engine, kernel: str, folder: str, name: str, content: tuple[int, Iterator[bytes]]) -> None:
    """Through the engine. Where what is sent breaks off, the engine has ended with it before that is told."""
    failed: list[BaseException] = []

    def until_broken(archive: Iterator[bytes]) -> Iterator[bytes]:
        try:
            yield from archive
        except Exception as error:
            failed.append(error)

    with engine_errors(engine.node, kernel):
        found = engine.inspect(kernel)
        place = copy.absolute_path(found, kernel, folder)
        owner = copy.find_owner(engine, kernel, str(found["Config"].get("User") or ""))
        size, data = content
        try:
            copy.put_archive(engine, kernel, place, until_broken(one_file_archive(name, size, data, owner)))
        except EngineRefusal as refusal:
            if not failed:
                raise copy.to_copy_error(refusal, kernel, folder) from None
    if failed:
        raise failed[0]


def _ask_node(engine: Engine, kernel: str, path: str, order: dict[str, Any]) -> object:
    with engine_errors(engine.node, kernel):
        found = engine.inspect(kernel)
        state, container = found["State"], str(found["Id"])
        if not state["Running"] or not state["Pid"]:
            raise NotRunning(provider=NAME, kernel=kernel)
        whole = posixpath.join("/", found["Config"].get("WorkingDir") or "/", path)
    if "\0" in whole:
        raise _refusal(kernel, path, "a NUL byte is no name")
    request = {"pid": int(state["Pid"]), "container": container, "path": os.fsencode(whole).hex(), **order}
    try:
        answer = call_remote(engine.machine, MODULES, request)
    except BaiError as error:
        why = f"node {engine.node} cannot be asked: {error}"
        raise FilesRefused(provider=NAME, kernel=kernel, path=path, why=why) from error
    if not isinstance(answer, dict) or "refused" in answer:
        why = answer["refused"] if isinstance(answer, dict) else "its node answered something else"
        raise _refusal(kernel, path, str(why))
    return answer


def _refusal(kernel: str, path: str, why: str) -> FilesRefused:
    return FilesRefused(provider=NAME, kernel=kernel, path=path, why=why)
