"""What is put into a container before it runs, below all that is mounted there.

Whoever is root of the node writes to the layer that the container will write to, which is a folder of the
node's until the container starts: nothing of the image or of a volume is there, and Linux allows such changes
(Documentation/filesystems/overlayfs.rst, "Changes to underlying filesystems"). A folder in it stands in place
of a link of the image, and has its own owner and mode where the image has that folder, too.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass

from providers.docker.engine.engine import Engine

OVERLAY = "overlay2"
"""The storage driver whose layers are plain folders."""
NOT_OURS = 3
UNPACK = f"""
case $1 in /*/{OVERLAY}/*/diff) ;; *) exit {NOT_OURS} ;; esac
cd -P "$1" 2>/dev/null && [ "$PWD" = "$1" ] && [ -O . ] && [ -O ../.. ] || exit {NOT_OURS}
exec tar -xpf -
"""
"""Into a layer, `.../overlay2/ID/diff`. Engines can say anything: what is not our own, or behind a link, is
left as it is."""


@dataclass(frozen=True, slots=True)
class LayerItem:
    """A file, or a folder where `content` is None. `owner`: user and group."""

    path: str
    content: bytes | None = None
    mode: int = 0o755
    owner: tuple[int, int] = (0, 0)


def put_items(engine: Engine, kernel: str, items: Iterable[LayerItem]) -> bool:
    """Into the layer of a container that has been created and never ran; False where bai cannot. Where an
    engine has a user namespace, its numbers are its own to translate. Raises EngineRefusal, OSError,
    ProviderUnavailable."""
    if not engine.has_machine or not engine.can_write_layers or engine.facts.remapped:
        return False
    driver = engine.inspect(kernel).get("GraphDriver") or {}
    upper = (driver.get("Data") or {}).get("UpperDir") if driver.get("Name") == OVERLAY else None
    if not upper:
        return False
    code = engine.machine.run(["sh", "-c", UNPACK, "sh", upper], stdin=pack_items(items)).code
    engine.can_write_layers = code != NOT_OURS
    return code == 0


def pack_items(items: Iterable[LayerItem]) -> bytes:
    """As a tar archive whose names begin at `/`."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for item in items:
            entry = tarfile.TarInfo(item.path.lstrip("/") or ".")
            entry.mode = item.mode
            entry.uid, entry.gid = item.owner
            entry.size = len(item.content or b"")
            entry.type = tarfile.DIRTYPE if item.content is None else tarfile.REGTYPE
            tar.addfile(entry, io.BytesIO(item.content or b""))
    return stream.getvalue()
