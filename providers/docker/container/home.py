"""What a user needs that an image does not know: a name, and a home that can be written.

The home is a folder of the container's own, put there before it starts. The engine would follow a link of
the image, and one of a volume that another is mounted in, and change a volume's folder as root: where there
may be one, and where nothing of the container's own may be written, the home is in memory. Where bai cannot
write to the container's layer the engine gets the folder as an archive. That is the same for the container,
but docker 20.10 starts a program of its own for it, which takes 45 ms.

The name stands in two small files of the node, shared by all containers of one user: they are still there
when an engine starts a container again after the node did.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from providers import accounts
from providers.base import KernelSpec
from providers.docker.container.edits import BindMount, ContainerEdits
from providers.docker.container.layer import LayerItem, pack_items
from providers.docker.container.supplementary_groups import image_volumes
from providers.docker.container.user import PASSWD, ContainerUser
from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import NAME
from providers.docker.engine.http import quote_segment
from schemas.problems.errors.kernel import KernelRefused

FOLDERS = ("/var/lib/bai/docker/users", ".local/state/bai/docker/users")
"""Where names are kept, the first that the login may write; the second is below its home."""
SHELL = "/bin/sh"
KEEP_ACCOUNT_FILES = """
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


def place_home(spec: KernelSpec, ends: Mapping[str, str], *, exempt: bool = False) -> Home:
    """Where the home of a user that is made goes. `ends`: where targets of volumes and the home lead.
    `exempt`: as of engines, which give their containers' folders to users of the namespace that it leaves."""
    targets = [posixpath.normpath(mount.target) for mount in spec.mounts]
    above = [target for target in targets if _is_within(accounts.HOME, target)]
    if above:
        return Home(max(above, key=len), "volume")
    if spec.read_only_root or exempt or any(_is_within(a, b) for a in targets for b in targets if a != b):
        return Home(accounts.HOME, "memory")
    if targets and any(ends[path] != path for path in (*targets, accounts.HOME)):
        return Home(accounts.HOME, "memory")
    return Home(accounts.HOME, "folder")


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _ancestors(path: str) -> Iterator[str]:
    """`/a`, `/a/b`, `/a/b/c`."""
    parts = path.strip("/").split("/")
    return ("/" + "/".join(parts[: count + 1]) for count in range(len(parts)))


def prepare(
    engine: Engine, spec: KernelSpec, user: ContainerUser, home: Home, image: Mapping[str, Any]
) -> ContainerEdits:
    """What its container is made with. Raises KernelRefused, ProviderUnavailable."""
    env = {"HOME": home.path, "USER": accounts.USER, "LOGNAME": accounts.USER}
    tmpfs = {}
    if home.kind == "memory":
        tmpfs = {home.path: f"rw,nosuid,nodev,exec,mode=700,uid={user.uid},gid={user.gid}"}
    begins = str((image.get("Config") or {}).get("WorkingDir") or "/")
    return ContainerEdits(
        env=env,
        tmpfs=tmpfs,
        binds=_account_binds(engine, spec, user, home),
        workdir=home.path if begins == "/" else "",
    )


def _account_binds(
    engine: Engine, spec: KernelSpec, user: ContainerUser, home: Home
) -> tuple[BindMount, ...]:
    """None where a volume is mounted over the list, and where nothing but the engine can be reached."""
    covered = any(posixpath.normpath(mount.target) == PASSWD for mount in spec.mounts)
    if covered or not engine.has_machine:
        return ()
    texts = accounts.passwd_and_group(user.uid, user.gid, user.groups, home=home.path, shell=SHELL)
    with engine.accounts_lock:
        folder = engine.account_folders.get(texts) or _put_account_files(engine, spec, texts, user.uid)
        engine.account_folders[texts] = folder
    return tuple(BindMount(f"{folder}/{name}", f"/etc/{name}") for name in accounts.FILES)


def _put_account_files(engine: Engine, spec: KernelSpec, texts: tuple[str, str], uid: int) -> str:
    name = f"{uid}-{hashlib.sha256(''.join(texts).encode()).hexdigest()[:12]}"
    both = (LayerItem(name, text.encode(), 0o644) for name, text in zip(accounts.FILES, texts, strict=True))
    done = engine.machine.run(["sh", "-c", KEEP_ACCOUNT_FILES, "sh", name, *FOLDERS], stdin=pack_items(both))
    if done.code == 0:
        return done.out.decode().strip()
    why = done.err.decode(errors="replace").strip() or f"{FOLDERS[0]} and ~/{FOLDERS[1]} cannot be written"
    raise KernelRefused(provider=NAME, kernel=spec.id, why=f"node {engine.node}: {why}")


def home_items(spec: KernelSpec, user: ContainerUser, home: Home) -> tuple[LayerItem, ...]:
    """What is put into its container before it starts."""
    if home.kind != "folder":
        return ()
    below = (
        step for step in _ancestors(posixpath.normpath(spec.workdir or "/")) if _is_within(step, home.path)
    )
    mine = (user.uid, user.gid)
    own = (
        LayerItem(path, mode=0o700 if path == home.path else 0o755, owner=mine)
        for path in dict.fromkeys((home.path, *below))
    )
    # Naming the folder above, too, puts a folder in place of a link.
    return (LayerItem(posixpath.dirname(home.path)), *own)


def is_declared_volume(image: Mapping[str, Any], home: Home) -> bool:
    """Whether the image declares a volume there, above or below: then it is what is seen, not the layer."""
    return any(_is_within(home.path, place) or _is_within(place, home.path) for place in image_volumes(image))


def make_homes(engine: Engine, spec: KernelSpec, homes: tuple[LayerItem, ...]) -> None:
    """By the engine, in a container that never ran. Raises EngineRefusal, OSError."""
    path = f"/containers/{quote_segment(spec.id)}/archive"
    engine.call("PUT", path, query={"path": "/"}, body=pack_items(homes))
