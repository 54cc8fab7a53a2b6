"""Files in and out of a container, as tar streams of its engine: of running and of ended ones.

The engine looks at a container's files and volumes, not at what it keeps in memory (tmpfs): such paths are
refused rather than missed.
"""

from __future__ import annotations

import contextlib
import http.client
import posixpath
import tarfile
from collections.abc import Iterator, Mapping
from typing import IO, Any, cast

from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import NAME, engine_errors
from providers.docker.engine.http import EngineRefusal, HttpSocket, quote_segment
from providers.machines import streams
from schemas.problems.errors.kernel import CopyRefused, KernelNotFound
from schemas.values.linux_users import numeric_id

MEMORY = ("/dev", "/proc", "/sys", "/run/bai")
"""Never a container's files, whatever its spec."""
PASSWD = "/etc/passwd"


def copy_out(engine: Engine, kernel: str, path: str) -> Iterator[bytes]:
    """A tar stream of a file or folder. Raises CopyRefused and KernelNotFound with the first chunk."""
    with engine_errors(engine.node, kernel):
        place = absolute_path(engine.inspect(kernel), kernel, path)
        try:
            yield from _get_archive(engine, kernel, place)
        except EngineRefusal as refusal:
            raise to_copy_error(refusal, kernel, path) from None


def copy_in(engine: Engine, kernel: str, path: str, archive: Iterator[bytes]) -> None:
    """Unpack in the existing folder `path`; what is unpacked belongs to the container's user.

    Raises CopyRefused, KernelNotFound.
    """
    with engine_errors(engine.node, kernel):
        found = engine.inspect(kernel)
        place = absolute_path(found, kernel, path)
        owner = find_owner(engine, kernel, str(found["Config"].get("User") or ""))
        try:
            put_archive(engine, kernel, place, _with_owner(archive, owner) if any(owner) else archive)
        except EngineRefusal as refusal:
            raise to_copy_error(refusal, kernel, path) from None
        except tarfile.TarError as error:
            why = f"what was sent is not an archive: {error}"
            raise CopyRefused(provider=NAME, kernel=kernel, path=path, why=why) from error


def absolute_path(found: Mapping[str, Any], kernel: str, path: str) -> str:
    """The whole path; relative ones begin in the working directory. Raises CopyRefused."""
    whole = posixpath.join("/", found["Config"].get("WorkingDir") or "/", path)
    plain = posixpath.normpath(whole)
    for memory in (*MEMORY, *(found["HostConfig"].get("Tmpfs") or {})):
        if plain == memory or plain.startswith(f"{memory}/"):
            hint = f"bai exec SESSION -- tar -C {posixpath.dirname(plain)} -c {posixpath.basename(plain)}"
            why = f"{memory} is in memory, where the engine cannot look"
            raise CopyRefused(provider=NAME, kernel=kernel, path=path, why=why, hint=hint)
    return whole


def _get_archive(engine: Engine, kernel: str, place: str) -> Iterator[bytes]:
    return engine.stream("GET", f"/containers/{quote_segment(kernel)}/archive", query={"path": place})


def put_archive(engine: Engine, kernel: str, place: str, archive: Iterator[bytes]) -> None:
    """The archive as it comes; an engine that refuses it may do so before it is all there."""
    target = f"/v{engine.version}/containers/{quote_segment(kernel)}/archive?path={quote_segment(place)}"
    connection = http.client.HTTPConnection("docker")
    connection.sock = cast(Any, HttpSocket(engine.dial()))
    try:
        connection.sock.settimeout(None)
        headers = {"Content-Type": "application/x-tar", "Transfer-Encoding": "chunked"}
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request("PUT", target, body=archive, headers=headers, encode_chunked=True)
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
        if response.status >= 300:
            raise EngineRefusal(response.status, text.partition('"message":"')[2].rpartition('"')[0] or text)
    finally:
        connection.close()


def to_copy_error(refusal: EngineRefusal, kernel: str, path: str) -> Exception:
    if "No such container" in refusal.why:
        return KernelNotFound(provider=NAME, kernel=kernel)
    why = "it is not a folder" if "not a dir" in refusal.why else refusal.why.strip()
    if refusal.status == 404:
        why = "it is not there"
    return CopyRefused(provider=NAME, kernel=kernel, path=path, why=why)


def find_owner(engine: Engine, kernel: str, user: str) -> tuple[int, int]:
    """Numbers of the container's user and group, by its own list of users; root where it has none."""
    name, _, group = user.partition(":")
    if not name:
        return 0, 0
    number, of_group = numeric_id(name), numeric_id(group)
    if number is not None and of_group is not None:
        return number, of_group
    uid, gid = _listed_owner(engine, kernel, name)
    return uid, gid if of_group is None else of_group


def _listed_owner(engine: Engine, kernel: str, name: str) -> tuple[int, int]:
    try:
        text = _read_tar_text(_get_archive(engine, kernel, PASSWD))
    except EngineRefusal:
        text = ""
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) > 3 and name in (fields[0], fields[2]):
            uid, gid = numeric_id(fields[2]), numeric_id(fields[3])
            if uid is not None and gid is not None:
                return uid, gid
    return numeric_id(name) or 0, 0


def _read_tar_text(chunks: Iterator[bytes]) -> str:
    from io import BytesIO

    with tarfile.open(fileobj=BytesIO(b"".join(chunks))) as archive:
        member = archive.next()
        stream = archive.extractfile(member) if member is not None and member.isfile() else None
        return stream.read().decode(errors="replace") if stream is not None else ""


def _with_owner(archive: Iterator[bytes], owner: tuple[int, int]) -> Iterator[bytes]:
    """The same archive with everything in it belonging to `owner` (uid, gid)."""
    source = streams.chunks_as_file(archive)

    def rewrite(sink: IO[bytes]) -> None:
        with (
            tarfile.open(fileobj=source, mode="r|*") as old,
            tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT) as new,
        ):
            while (member := old.next()) is not None:
                member.uid, member.gid = owner
                member.uname = member.gname = ""
                new.addfile(member, old.extractfile(member) if member.isreg() else None)
            while source.read(streams.CHUNK):
                pass

    return streams.pipe_writer(rewrite)
