"""Making a kernel's container and starting it: two requests where nothing is in the way. What is in the way
is a container of the same name, from an attempt that was refused, cut off or killed.
"""

from __future__ import annotations

import contextlib
import posixpath
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

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
from providers.docker.container.edits import ContainerEdits
from providers.docker.container.user import ContainerUser
from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import NAME, engine_errors
from providers.docker.engine.http import EngineRefusal, quote_segment
from providers.docker.labels import ID, from_engine_labels
from providers.docker.shared_cores import SharedCores
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.node import ImageMissing
from schemas.problems.errors.provider import ProviderUnavailable
from schemas.problems.errors.store import StoreError

PATIENCE = 60.0
"""Seconds for what another request has begun with a container of this name."""
RETRY_PAUSE = 0.05
UNSTARTED_STATES = frozenset({"created", "dead"})
YOUNG = 1.0
"""Seconds in which whoever has made a container may be about to start it; later it counts as left behind."""
SLOW_ENGINE = 180.0
"""Seconds for an engine under load to create or start one container."""
_GONE, _CONFLICT = 404, 409


def create_container(engine: Engine, spec: KernelSpec, cores: SharedCores, fence: Fence) -> bool:
    """Create and start; a kernel that is there already is left as it is: False. Raises KernelRefused,
    ProviderUnavailable, and what `fence` raises."""
    if not spec.image:
        hint = "set `image` of the session, or a default in the cluster"
        raise KernelRefused(provider=NAME, kernel=spec.id, why="it names no image", hint=hint)
    look_first = bool(runtime_files.is_needed(spec) or subpaths.is_needed(spec) or spec.share)
    deadline = time.monotonic() + PATIENCE
    with engine_errors(engine.node, spec.id, making=True), _explain_missing_image(engine, spec):
        while not (look_first and _exists(engine, spec)):
            with cores.reserve(spec) as cpus:
                made = _create_and_start(engine, spec, cpus, fence)
            if made:
                return True
            if time.monotonic() > deadline:
                why = f"node {engine.node}: the name {spec.id} is taken, but nothing is there"
                raise ProviderUnavailable(provider=NAME, why=why)
            look_first = True
    return False


@contextlib.contextmanager
def _explain_missing_image(engine: Engine, spec: KernelSpec) -> Iterator[None]:
    """That the node lacks the image is said so that somebody can bring it there."""
    try:
        yield
    except EngineRefusal as refusal:
        if refusal.status != _GONE or "no such image" not in refusal.why.lower():
            raise
        hint = "`bai images pull` brings it there"
        raise ImageMissing(provider=NAME, node=engine.node, image=spec.image, hint=hint) from None


def _exists(engine: Engine, spec: KernelSpec) -> bool:
    """Whether it is there; what was left half made of it goes."""
    try:
        found = engine.inspect(spec.id)
    except EngineRefusal as refusal:
        if refusal.status != _GONE:
            raise
        time.sleep(RETRY_PAUSE)  # Somebody's request may be about to make it.
        return False
    if (found["Config"]["Labels"] or {}).get(ID) != spec.id:
        why = f"node {engine.node}: a container of this name is there that is not bai's"
        raise KernelRefused(provider=NAME, kernel=spec.id, why=why, hint="remove or rename it")
    if found["State"]["Status"] == "removing":
        time.sleep(RETRY_PAUSE)
        return False
    if found["State"]["Status"] not in UNSTARTED_STATES or _is_started_soon(engine, str(found["Id"])):
        return True
    remove_unstarted(engine, str(found["Id"]))
    return False


def _is_started_soon(engine: Engine, container: str) -> bool:
    """By another request that has made it."""
    deadline = time.monotonic() + YOUNG
    while (status := _status(engine, container)) in UNSTARTED_STATES and time.monotonic() < deadline:
        time.sleep(RETRY_PAUSE)
    return status not in ("", "removing", *UNSTARTED_STATES)


def _status(engine: Engine, container: str) -> str:
    """Empty where there is no such container. Raises EngineRefusal, OSError."""
    try:
        return str(engine.inspect(container)["State"]["Status"])
    except EngineRefusal as refusal:
        if refusal.status != _GONE:
            raise
        return ""


def _create_and_start(engine: Engine, spec: KernelSpec, cpus: tuple[int, ...], fence: Fence) -> bool:
    """False when the name is taken, or somebody took away what had not started yet."""
    image = engine.call("GET", f"/images/{quote_segment(spec.image)}/json")
    who = user.container_user(engine, spec, image)
    user.check_numbers(engine, spec, image, who)
    ends = _resolve_targets(engine, spec, image)
    place = home.place_home(spec, ends, exempt=engine.leaves_user_namespace) if who.made else None
    edits = ContainerEdits() if place is None else home.prepare(engine, spec, who, place, image)
    mounted = {path: ends[path] for path in _writable_targets(spec, image, edits)}
    supplementary_groups.check_mounts(spec, who, mounted)
    edits += _prepare_edits(engine, spec, image) + ContainerEdits(cpus=cpus)
    body = config.container_payload(spec, engine.options, who, edits)
    try:
        new = engine.call(
            "POST", "/containers/create", query={"name": spec.id}, body=body, timeout=SLOW_ENGINE
        )
    except EngineRefusal as refusal:
        if refusal.status == _CONFLICT:
            return False
        _release_uncreated(engine, spec, edits)
        raise
    try:
        _fill_layer(engine, spec, image, who, place, mounted)
        fence()
        engine.call("POST", f"/containers/{quote_segment(str(new['Id']))}/start", timeout=SLOW_ENGINE)
    except StoreError:
        # By its own id, and nothing else: somebody else may have made another one of this name meanwhile.
        with contextlib.suppress(OSError, EngineRefusal):
            remove_unstarted(engine, str(new["Id"]))
        raise
    except (EngineRefusal, KernelRefused) as refusal:
        if _is_gone(engine, str(new["Id"]), refusal):
            return False
        with contextlib.suppress(OSError, EngineRefusal):
            remove_unstarted(engine, str(new["Id"]))
        _release_uncreated(engine, spec, edits)
        raise
    return True


def _is_gone(engine: Engine, container: str, refusal: EngineRefusal | KernelRefused) -> bool:
    """Whether it was refused because there is no such container any more."""
    return isinstance(refusal, EngineRefusal) and refusal.status == _GONE and not _status(engine, container)


def _resolve_targets(engine: Engine, spec: KernelSpec, image: Mapping[str, Any]) -> dict[str, str]:
    """Where that leads at which something may be mounted that its session can write to."""
    places = _writable_targets(spec, image, ContainerEdits())
    wanted = places or engine.leaves_user_namespace
    return image_files.resolve_paths(engine, str(image["Id"]), {*places, accounts.HOME}) if wanted else {}


def _writable_targets(spec: KernelSpec, image: Mapping[str, Any], edits: ContainerEdits) -> set[str]:
    mounts = (posixpath.normpath(mount.target) for mount in spec.mounts)
    return {*mounts, *supplementary_groups.image_volumes(image), *config.tmpfs_mounts(spec, edits)}


def _fill_layer(
    engine: Engine,
    spec: KernelSpec,
    image: Mapping[str, Any],
    who: ContainerUser,
    place: home.Home | None,
    mounted: Mapping[str, str],
) -> None:
    """What it has of its own before it runs. `mounted`: place → where that leads."""
    homes = home.home_items(spec, who, place) if place is not None else ()
    hidden = place is not None and home.is_declared_volume(image, place)
    below = (*supplementary_groups.group_items(engine, image, who), *(() if hidden else homes))
    written = not below or layer.put_items(engine, spec.id, below)
    if not written:
        supplementary_groups.check_image(engine, spec, image, who, mounted)
    if homes and (hidden or not written):
        home.make_homes(engine, spec, homes)


def _prepare_edits(engine: Engine, spec: KernelSpec, image: Mapping[str, Any]) -> ContainerEdits:
    """What has to be found out or put on the node before."""
    _check_mounts(engine, spec, image)
    edits = (
        devices.prepare(engine, spec)
        + devices.withhold_devices(spec, image)
        + gpu_share.prepare(engine, spec)
    )
    edits += runtime_files.prepare(engine, spec, image) + ContainerEdits(
        masked=masked_paths.cpu_heat_paths(engine.facts.cpus)
    )
    return edits + subpaths.prepare(engine, spec) + _size_edits(engine, spec)


def _size_edits(engine: Engine, spec: KernelSpec) -> ContainerEdits:
    able = spec.scratch and Limit.SCRATCH not in engine.facts.missing
    return ContainerEdits(size=spec.scratch) if able else ContainerEdits()


def _check_mounts(engine: Engine, spec: KernelSpec, image: Mapping[str, Any]) -> None:
    if not spec.mounts:
        return
    from providers.storage import mounts

    owner = user.host_uid(engine, spec, image)
    if engine.local:
        why = mounts.mount_problem_here(spec.mounts, owner)
    else:
        why = mounts.mount_problem(engine.machine, spec.mounts, owner)
    if why:
        raise KernelRefused(provider=NAME, kernel=spec.id, why=f"node {engine.node}: {why}")


def remove_unstarted(engine: Engine, kernel: str) -> None:
    """Remove a container that is not wanted; none is there afterwards. Raises EngineRefusal, OSError."""
    retrying = Retrying(
        retry=retry_if_exception(_is_being_removed),
        stop=stop_after_delay(PATIENCE),
        wait=wait_fixed(RETRY_PAUSE),
        reraise=True,
    )
    try:
        retrying(engine.remove_container, kernel)
    except EngineRefusal as refusal:
        if refusal.status != _GONE:
            raise


def _is_being_removed(error: BaseException) -> bool:
    return isinstance(error, EngineRefusal) and error.status == _CONFLICT


def _release_uncreated(engine: Engine, spec: KernelSpec, edits: ContainerEdits) -> None:
    """What had been put on the node for a container that could not be made; the reason matters more."""
    with contextlib.suppress(BaiError):
        for bind in edits.binds:
            runtime_files.release(engine, spec.id, bind.source)
    with contextlib.suppress(BaiError):
        gpu_share.release_uncreated(engine, spec)
    with contextlib.suppress(BaiError, OSError, EngineRefusal):
        subpaths.release_uncreated(engine, spec)


def update_container(
    engine: Engine, kernel: str, spec: KernelSpec, found: Mapping[str, Any], cores: SharedCores
) -> None:
    """Bring a container's limits and labels to the spec. `found`: as inspected. Raises KernelRefused,
    ProviderUnavailable."""
    with engine_errors(engine.node, kernel, making=True):
        if found["State"]["Status"] not in ("exited", "dead"):
            with cores.reserve(spec) as cpus:
                _update_limits(engine, spec, found, cpus, cores.all_cores())
        noted = notes.parse_notes(notes.list_notes(engine, kernel)).get(found["Id"], notes.Note())
        if (noted.labels or from_engine_labels(found["Config"]["Labels"] or {})) != spec.labels:
            notes.relabel(engine, kernel, found["Id"], spec.labels)


def _update_limits(
    engine: Engine,
    spec: KernelSpec,
    found: Mapping[str, Any],
    cpus: tuple[int, ...],
    everybody: tuple[int, ...],
) -> None:
    wanted = config.update_differences(spec, found["HostConfig"], shared=cpus, everybody=everybody)
    if wanted:
        engine.call("POST", f"/containers/{found['Id']}/update", body=wanted, timeout=SLOW_ENGINE)
