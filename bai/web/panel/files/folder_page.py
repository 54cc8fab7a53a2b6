"""What a folder has, as a page shows it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import iso_time, size
from bai.web.panel.files.addresses import join_path, shown

if TYPE_CHECKING:
    from bai.web.panel.files.addresses import FileQuery, FilesAddress
    from bai.web.panel.files.sources import FileSource
    from providers.machines.folder_listing import FileEntry, FolderListing

MOST_ROWS = 1000


@dataclass(frozen=True, slots=True)
class FileRow:
    """`href`: of the folder, or of the folder that a link may lead to; `content`: where it is fetched."""

    name: str
    kind: str
    size: str
    modified: str
    href: str
    content: str


@dataclass(frozen=True, slots=True)
class FolderPage:
    """`crumbs`: the folders above, each with its address, and this one; `count`: of how many these are the
    first; `root`: the address of all files, where the page is elsewhere; `back` and `parts`: of the addresses
    of what they belong to, and of the files."""

    title: str
    back: tuple[str, ...]
    parts: tuple[str, ...]
    kernels: tuple[str, ...]
    kernel: str
    path: str
    crumbs: tuple[tuple[str, str], ...]
    root: str
    rows: tuple[FileRow, ...]
    count: int
    archive: str
    upload: str
    largest: str


def folder_page(source: FileSource, asked: FileQuery, found: FolderListing, largest: int) -> FolderPage:
    """`largest`: bytes of a file that may be sent."""
    address, path = source.address, asked.path
    return FolderPage(
        title=shown(source.title),
        back=source.page,
        parts=address.parts,
        kernels=source.kernels,
        kernel=asked.kernel,
        path=shown(path),
        crumbs=_crumbs(address, path, source.start),
        root=address.href(path="/") if source.kernels and not path.startswith("/") else "",
        rows=tuple(_row(address, path, entry) for entry in found.entries),
        count=found.count,
        archive=address.href("archive", path),
        upload=address.href("", path),
        largest=size(largest),
    )


def _crumbs(address: FilesAddress, path: str, start: str) -> tuple[tuple[str, str], ...]:
    first = "/" if path.startswith("/") else ""
    made, here = [(first or start, address.href(path=first))], first
    for part in filter(None, path.split("/")):
        here = f"{here.rstrip('/')}/{part}" if here else part
        made.append((shown(part), address.href(path=here)))
    return tuple(made)


def _row(address: FilesAddress, folder: str, entry: FileEntry) -> FileRow:
    path = join_path(folder, entry.name)
    opens = entry.kind in ("folder", "link")
    content = {"file": "content", "folder": "archive"}.get(entry.kind, "")
    return FileRow(
        name=shown(entry.name),
        kind=entry.kind,
        size="" if entry.size is None else size(entry.size),
        modified=iso_time(entry.modified),
        href=address.href(path=path) if opens else "",
        content=address.href(content, path) if content else "",
    )
