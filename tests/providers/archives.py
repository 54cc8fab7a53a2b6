"""Tar streams as copies of files take and give them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator


def packed(files: dict[str, bytes], mode: int = 0o640) -> Iterator[bytes]:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))
    return iter([made.getvalue()])


def unpacked(chunks: Iterable[bytes]) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
        return {member.name.removeprefix("./"): member for member in archive}
