"""Files of the fake provider's kernels: nothing is on a disk, and what is written is remembered."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator

from providers.fake.file_system import ROOM, NoSuchPlace
from providers.fake.world import World
from providers.machines.files.folder_listing import FolderListing
from schemas.problems.errors.kernel import CopyRefused, FilesRefused


class FakeFiles:
    """`KeepsFiles` and `CopiesFiles`, in a `World`."""

    world: World

    def list_files(self, kernel_id: str, path: str, most: int) -> FolderListing:
        with self.world.lock:
            self.world.reach(kernel_id)
            try:
                return self.world.files(kernel_id).list_folder(path, most)
            except NoSuchPlace as error:
                raise _refused(kernel_id, path, error) from None

    def write_file(self, kernel_id: str, path: str, size: int, data: Iterator[bytes]) -> None:
        try:
            found = _gathered(data, min(size, ROOM))
            if len(found) != size:
                raise NoSuchPlace("it did not come as large as was said, or is larger than there is room for")
            with self.world.lock:
                self.world.reach(kernel_id)
                self.world.files(kernel_id).write_file(path, found)
        except NoSuchPlace as error:
            raise _refused(kernel_id, path, error) from None

    def copy_out(self, kernel_id: str, path: str) -> Iterator[bytes]:
        with self.world.lock:
            self.world.reach(kernel_id)
            try:
                found = list(self.world.files(kernel_id).pack(path))
            except NoSuchPlace as error:
                raise CopyRefused(provider="fake", kernel=kernel_id, path=path, why=str(error)) from None
        yield from found

    def copy_in(self, kernel_id: str, path: str, archive: Iterator[bytes]) -> None:
        try:
            found = _gathered(archive, 2 * ROOM)
            if len(found) > 2 * ROOM:
                raise NoSuchPlace("it is larger than there is room for")
            with self.world.lock:
                self.world.reach(kernel_id)
                self.world.files(kernel_id).unpack(path, io.BytesIO(found))
        except (NoSuchPlace, tarfile.TarError) as error:
            raise CopyRefused(provider="fake", kernel=kernel_id, path=path, why=str(error)) from None


def _gathered(data: Iterator[bytes], most: int) -> bytes:
    """All of it, or a little more than `most`: nobody waits for who sends, but who sends."""
    found = bytearray()
    for piece in data:
        found += piece
        if len(found) > most:
            break
    return bytes(found)


def _refused(kernel_id: str, path: str, why: NoSuchPlace) -> FilesRefused:
    return FilesRefused(provider="fake", kernel=kernel_id, path=path, why=str(why))
