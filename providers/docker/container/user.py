"""Whom a container runs as: the project's user, unless its image or its document says otherwise.

Engines look a user's name up in the container, at each start anew, where an image or a session could have put
any number. So they are never given names: what a name means is read from the image, once, and judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from providers.base import KernelSpec
from providers.docker.container import image_files
from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import NAME
from schemas.hardware.cpulist import parse_cpus
from schemas.problems.errors.kernel import KernelRefused
from schemas.values.linux_users import FIRST_REGULAR_ID, LAST_IMAGE_ID, is_root, numeric_id

PASSWD, GROUP = "/etc/passwd", "/etc/group"


@dataclass(frozen=True, slots=True)
class ContainerUser:
    """Numbers inside the container. `groups` are supplementary. `made`: unknown to its image, so that it
    needs a name and a home; others are as the image has them."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    made: bool = False

    @property
    def text(self) -> str:
        """With its group, so that the engine takes none from the image's list of users."""
        return f"{self.uid}:{self.gid}"


ROOT = ContainerUser(0, 0)


def container_user(engine: Engine, spec: KernelSpec, image: Mapping[str, Any]) -> ContainerUser:
    """`image`: as inspected. Raises KernelRefused, EngineRefusal, OSError."""
    return _document_user(engine, spec, image) if spec.user else _image_user(engine, spec, image)


def check_numbers(engine: Engine, spec: KernelSpec, image: Mapping[str, Any], user: ContainerUser) -> None:
    """That its user and groups are in the user namespace of its container. Raises KernelRefused,
    EngineRefusal, OSError."""
    if not engine.maps_users:
        return
    asked = {(user.uid, 0): f"user {user.uid}"}
    asked |= {(0, gid): f"group {gid}" for gid in (user.gid, *user.groups)}
    found = image_files.map_owners(engine, str(image["Id"]), asked)
    for what, owner in zip(asked.values(), found, strict=True):
        if owner is None:
            why = f"node {engine.node}: its engine's user namespace has no {what}"
            hint = "give projects numbers that it has (sessionUids of the Cluster, uid of the Project)"
            raise _refusal(spec, why, hint)


def host_uid(engine: Engine, spec: KernelSpec, image: Mapping[str, Any]) -> int | None:
    """Whom the node knows the project's user as, where the container's user namespace has him; else as he is.
    Raises EngineRefusal, OSError."""
    if spec.uid is None or not engine.maps_users:
        return spec.uid
    (found,) = image_files.map_owners(engine, str(image["Id"]), [(spec.uid, 0)])
    return spec.uid if found is None else found[0]


def _project_uid(spec: KernelSpec) -> int:
    if spec.uid is None or spec.uid < FIRST_REGULAR_ID:
        raise _refusal(
            spec, f"there is no user that it may run as: {spec.uid} is none, or one of the system's"
        )
    return spec.uid


def _document_user(engine: Engine, spec: KernelSpec, image: Mapping[str, Any]) -> ContainerUser:
    """Numbers, and root, were judged with the document; names are known only here."""
    name, _, group = spec.user.partition(":")
    if is_root(name):
        return ContainerUser(
            0, _lookup_group(engine, spec, image, group) if group and not is_root(group) else 0
        )
    uid = numeric_id(name)
    made = uid is not None
    if uid is None:
        uid = _lookup_user(engine, spec, image, name)[0]
        if uid == 0:
            hint = "write user: root, where the resource group allows it (allowRoot)"
            raise _refusal(spec, f"user {name} of image {spec.image} is root", hint)
        _require_own(spec, uid, f"user {name}")
    gid = _lookup_group(engine, spec, image, group) if group else _project_uid(spec)
    return ContainerUser(uid, gid, _supplementary(spec, gid), made)


def _image_user(engine: Engine, spec: KernelSpec, image: Mapping[str, Any]) -> ContainerUser:
    """What an image says about root is what most mean who say nothing."""
    own = _project_uid(spec)
    mine = ContainerUser(own, own, _supplementary(spec, own), made=True)
    name, _, group = str((image.get("Config") or {}).get("User") or "").partition(":")
    if not name or is_root(name):
        return mine
    uid, gid = numeric_id(name), 0
    if uid is None:
        uid, gid = _lookup_user(engine, spec, image, name)
    if uid in (0, own):
        return mine
    _require_own(spec, uid, f"its user {name}")
    gid = numeric_id(group) or 0 if group else gid
    more = (gid,) if gid and not _is_foreign(spec, gid) else ()
    return ContainerUser(uid, own, _supplementary(spec, own, more))


def _supplementary(spec: KernelSpec, gid: int, more: tuple[int, ...] = ()) -> tuple[int, ...]:
    return tuple(sorted({*spec.groups, *more} - {gid}))


def _lookup_user(engine: Engine, spec: KernelSpec, image: Mapping[str, Any], name: str) -> tuple[int, int]:
    """Numbers of user and group by the image's list."""
    for fields in _account_lines(engine, image, PASSWD):
        if fields[0] == name and len(fields) > 3:
            uid, own = numeric_id(fields[2]), numeric_id(fields[3])
            if uid is not None and own is not None:
                return uid, own
    hint = "write container.user: with a number"
    raise _refusal(spec, f"image {spec.image} has no user {name} in its {PASSWD}", hint)


def _lookup_group(engine: Engine, spec: KernelSpec, image: Mapping[str, Any], name: str) -> int:
    gid = numeric_id(name)
    if gid is not None:
        return gid
    for fields in _account_lines(engine, image, GROUP):
        gid = numeric_id(fields[2]) if fields[0] == name and len(fields) > 2 else None
        if gid is not None:
            if gid == 0:
                raise _refusal(spec, f"group {name} of image {spec.image} is root's", "write another group")
            _require_own(spec, gid, f"group {name}")
            return gid
    raise _refusal(spec, f"image {spec.image} has no group {name} in its {GROUP}", "write its number")


def _account_lines(engine: Engine, image: Mapping[str, Any], path: str) -> list[list[str]]:
    return [line.split(":") for line in account_lists(engine, image)[path].splitlines()]


def account_lists(engine: Engine, image: Mapping[str, Any]) -> dict[str, str]:
    """What the image's lists say, by their paths. Raises EngineRefusal, OSError."""
    both = (PASSWD, GROUP)
    return dict(zip(both, image_files.read_texts(engine, str(image["Id"]), both), strict=True))


def _is_foreign(spec: KernelSpec, uid: int) -> bool:
    """Whether a number may be another project's user, or no user's at all."""
    if uid == spec.uid:
        return False
    return uid > LAST_IMAGE_ID or uid in parse_cpus(spec.others or "")


def _require_own(spec: KernelSpec, uid: int, what: str) -> None:
    if _is_foreign(spec, uid):
        why = f"{what} of image {spec.image} is {uid}, which is another project's or may be one's"
        raise _refusal(spec, why, f'write container: {{user: "{spec.uid}"}}, the project\'s own user')


def _refusal(spec: KernelSpec, why: str, hint: str = "") -> KernelRefused:
    return KernelRefused(provider=NAME, kernel=spec.id, why=why, hint=hint)
