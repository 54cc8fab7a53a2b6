"""A kernel's folder in its node's memory: secrets, files and the entry script, which the container finds
under /run/bai. What is in it goes over the node's own connection, never through the engine, so that no
`inspect` shows it; it is gone with the kernel, and with the node's power.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from providers.base import KernelSpec
from providers.docker.container import entrypoint, image_files
from providers.docker.container.edits import BindMount, ContainerEdits
from providers.docker.engine.engine import NAME_OF, Engine
from providers.machines.base import Done
from providers.machines.foreign_owners import FOREIGN, WALK
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import ProviderError

FOLDERS = ("/run/bai/docker", "/dev/shm/bai-docker")
"""Where it is tried, in this order, when no option says where."""
OWN_FOLDERS = (*FOLDERS, "/run/bai")
"""What is taken away with the last that is in it; a folder that an option names is somebody's."""
NO_MEMORY, NO_FOLDER = 97, 98
UNPACK = f"""
set -u
umask 077
{WALK}
kernel=$1; secret=$2; shift 2
code={NO_FOLDER}; said=
for folder in "$@"; do
    made=no
    for _ in 1 2 3 4 5; do  # Whoever takes the last kernel's folder takes this one, too, at any moment.
        walk "$folder" make; walked=$?
        [ $walked = 0 ] || [ -z "$why" ] || {{ code=$walked; said=$why; break; }}
        [ $walked = 0 ] && [ -O "$folder" ] && [ -w "$folder" ] || continue
        if [ "$secret" = yes ] && [ "$(stat -f -c %T "$folder")" != tmpfs ]; then
            code={NO_MEMORY}; continue
        fi
        rm -rf "${{folder:?}}/$kernel" && mkdir "$folder/$kernel" && made=yes && break
    done
    [ $made = yes ] || continue
    tar -xpf - -C "$folder/$kernel" || exit 1
    chmod 755 "$folder/$kernel"
    echo "$folder/$kernel"
    exit 0
done
[ -z "$said" ] || printf '%s\\n' "$said" >&2
exit $code
"""
REMOVE = f"""
{WALK}
own=$1; code=0; shift
for source in "$@"; do
    if walk "${{source%/*}}" look; then
        rm -rf -- "$source" || exit 1
    elif [ -n "$why" ]; then
        printf '%s\\n' "$why" >&2
        code={FOREIGN}
    fi
done
for folder in $own; do
    rmdir "$folder" 2>/dev/null
done
exit $code
"""
_STATE_OPTION = "with spec.docker.state of the node or cluster"
_TMPFS_HINT = f"name a folder on a tmpfs {_STATE_OPTION}"
_SAFE_HINT = f"name a folder {_STATE_OPTION} that nobody but root, or bai's user on the node, can replace"


def is_needed(spec: KernelSpec) -> bool:
    return bool(spec.files) or entrypoint.is_needed(spec)


def prepare(engine: Engine, spec: KernelSpec, image: Mapping[str, Any]) -> ContainerEdits:
    """Put the folder on the node, anew, and say how the container gets it. `image`: as inspected. Raises
    KernelRefused when the node has no place in memory, ProviderUnavailable."""
    if not is_needed(spec):
        return ContainerEdits()
    command = _image_command(spec, image) if entrypoint.is_needed(spec) else ()
    source = _unpack(engine, spec, image)
    names = {file.variable: f"{entrypoint.TARGET}/{file.name}" for file in spec.files}
    bind = BindMount(source, entrypoint.TARGET)
    if not entrypoint.is_needed(spec):
        return ContainerEdits(env=names, binds=(bind,))
    begins = entrypoint.wrap_command(command)
    return ContainerEdits(env=names, binds=(bind,), entrypoint=(begins[0],), command=tuple(begins[1:]))


def _unpack(engine: Engine, spec: KernelSpec, image: Mapping[str, Any]) -> str:
    folders = (engine.options.state,) if engine.options.state else FOLDERS
    secret = "yes" if entrypoint.is_needed(spec) else "no"
    packed = entrypoint.archive(spec, _file_owners(engine, spec, image))
    done = engine.machine.run(["sh", "-c", UNPACK, "sh", spec.id, secret, *folders], stdin=packed)
    if done.code == 0:
        return done.out.decode().strip()
    places = " or ".join(folders)
    why = {
        NO_MEMORY: f"{places} is not in memory (tmpfs), where secrets must be",
        NO_FOLDER: f"no folder of our own can be made in {places}",
    }.get(done.code, done.err.decode(errors="replace").strip() or f"exit code {done.code}")
    hint = _SAFE_HINT if done.code == FOREIGN else _TMPFS_HINT
    raise KernelRefused(provider="docker", kernel=spec.id, why=f"node {engine.node}: {why}", hint=hint)


def _file_owners(engine: Engine, spec: KernelSpec, image: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Nobody but SSH minds who they are."""
    inside = list(entrypoint.OWNERS)
    if spec.login is None or not engine.maps_users:
        return inside
    found = image_files.map_owners(engine, str(image["Id"]), inside)
    return [there or here for here, there in zip(inside, found, strict=True)]


def _image_command(spec: KernelSpec, image: Mapping[str, Any]) -> tuple[str, ...]:
    """What the container would run by itself: its image's entry point, and the command."""
    config = image.get("Config") or {}
    return (*(config.get("Entrypoint") or ()), *(spec.command or config.get("Cmd") or ()))


def sweep(engine: Engine, kernel: str) -> None:
    """Remove the folder of a kernel whose container is gone, wherever it may be. Raises ProviderError."""
    folders = (engine.options.state,) if engine.options.state else FOLDERS
    if engine.has_machine and NAME_OF.fullmatch(kernel):  # It comes from labels, too, which others may write.
        _remove_folders(engine, *(f"{folder}/{kernel}" for folder in folders))


def release(engine: Engine, kernel: str, source: str) -> None:
    """Remove the folder that a container of this kernel had, or has. Raises ProviderError."""
    if not source.endswith(f"/{kernel}") or not NAME_OF.fullmatch(kernel):
        return
    done = _remove_folders(engine, source)
    if done.code:
        why = f"node {engine.node}: {source} stays: {done.err.decode(errors='replace').strip()}"
        hint = f"remove {source} yourself, where others choose what it is" if done.code == FOREIGN else ""
        raise ProviderError(provider="docker", why=why, hint=hint)


def _remove_folders(engine: Engine, *sources: str) -> Done:
    own = "" if engine.options.state else " ".join(OWN_FOLDERS)
    return engine.machine.run(["sh", "-c", REMOVE, "sh", own, *sources])
