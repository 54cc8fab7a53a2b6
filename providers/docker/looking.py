"""What an image's own files say: its users and groups, whether a path is what it seems, who may change it.

The engine shows the files of containers, not of images. A container that is never started and has nothing
mounted shows exactly the image's: no volume, into which a link of the image may lead, is among them.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import PurePosixPath

from providers.docker.engine import Engine
from providers.docker.http import Refusal, segment

_GONE, _CONFLICT = 404, 409
_LINK = 1 << 27
"""Of the modes of Go's `io/fs`, which the engine tells."""
_LARGEST = 2**20
"""Bytes of a list of users: more is none."""
_HEAD = 2**14
"""Bytes of an archive that have its first member's head in them."""
_TIMES, _PAUSE = 50, 0.1
"""How often, and after how many seconds, it is looked again where another bai looks at the same image."""


def text(engine: Engine, image: str, path: str) -> str:
    """A small file of an image (its id); empty where there is none. Raises Refusal, OSError."""
    return _known(engine, image, [("text", path)])[0]


def guarded_text(engine: Engine, image: str, path: str) -> tuple[str, str]:
    """A small file of an image, and the first place on the way to it that somebody but root may change, or
    exchange for another one; empty where there is none. Raises Refusal, OSError."""
    way = [str(each) for each in (*reversed(PurePosixPath(path).parents), path)]
    found, *changed = _known(engine, image, [("text", path), *(("changed", each) for each in way)])
    return found, next(filter(None, changed), "")


def links(engine: Engine, image: str, paths: Iterable[str]) -> list[str]:
    """Those of these paths at which an image (its id) has a symbolic link. Raises Refusal, OSError."""
    return [found for found in _known(engine, image, [("link", path) for path in paths]) if found]


def _known(engine: Engine, image: str, asked: Sequence[tuple[str, str]]) -> list[str]:
    """`asked`: what is to be known (`_ASKS`) of which path. Images do not change: an engine is asked for each
    thing once."""
    with engine.looking:
        missing = [each for each in asked if (image, *each) not in engine.looked]
        if missing:
            for each, answer in _look(engine, image, missing).items():
                engine.looked[image, *each] = answer
        return [engine.looked[image, *each] for each in asked]


def _look(engine: Engine, image: str, asked: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    for left in reversed(range(_TIMES)):
        try:
            with _container(engine, image) as name:
                return {(what, path): _ASKS[what](engine, name, path) for what, path in asked}
        except Refusal as refusal:
            if refusal.status not in (_GONE, _CONFLICT) or "no such image" in refusal.why.lower() or not left:
                raise
            time.sleep(_PAUSE)
    raise AssertionError  # The last round has returned or raised.


@contextlib.contextmanager
def _container(engine: Engine, image: str) -> Iterator[str]:
    """Named after the image: what a killed attempt has left is found and removed by the next."""
    name = f"bai-look-{hashlib.sha256(image.encode()).hexdigest()[:12]}"
    body = {"Image": image, "Cmd": ["true"], "HostConfig": {"NetworkMode": "none"}}
    with contextlib.suppress(Refusal):
        engine.discard(name)
    engine.call("POST", "/containers/create", query={"name": name}, body=body, timeout=60)
    try:
        yield name
    finally:
        with contextlib.suppress(Refusal, OSError):
            engine.discard(name)


def _text(engine: Engine, container: str, path: str) -> str:
    """Of a plain file: a link is not followed."""
    packed = _packed(engine, container, path, _LARGEST)
    if not packed or len(packed) > _LARGEST:
        return ""
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        member = archive.next()
        stream = archive.extractfile(member) if member is not None and member.isreg() else None
        return stream.read().decode(errors="replace") if stream is not None else ""


def _changed(engine: Engine, container: str, path: str) -> str:
    """The path itself where somebody but root may change it, or it leads elsewhere. Rights that only an
    access control list gives show among the group's."""
    packed = _packed(engine, container, path, _HEAD)
    if not packed:
        return ""
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        member = archive.next()
    if member is None or not (member.isreg() or member.isdir()) or member.uid or member.mode & 0o022:
        return path
    return ""


def _packed(engine: Engine, container: str, path: str, most: int) -> bytes:
    """The beginning of an archive of what is there, more than `most` bytes of it where there are so many;
    empty where nothing is."""
    try:
        pieces = engine.stream("GET", f"/containers/{segment(container)}/archive", query={"path": path})
    except Refusal as refusal:
        if refusal.status != _GONE:
            raise
        engine.inspect(container)  # It is the file that is not there.
        return b""
    with contextlib.closing(pieces):
        packed = b""
        for piece in pieces:
            packed += piece
            if len(packed) > most:
                break
    return packed


def _link(engine: Engine, container: str, path: str) -> str:
    """The path itself where it is one."""
    try:
        told = engine.headers(f"/containers/{segment(container)}/archive", query={"path": path})
    except Refusal as refusal:
        if refusal.status != _GONE:
            raise
        engine.inspect(container)
        return ""
    found = json.loads(base64.b64decode(told["X-Docker-Container-Path-Stat"]))
    return path if int(found["mode"]) & _LINK else ""


_ASKS: dict[str, Callable[[Engine, str, str], str]] = {"text": _text, "link": _link, "changed": _changed}
