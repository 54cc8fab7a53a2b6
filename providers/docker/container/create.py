"""Making a kernel's container and starting it: two requests where nothing is in the way. What is in the way
is a container of the same name, from an attempt that was refused, cut off or killed.
"""

from __future__ import annotations

import contextlib
import posixpath
import time
from collections.abc import Iterator, Mapping
from typing import Any

from providers import accounts, masked_paths
from providers.base import Fence, KernelSpec, Limit
from providers.docker import notes
from providers.docker.container import (
    config,
    devices,
    gpu_share,
    home,
    image_files,
    layer,
    runtime_files,
    subpaths,
    supplementary_groups,
    user,
)
from providers.docker.container.extras import Extras
from providers.docker.container.user import User
from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import NAME, speaking
from providers.docker.engine.http import Refusal, segment
from providers.docker.labels import ID, read
from providers.docker.shared_cores import Cores
from schemas.problems.errors import BaiError, ImageMissing, KernelRefused, ProviderUnavailable, StoreError

PATIENCE = 60.0
"""Seconds for what another request has begun with a container of this name."""
TRY_AGAIN = 0.05
HALF_MADE = frozenset({"created", "dead"})
SLOW = 180.0
"""Seconds for an engine under load to create or start one container."""
_GONE, _CONFLICT = 404, 409


def make(engine: Engine, spec: KernelSpec, cores: Cores, fence: Fence) -> bool:
    """Create and start; a kernel that is there already is left as it is: False. Raises KernelRefused,
    ProviderUnavailable, and what `fence` raises."""
    if not spec.image:
        hint = "set `image` of the session, or a default in the cluster"
        raise KernelRefused(provider=NAME, kernel=spec.id, why="it names no image", hint=hint)
    look_first = bool(runtime_files.needed(spec) or subpaths.needed(spec) or spec.share)
    deadline = time.monotonic() + PATIENCE
    with speaking(engine.node, spec.id, making=True), _without_image(engine, spec):
        while not (look_first and _stands(engine, spec)):
            with cores.given(spec) as cpus:
                made = _made(engine, spec, cpus, fence)
            if made:
                return True
            if time.monotonic() > deadline:
                why = f"node {engine.node}: the name {spec.id} is taken, but nothing is there"
                raise ProviderUnavailable(provider=NAME, why=why)
            look_first = True
    return False


@contextlib.contextmanager
def _without_image(engine: Engine, spec: KernelSpec) -> Iterator[None]:
    """That the node lacks the image is said so that somebody can bring it there."""
    try:
        yield
    except Refusal as refusal:
        if refusal.status != _GONE or "no such image" not in refusal.why.lower():
            raise
        hint = "`bai images pull` brings it there"
        raise ImageMissing(provider=NAME, node=engine.node, image=spec.image, hint=hint) from None


def _stands(engine: Engine, spec: KernelSpec) -> bool:
    """Whether it is there; what was left half made of it goes."""
    try:
        found = engine.inspect(spec.id)
    except Refusal as refusal:
        if refusal.status != _GONE:
            raise
        time.sleep(TRY_AGAIN)  # Somebody's request may be about to make it.
        return False
    if (found["Config"]["Labels"] or {}).get(ID) != spec.id:
        why = f"node {engine.node}: a container of this name is there that is not bai's"
        raise KernelRefused(provider=NAME, kernel=spec.id, why=why, hint="remove or rename it")
    if found["State"]["Status"] == "removing":
        time.sleep(TRY_AGAIN)
        return False
    if found["State"]["Status"] not in HALF_MADE:
        return True
    undo(engine, spec.id)
    return False


def _made(engine: Engine, spec: KernelSpec, cpus: tuple[int, ...], fence: Fence) -> bool:
    """False when the name is taken."""
    image = engine.call("GET", f"/images/{segment(spec.image)}/json")
    who = user.of(engine, spec, image)
    user.check_numbers(engine, spec, image, who)
    ends = _ends(engine, spec, image)
    place = home.placed(spec, ends, exempt=engine.exempt) if who.made else None
    extras = Extras() if place is None else home.give(engine, spec, who, place, image)
    mounted = {path: ends[path] for path in _mounted(spec, image, extras)}
    supplementary_groups.check_mounts(spec, who, mounted)
    extras += _extras(engine, spec, image) + Extras(cpus=cpus)
    body = config.payload(spec, engine.options, who, extras)
    try:
        new = engine.call("POST", "/containers/create", query={"name": spec.id}, body=body, timeout=SLOW)
    except Refusal as refusal:
        if refusal.status == _CONFLICT:
            return False
        _forget(engine, spec, extras)
        raise
    try:
        _fill(engine, spec, image, who, place, mounted)
        fence()
        engine.call("POST", f"/containers/{segment(str(new['Id']))}/start", timeout=SLOW)
    except StoreError:
        # By its own id, and nothing else: somebody else may have made another one of this name meanwhile.
        with contextlib.suppress(OSError, Refusal):
            undo(engine, str(new["Id"]))
        raise
    except (Refusal, KernelRefused):
        with contextlib.suppress(OSError, Refusal):
            undo(engine, str(new["Id"]))
        _forget(engine, spec, extras)
        raise
    return True


def _ends(engine: Engine, spec: KernelSpec, image: Mapping[str, Any]) -> dict[str, str]:
    """Where that leads at which something may be mounted that its session can write to."""
    places = _mounted(spec, image, Extras())
    wanted = places or engine.exempt
    return image_files.ends(engine, str(image["Id"]), {*places, accounts.HOME}) if wanted else {}


def _mounted(spec: KernelSpec, image: Mapping[str, Any], extras: Extras) -> set[str]:
    mounts = (posixpath.normpath(mount.target) for mount in spec.mounts)
    return {*mounts, *supplementary_groups.volumes(image), *config.in_memory(spec, extras)}


def _fill(
    engine: Engine,
    spec: KernelSpec,
    image: Mapping[str, Any],
    who: User,
    place: home.Home | None,
    mounted: Mapping[str, str],
) -> None:
    """What it has of its own before it runs. `mounted`: place → where that leads."""
    homes = home.items(spec, who, place) if place is not None else ()
    hidden = place is not None and home.declared(image, place)
    below = (*supplementary_groups.items(engine, image, who), *(() if hidden else homes))
    written = not below or layer.put(engine, spec.id, below)
    if not written:
        supplementary_groups.check_image(engine, spec, image, who, mounted)
    if homes and (hidden or not written):
        home.make(engine, spec, homes)


def _extras(engine: Engine, spec: KernelSpec, image: Mapping[str, Any]) -> Extras:
    """What has to be found out or put on the node before."""
    _check_mounts(engine, spec, image)
    extras = devices.give(engine, spec) + devices.withheld(spec, image) + gpu_share.give(engine, spec)
    extras += runtime_files.give(engine, spec, image) + Extras(masked=masked_paths.of_cpus(engine.facts.cpus))
    return extras + subpaths.give(engine, spec) + _sized(engine, spec)


def _sized(engine: Engine, spec: KernelSpec) -> Extras:
    able = spec.scratch and Limit.SCRATCH not in engine.facts.missing
    return Extras(size=spec.scratch) if able else Extras()


def _check_mounts(engine: Engine, spec: KernelSpec, image: Mapping[str, Any]) -> None:
    if not spec.mounts:
        return
    from providers.storage import mounts

    owner = user.outside(engine, spec, image)
    if engine.local:
        why = mounts.problem_here(spec.mounts, owner)
    else:
        why = mounts.problem(engine.machine, spec.mounts, owner)
    if why:
        raise KernelRefused(provider=NAME, kernel=spec.id, why=f"node {engine.node}: {why}")


def undo(engine: Engine, kernel: str) -> None:
    """Remove a container that is not wanted; none is there afterwards. Raises Refusal, OSError."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            engine.discard(kernel)
        except Refusal as refusal:
            if refusal.status == _GONE:
                return
            if refusal.status != _CONFLICT or time.monotonic() > deadline:
                raise
            time.sleep(TRY_AGAIN)  # Its removal is under way.


def _forget(engine: Engine, spec: KernelSpec, extras: Extras) -> None:
    """What had been put on the node for a container that could not be made; the reason matters more."""
    with contextlib.suppress(BaiError):
        for bind in extras.binds:
            runtime_files.take(engine, spec.id, bind.source)
    with contextlib.suppress(BaiError):
        gpu_share.drop(engine, spec)
    with contextlib.suppress(BaiError, OSError, Refusal):
        subpaths.forget(engine, spec)


def change(engine: Engine, kernel: str, spec: KernelSpec, found: Mapping[str, Any], cores: Cores) -> None:
    """Bring a container's limits and labels to the spec. `found`: as inspected. Raises KernelRefused,
    ProviderUnavailable."""
    with speaking(engine.node, kernel, making=True):
        if found["State"]["Status"] not in ("exited", "dead"):
            with cores.given(spec) as cpus:
                _limit(engine, spec, found, cpus, cores.everybody())
        noted = notes.gathered(notes.all_notes(engine, kernel)).get(found["Id"], notes.Note())
        if (noted.labels or read(found["Config"]["Labels"] or {})) != spec.labels:
            notes.relabel(engine, kernel, found["Id"], spec.labels)


def _limit(
    engine: Engine,
    spec: KernelSpec,
    found: Mapping[str, Any],
    cpus: tuple[int, ...],
    everybody: tuple[int, ...],
) -> None:
    wanted = config.differing(spec, found["HostConfig"], shared=cpus, everybody=everybody)
    if wanted:
        engine.call("POST", f"/containers/{found['Id']}/update", body=wanted, timeout=SLOW)
