"""What an image's own files say: its users and groups, where a path leads, who may change that.

The engine shows the files of containers, not of images. A container that is never started and has nothing
mounted but what the image itself declares shows exactly the image's: no volume of a document's, into which a
link of the image may lead, is among them.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import posixpath
import tarfile
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_fixed

from providers.docker.container.layer import LayerItem, pack_items
from providers.docker.engine.engine import Engine
from providers.docker.engine.http import EngineRefusal, quote_segment
from providers.machines import streams

Owner = tuple[int, int]
"""Numbers of a user and a group."""
_Ask = Callable[[Engine, str, str], object]
_GONE, _CONFLICT = 404, 409
_NO_FOLDER = "not a directory"
_PROBE = "/.bai-owner"
_UNMAPPED = ("cannot be mapped", "invalid argument")
"""What engines say of an owner who is not in their user namespace: those that translate numbers, and rootless
ones, whose kernel does."""
_STAT = "X-Docker-Container-Path-Stat"
_LINK = 1 << 27
"""Of the modes of Go's `io/fs`, which the engine tells."""
_LARGEST = 2**20
"""Bytes of a list of users: more is none."""
_LINKS = 40
"""As many as Linux follows."""
_SILENCE = 60.0
"""Seconds after which an engine that sends nothing has failed."""
_TIMES, _PAUSE = 50, 0.1
"""How often, and after how many seconds, it is looked again where another bai looks at the same image."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is at a path of an image. `text`: of a plain file that is no larger than 1 MiB."""

    member: tarfile.TarInfo
    text: str | None = None


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """From `/` to a path of an image, as Linux goes it. `real`: where it ends, also where nothing is there.
    `steps`: `/`, each folder and link on it and what it ends at; None where nothing is there."""

    real: str
    steps: tuple[tuple[str, Entry | None], ...]


def read_texts(engine: Engine, image: str, paths: Iterable[str]) -> list[str]:
    """Small files of an image (its id); empty where there is none. Raises EngineRefusal, OSError."""
    asked = {f"text {path}": path for path in paths}
    return [str(found) for found in _ask_cached(engine, image, asked, _read_text)]


def resolve_paths(engine: Engine, image: str, paths: Collection[str]) -> dict[str, str]:
    """Where each of these paths of an image (its id) leads. Raises EngineRefusal, OSError."""
    seen: dict[str, Entry | None] = {}

    def ask(engine: Engine, container: str, path: str) -> str:
        def glance(at: str) -> Entry | None:
            if at not in seen:
                seen[at] = _stat_entry(engine, container, at)
            return seen[at]

        return _walk(glance, path).real

    asked = {f"end {path}": path for path in paths}
    return dict(zip(paths, map(str, _ask_cached(engine, image, asked, ask)), strict=True))


def resolve_path(engine: Engine, image: str, path: str) -> ResolvedPath:
    """The way to a path of an image (its id), with all that is on it. Raises EngineRefusal, OSError."""

    def ask(engine: Engine, container: str, path: str) -> ResolvedPath:
        return _walk(partial(_read_entry, engine, container), path)

    (found,) = _ask_cached(engine, image, {f"way {path}": path}, ask)
    assert isinstance(found, ResolvedPath)
    return found


def map_owners(engine: Engine, image: str, inside: Iterable[Owner]) -> list[Owner | None]:
    """To whom of the node files of these users and groups of a container belong; None where the engine's user
    namespace does not have them. No engine tells: it is tried. `image`: the id of any. Raises EngineRefusal,
    OSError."""
    asked = {f"owner {uid}:{gid}": f"{uid}:{gid}" for uid, gid in inside}
    found = _ask_cached(engine, image, asked, _probe_owner)
    return [each if isinstance(each, tuple) else None for each in found]


def _probe_owner(engine: Engine, container: str, owner: str) -> Owner | None:
    """Engines translate what is put into containers, and show it with the node's numbers."""
    uid, gid = map(int, owner.split(":"))
    path = f"/containers/{quote_segment(container)}/archive"
    try:
        engine.call("PUT", path, query={"path": "/"}, body=pack_items([LayerItem(_PROBE, owner=(uid, gid))]))
    except EngineRefusal as refusal:
        if any(words in refusal.why for words in _UNMAPPED):
            return None
        raise
    entry = _read_entry(engine, container, _PROBE)
    if entry is None:
        raise OSError(f"the engine does not show what was put at {_PROBE}")
    return entry.member.uid, entry.member.gid


def _ask_cached(engine: Engine, image: str, asked: dict[str, str], ask: _Ask) -> list[object]:
    """Images do not change: an engine is asked for each thing once."""
    with engine.image_lock:
        missing = {key: path for key, path in asked.items() if (image, key) not in engine.image_cache}
        if missing:
            for key, answer in _ask_container(engine, image, missing, ask).items():
                engine.image_cache[image, key] = answer
        return [engine.image_cache[image, key] for key in asked]


def _ask_container(engine: Engine, image: str, asked: dict[str, str], ask: _Ask) -> dict[str, object]:
    def once() -> dict[str, object]:
        with _inspection_container(engine, image) as name:
            return {key: ask(engine, name, path) for key, path in asked.items()}

    retrying = Retrying(
        retry=retry_if_exception(_is_in_the_way),
        stop=stop_after_attempt(_TIMES),
        wait=wait_fixed(_PAUSE),
        reraise=True,
    )
    return retrying(once)


def _is_in_the_way(error: BaseException) -> bool:
    """Whether somebody else's container of the same name was, who looks at the image too."""
    return (
        isinstance(error, EngineRefusal)
        and error.status in (_GONE, _CONFLICT)
        and "no such image" not in error.why.lower()
    )


@contextlib.contextmanager
def _inspection_container(engine: Engine, image: str) -> Iterator[str]:
    """Named after the image: what a killed attempt has left is found and removed by the next."""
    name = f"bai-look-{hashlib.sha256(image.encode()).hexdigest()[:12]}"
    body = {"Image": image, "Cmd": ["true"], "HostConfig": {"NetworkMode": "none"}}
    with contextlib.suppress(EngineRefusal):
        engine.remove_container(name)
    engine.call("POST", "/containers/create", query={"name": name}, body=body, timeout=60)
    try:
        yield name
    finally:
        with contextlib.suppress(EngineRefusal, OSError):
            engine.remove_container(name)


def _read_text(engine: Engine, container: str, path: str) -> str:
    """Of a plain file: a link is not followed."""
    found = _read_entry(engine, container, path)
    return (found.text or "") if found is not None else ""


def _walk(entry: Callable[[str], Entry | None], path: str) -> ResolvedPath:
    here, links = "/", 0
    steps = [(here, entry(here))]
    left = _components(path)
    while left:
        name = left.pop(0)
        if name == "..":
            here = posixpath.dirname(here)
            continue
        at = posixpath.join(here, name)
        found = entry(at)
        steps.append((at, found))
        if found is not None and found.member.issym() and links < _LINKS:
            links += 1
            left = [*_components(found.member.linkname), *left]
            here = "/" if found.member.linkname.startswith("/") else here
        else:
            here = at
    return ResolvedPath(here, tuple(steps))


def _components(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _stat_entry(engine: Engine, container: str, path: str) -> Entry | None:
    """Less than `_read_entry`, for less: of what is no link only that it is there."""
    if path == "/":
        return Entry(tarfile.TarInfo(path))
    try:
        said = engine.headers(f"/containers/{quote_segment(container)}/archive", query={"path": path})
    except EngineRefusal as refusal:
        _require_absent(engine, container, refusal)
        return None
    if int(json.loads(base64.b64decode(said[_STAT]))["mode"]) & _LINK:
        return _read_entry(engine, container, path)
    return Entry(tarfile.TarInfo(path))


def _require_absent(engine: Engine, container: str, refusal: EngineRefusal) -> None:
    """Raises what was refused, unless it is the file that is not there."""
    if refusal.status != _GONE and _NO_FOLDER not in refusal.why:
        raise refusal
    engine.inspect(container)


def _read_entry(engine: Engine, container: str, path: str) -> Entry | None:
    """None where nothing is there. An engine packs a folder with all that is in it, itself first: the rest is
    not taken. Of the last name a link is not followed."""
    query = {"path": path}
    try:
        pieces = engine.stream(
            "GET", f"/containers/{quote_segment(container)}/archive", query=query, timeout=_SILENCE
        )
    except EngineRefusal as refusal:
        _require_absent(engine, container, refusal)
        return None
    try:
        with (
            contextlib.closing(pieces),
            tarfile.open(fileobj=streams.chunks_as_file(pieces), mode="r|", errorlevel=0) as archive,
        ):
            member = archive.next()
            if member is None:
                raise OSError(f"the engine shows nothing at {path}")
            stream = archive.extractfile(member) if member.isreg() and member.size <= _LARGEST else None
            return Entry(member, stream.read().decode(errors="replace") if stream is not None else None)
    except tarfile.TarError as error:
        raise OSError(f"the engine shows {path} wrongly: {error}") from None
