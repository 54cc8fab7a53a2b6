"""Whether the groups of a container are those that it was given, also when its engine starts it again.

Engines are given groups as numbers. But they, and older versions of runc once more, take a group whose name
is that number for it, from `/etc/group` as it is in the container at each start, and at each program that is
started in it: the project's own group, too. Whoever can write there can be a member of any group. (Lists of
users do not matter: a number of a user is never looked for among names.)

So `/`, `/etc` and `/etc/group` of a container's own layer are root's, whatever its image has there, and no
group in it is named by a number. Where bai cannot write to the layer an image has to be so by itself. Nothing
that a session may write is mounted over them.
"""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from providers import accounts
from providers.base import KernelSpec
from providers.docker.container import image_files
from providers.docker.container.copy import MEMORY
from providers.docker.container.layer import LayerItem
from providers.docker.container.user import GROUP, ContainerUser, account_lists
from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import NAME
from schemas.problems.errors.kernel import KernelRefused

ETC = posixpath.dirname(GROUP)
OURS = frozenset({"/", ETC, GROUP})
_LINE = re.compile(r"[A-Za-z_][\w.-]*\$?:[^:]*:[0-9]+:[^:]*", re.ASCII)
"""A group that is named by no number, however a parser splits and trims."""
_RISK = "its session could become a member of any group"


def image_volumes(image: Mapping[str, Any]) -> tuple[str, ...]:
    """Where the image says that its containers have folders of their own."""
    found = (image.get("Config") or {}).get("Volumes") or {}
    return tuple("/" + posixpath.normpath(volume).strip("/") for volume in found)


def check_mounts(spec: KernelSpec, user: ContainerUser, ends: Mapping[str, str]) -> None:
    """`ends`: what a session may write to is mounted there → where that leads. Raises KernelRefused."""
    if user.uid:
        _check_path(spec, OURS, ends)


def _check_path(spec: KernelSpec, way: Collection[str], ends: Mapping[str, str]) -> None:
    for place, end in ends.items():
        if end in way:
            why = f"what is mounted at {place} would be, or hide, the image's {GROUP}: {_RISK}"
            raise _refusal(spec, why, "mount it elsewhere")


def group_items(engine: Engine, image: Mapping[str, Any], user: ContainerUser) -> tuple[LayerItem, ...]:
    """What its container's layer has. Root may take any group by itself. Raises EngineRefusal, OSError."""
    if user.uid == 0:
        return ()
    if user.made:
        text = accounts.passwd_and_group(user.uid, user.gid, user.groups, shell="")[1]
    else:
        lines = account_lists(engine, image)[GROUP].split("\n")
        text = "".join(f"{line}\n" for line in lines if _LINE.fullmatch(line))
    return (LayerItem("/"), LayerItem(ETC), LayerItem(GROUP, text.encode(), 0o644))


def check_image(
    engine: Engine, spec: KernelSpec, image: Mapping[str, Any], user: ContainerUser, ends: Mapping[str, str]
) -> None:
    """That nobody but root can change the image's list, and that it does not lie. `ends`: as for
    `check_mounts`. Raises KernelRefused, EngineRefusal, OSError."""
    if user.uid == 0:
        return
    root = _root_owner(engine, image)
    if user.uid == root:  # Outside of the engine's user namespace.
        why = f"node {engine.node}: images' files of root belong to user {root}: {_RISK}"
        raise _refusal(spec, why, "give the project another number (uid of the Project)")
    way = image_files.resolve_path(engine, str(image["Id"]), GROUP)
    for path, entry in way.steps:
        loose = _writable_by_others(entry, root) if entry is not None else ""
        if loose:
            why = f"{path} {loose} in image {spec.image}: {_RISK}"
            places = _name_paths(path for path, _ in way.steps)
            hint = f"make {places} of the image root's, and take the right to write from all others"
            raise _refusal(spec, why, hint)
    _check_path(spec, {path for path, _ in way.steps}, {**{each: each for each in MEMORY}, **ends})
    last = way.steps[-1][1]
    if last is None:
        return
    if last.text is None:
        what = "is too large" if last.member.isreg() else "is no file"
        hint = "make it a list of groups, of up to 1 MiB"
        raise _refusal(spec, f"{way.real} of image {spec.image} {what}", hint)
    for line in last.text.split("\n"):
        name, *fields = line.strip().split(":")
        if name.isdecimal() and fields[1:2] != [name]:
            why = f"image {spec.image} has a group that is named {name} and is another one"
            raise _refusal(spec, why, f"remove it from the image's {GROUP}")


def _root_owner(engine: Engine, image: Mapping[str, Any]) -> int:
    """To whom of the node root's files in images belong."""
    if not engine.facts.remapped:
        return 0
    (found,) = image_files.map_owners(engine, str(image["Id"]), [(0, 0)])
    return found[0] if found is not None else 0


def _writable_by_others(entry: image_files.Entry, root: int) -> str:
    """How others than root may change it, or what is in it. `root`: his number; engines show the node's, also
    where containers are in a user namespace. Rights that an access list gives are in the mode, too: as those
    of the group."""
    if entry.member.uid != root:
        return f"belongs to user {entry.member.uid}"
    mode = stat.S_IMODE(entry.member.mode)
    if mode & (stat.S_IWGRP | stat.S_IWOTH) and not entry.member.issym():
        return f"can be written by others than root (mode {mode:04o})"
    return ""


def _name_paths(paths: Iterable[str]) -> str:
    *first, last = dict.fromkeys(paths)
    return f"{', '.join(first)} and {last}"


def _refusal(spec: KernelSpec, why: str, hint: str) -> KernelRefused:
    return KernelRefused(provider=NAME, kernel=spec.id, why=why, hint=hint)
