"""Sessions whose files are in folders of a test."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import httpx

from providers.fake import FakeProvider, World
from providers.machines import folder_view, streams
from providers.machines.folder_listing import FolderListing, parse_listing
from schemas.problems.errors.kernel import FilesRefused
from tests.bai.web.lab import Lab
from tests.bai.web.panel.logins import SAME, logged_in


class FolderFiles(FakeProvider):
    """All sessions have the same files. `asked`: paths that were asked for, in order; `pieces` come in place
    of an archive."""

    def __init__(self, world: World, root: Path) -> None:
        super().__init__(world)
        self.root, self.asked = root, list[tuple[str, str]]()
        self.pieces: Iterator[bytes] | None = None

    def _place(self, verb: str, kernel_id: str, path: str) -> Path:
        """Of what is in the folder alone, as a kernel's view is."""
        self.asked.append((verb, path))
        found = self.root / path.lstrip("/")
        if not found.resolve().is_relative_to(self.root):
            raise FilesRefused(provider="fake", kernel=kernel_id, path=path, why="it is not there")
        return found

    @contextmanager
    def _opened(self, verb: str, kernel_id: str, path: str) -> Iterator[tuple[int, str]]:
        """The folder that is meant, or the one of a file, with its name."""
        try:
            place = self._place(verb, kernel_id, path)
            folder = os.open(place if verb == "list" else place.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                yield folder, place.name
            finally:
                os.close(folder)
        except OSError as error:
            why = error.strerror or str(error)
            raise FilesRefused(provider="fake", kernel=kernel_id, path=path, why=why) from None

    def list_files(self, kernel_id: str, path: str, most: int) -> FolderListing:
        with self._opened("list", kernel_id, path) as (folder, _):
            return parse_listing(folder_view.list_folder(folder, most))

    def write_file(self, kernel_id: str, path: str, size: int, data: Iterator[bytes]) -> None:
        source = streams.chunks_as_file(data)
        with self._opened("write", kernel_id, path) as (folder, name):
            folder_view.receive_file(folder, os.fsencode(name), size, source.read)

    def copy_out(self, kernel_id: str, path: str) -> Iterator[bytes]:
        with self._opened("copy", kernel_id, path) as (folder, name):
            os.stat(name, dir_fd=folder)
            place = self.root / path.lstrip("/")
        if self.pieces is not None:
            return self.pieces

        def pack(sink: IO[bytes]) -> None:
            with tarfile.open(fileobj=sink, mode="w|") as archive:
                archive.add(place, place.name)

        return streams.pipe_writer(pack)

    def copy_in(self, kernel_id: str, path: str, archive: Iterator[bytes]) -> None:
        raise NotImplementedError


class FilesClient:
    """Somebody's browser at the files of a session."""

    def __init__(self, lab: Lab, token: str, session: str = "p/own") -> None:
        self.browser = logged_in(lab, token)
        self.address = f"/clusters/here/sessions/{session}/files"
        self.token = lab.app.state.panel.sealer.form_token(self.browser.cookies.get("bai", "").strip('"'))

    def get(self, action: str = "", query: str = "") -> httpx.Response:
        return self.browser.get(f"{self.address}/{action}".rstrip("/") + (f"?{query}" if query else ""))

    def send(self, query: str, content: bytes = b"x", **headers: str) -> httpx.Response:
        given = {**SAME, "Bai-Form-Token": self.token, **headers}
        return self.browser.post(f"{self.address}?{query}", content=content, headers=given)
