"""What a user needs that an image does not know: a name, and a home that can be written.

The home is a folder of the container's own, put there before it starts. The engine would follow a link of
the image, and one of a volume that another is mounted in, and change a volume's folder as root: where there
may be one, and where nothing of the container's own may be written, the home is in memory.

Whoever is root of the node makes the folder in the layer that the container will write to, which is a folder
of the node's until the container starts: nothing of the image or of a volume is there, and Linux allows such
changes (Documentation/filesystems/overlayfs.rst, "Changes to underlying filesystems"). Else the engine gets
it as an archive. That is the same for the container, but docker 20.10 starts a program of its own for it,
which takes 45 ms.

The name stands in two small files of the node, shared by all containers of one user: they are still there
when an engine starts a container again after the node did.
"""

from __future__ import annotations

import hashlib
import io
import posixpath
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from providers import accounts
from providers.base import KernelSpec
from providers.docker import looking
from providers.docker.engine import Engine
from providers.docker.errors import NAME
from providers.docker.extras import Bind, Extras
from providers.docker.http import Refusal, segment
from providers.docker.user import User
from schemas.errors import KernelRefused

LAYERS = "overlay2"
"""The storage driver whose layers are plain folders."""
NOT_OURS = 3
UNPACK = f"""
case $1 in /*/{LAYERS}/*/diff) ;; *) exit {NOT_OURS} ;; esac
cd -P "$1" 2>/dev/null && [ "$PWD" = "$1" ] && [ -O . ] && [ -O ../.. ] || exit {NOT_OURS}
exec tar -xpf -
"""
"""Into a layer, `.../overlay2/ID/diff`. Engines can say anything: what is not our own, or behind a link, is
left as it is."""
FOLDERS = ("/var/lib/bai/docker/users", ".local/state/bai/docker/users")
"""Where names are kept, the first that the login may write; the second is below its home."""
SHELL = "/bin/sh"
KEEP = """
set -u
umask 022
name=$1; shift
for folder in "$@"; do
    case $folder in /*) ;; *) folder=${HOME:-/nonexistent}/$folder ;; esac
    mkdir -p "$folder" 2>/dev/null && [ -O "$folder" ] && [ ! -L "$folder" ] && [ -w "$folder" ] || continue
    if [ ! -e "$folder/$name" ]; then
        made=$(mktemp -d "$folder/.new-XXXXXX") || exit 1
        tar -xf - -C "$made" && chmod 755 "$made" || exit 1
        mv -T "$made" "$folder/$name" 2>/dev/null || rm -rf "$made"
    fi
    echo "$folder/$name"
    exit 0
done
exit 1
"""


@dataclass(frozen=True, slots=True)
class Home:
    """`folder`: of the container itself. `memory`: in a tmpfs. `volume`: one is mounted there or above."""

    path: str
    kind: Literal["folder", "memory", "volume"]


def placed(engine: Engine, spec: KernelSpec, image: Mapping[str, Any]) -> Home:
    """Where the home of a user that is made goes. Raises Refusal, OSError."""
    targets = [posixpath.normpath(mount.target) for mount in spec.mounts]
    above = [target for target in targets if _within(accounts.HOME, target)]
    if above:
        return Home(max(above, key=len), "volume")
    if spec.read_only_root or any(_within(a, b) for a in targets for b in targets if a != b):
        return Home(accounts.HOME, "memory")
    ways = dict.fromkeys(step for target in targets for step in _steps(target))
    if ways and looking.links(engine, str(image["Id"]), (*ways, *_steps(accounts.HOME))):
        return Home(accounts.HOME, "memory")
    return Home(accounts.HOME, "folder")


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _steps(path: str) -> Iterator[str]:
    """`/a`, `/a/b`, `/a/b/c`."""
    parts = path.strip("/").split("/")
    return ("/" + "/".join(parts[: count + 1]) for count in range(len(parts)))


def give(engine: Engine, spec: KernelSpec, user: User, home: Home, image: Mapping[str, Any]) -> Extras:
    """What its container is made with. Raises KernelRefused, ProviderUnavailable."""
    env = {"HOME": home.path, "USER": accounts.USER, "LOGNAME": accounts.USER}
    tmpfs = {}
    if home.kind == "memory":
        tmpfs = {home.path: f"rw,nosuid,nodev,exec,mode=700,uid={user.uid},gid={user.gid}"}
    begins = str((image.get("Config") or {}).get("WorkingDir") or "/")
    return Extras(
        env=env,
        tmpfs=tmpfs,
        binds=_names(engine, spec, user, home),
        workdir=home.path if begins == "/" else "",
    )


def _names(engine: Engine, spec: KernelSpec, user: User, home: Home) -> tuple[Bind, ...]:
    """None where a volume is mounted over /etc, and where nothing but the engine can be reached."""
    covered = any(_within("/etc/passwd", posixpath.normpath(mount.target)) for mount in spec.mounts)
    if covered or not engine.beside:
        return ()
    texts = accounts.texts(user.uid, user.gid, user.groups, home=home.path, shell=SHELL)
    with engine.naming:
        folder = engine.named.get(texts) or _kept(engine, spec, texts, user.uid)
        engine.named[texts] = folder
    return tuple(Bind(f"{folder}/{name}", f"/etc/{name}") for name in accounts.FILES)


def _kept(engine: Engine, spec: KernelSpec, texts: tuple[str, str], uid: int) -> str:
    name = f"{uid}-{hashlib.sha256(''.join(texts).encode()).hexdigest()[:12]}"
    packed = [(name, text.encode(), 0o644) for name, text in zip(accounts.FILES, texts, strict=True)]
    done = engine.machine.run(["sh", "-c", KEEP, "sh", name, *FOLDERS], stdin=_tar(packed))
    if done.code == 0:
        return done.out.decode().strip()
    why = done.err.decode(errors="replace").strip() or f"{FOLDERS[0]} and ~/{FOLDERS[1]} cannot be written"
    raise KernelRefused(provider=NAME, kernel=spec.id, why=f"node {engine.node}: {why}")


def make(engine: Engine, spec: KernelSpec, user: User, home: Home, image: Mapping[str, Any]) -> None:
    """Put the folder into the container, which has been created and never ran. Raises KernelRefused, Refusal,
    OSError, ProviderUnavailable."""
    if home.kind != "folder":
        return
    below = (step for step in _steps(posixpath.normpath(spec.workdir or "/")) if _within(step, home.path))
    own = dict.fromkeys((home.path, *below))
    # Naming the folder above, too, puts a folder in place of a link.
    folders: list[tuple[str, bytes | None, int]] = [(posixpath.dirname(home.path), None, 0o755)]
    folders += [(path, None, 0o700 if path == home.path else 0o755) for path in own]
    packed = _tar(folders, {path: user for path in own})
    if not _declared(image, home) and _unpacked(engine, spec.id, packed):
        return
    path = f"/containers/{segment(spec.id)}/archive"
    try:
        engine.call("PUT", path, query={"path": "/"}, body=packed)
    except Refusal as refusal:
        if not engine.facts.remapped:
            raise
        why = f"node {engine.node}: its engine's user namespace has no user {user.uid}: {refusal.why.strip()}"
        hint = "give projects numbers that it has (sessionUids of the Cluster, uid of the Project)"
        raise KernelRefused(provider=NAME, kernel=spec.id, why=why, hint=hint) from None


def _declared(image: Mapping[str, Any], home: Home) -> bool:
    """Whether the image declares a volume there, above or below: then it is what is seen, not the layer."""
    volumes = (image.get("Config") or {}).get("Volumes") or {}
    places = ["/" + posixpath.normpath(volume).strip("/") for volume in volumes]
    return any(_within(home.path, place) or _within(place, home.path) for place in places)


def _unpacked(engine: Engine, kernel: str, packed: bytes) -> bool:
    """Whether an archive was put into the container's layer. Where engines have a user namespace, its numbers
    are theirs to translate."""
    if not engine.beside or not engine.layers or engine.facts.remapped:
        return False
    driver = engine.inspect(kernel).get("GraphDriver") or {}
    upper = (driver.get("Data") or {}).get("UpperDir") if driver.get("Name") == LAYERS else None
    if not upper:
        return False
    code = engine.machine.run(["sh", "-c", UNPACK, "sh", upper], stdin=packed).code
    engine.layers = code != NOT_OURS
    return code == 0


def _tar(
    files: list[tuple[str, bytes | None, int]] | list[tuple[str, bytes, int]],
    owners: Mapping[str, User] | None = None,
) -> bytes:
    """Path, content (None: a folder) and mode of each; root's, unless `owners` says otherwise."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content, mode in files:
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.mode = mode
            owner = (owners or {}).get(name)
            if owner is not None:
                entry.uid, entry.gid = owner.uid, owner.gid
            entry.size = len(content or b"")
            entry.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            tar.addfile(entry, io.BytesIO(content or b""))
    return packed.getvalue()
