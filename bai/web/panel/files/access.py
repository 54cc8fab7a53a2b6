"""Whose files a request is about, by whom, and what is written down of what goes in and out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Depends, HTTPException, Request
from starlette.concurrency import run_in_threadpool

from bai.render.humanize import size
from bai.web.cluster_loops import ServedCluster
from bai.web.dependencies import error_words
from bai.web.panel.access.visitor import PageViewer, VisitedCluster, Visitor
from bai.web.panel.files.addresses import FileQuery, shown
from bai.web.panel.files.sources import FileSource, session_files, volume_files
from bai.web.panel.files.transfers import BrokenOff, TooManyTransfers, Transfers
from providers.machines.one_file_archive import NoFile
from reconciler.values.records import Audit
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.kernel import CopyRefused, FilesRefused, KernelNotFound, NotRunning
from schemas.problems.errors.node import VolumeRefused
from schemas.problems.errors.provider import NotAble

Verb = Literal["download", "upload"]


@dataclass(frozen=True, slots=True)
class FileAccess:
    """One request: of whom, for which files, through which of the server's transfers."""

    cluster: ServedCluster
    visitor: Visitor
    source: FileSource
    asked: FileQuery
    transfers: Transfers

    @property
    def user(self) -> str:
        return self.visitor.principal.name

    def sent(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The same pieces; how many bytes were taken is written down."""
        count, whole = 0, False
        try:
            for piece in pieces:
                count += len(piece)
                yield piece
            whole = True
        finally:
            self._write_down("download", self.asked.path or ".", count, whole=whole)

    def receive(self, path: str, expected: int, data: Iterator[bytes]) -> None:
        """Into the file `path`. Raises what writing raises."""
        count, whole = 0, False

        def counted() -> Iterator[bytes]:
            nonlocal count
            for piece in data:
                count += len(piece)
                yield piece

        try:
            self.source.write_file(path, expected, counted())
            whole = True
        finally:
            self._write_down("upload", path, count, whole=whole)

    def _write_down(self, verb: Verb, path: str, count: int, *, whole: bool) -> None:
        workspace, asked = self.cluster.loop.workspace, self.asked
        where = f"{asked.kernel}:{path}" if asked.kernel else path
        words = f"{shown(where)}, {count} bytes ({size(count)}){'' if whole else ', broken off'}"
        entry = Audit(verb, self.source.identity, workspace.clock.now(), words, self.user)
        workspace.store.record_audit(self.cluster.name, entry)


def refusal(error: Exception, *, status: int = 404) -> HTTPException:
    """Why files are not to be had, in words. `status`: where it is a matter of these files."""
    words = shown(error_words(error) if isinstance(error, BaiError) else str(error))
    if isinstance(error, TooManyTransfers):
        return HTTPException(503, "too many files are on their way already", headers={"Retry-After": "10"})
    if isinstance(error, (FilesRefused, CopyRefused, VolumeRefused, NoFile, BrokenOff)):
        return HTTPException(status, words)
    if isinstance(error, (NotRunning, NotAble)):
        return HTTPException(409, words)
    return HTTPException(404 if isinstance(error, KernelNotFound) else 502, words)


REFUSALS = (BaiError, NoFile, TooManyTransfers)


async def asked_session(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, project: str, name: str
) -> FileAccess:
    """Answers 400, 403 and 404; raises BaiError."""
    asked, transfers = FileQuery.of(request), request.app.state.transfers
    source = await run_in_threadpool(session_files, cluster, visitor, project, name, asked.kernel)
    return FileAccess(cluster, visitor, source, asked, transfers)


async def asked_volume(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, name: str
) -> FileAccess:
    """The same, and 409 where no node looks after it. Some volumes are no project's."""
    asked, transfers = FileQuery.of(request), request.app.state.transfers
    project = request.path_params.get("project", "")
    source = await run_in_threadpool(volume_files, cluster, visitor, project, name)
    return FileAccess(cluster, visitor, source, asked, transfers)


SessionAccess = Annotated[FileAccess, Depends(asked_session)]
VolumeAccess = Annotated[FileAccess, Depends(asked_volume)]
