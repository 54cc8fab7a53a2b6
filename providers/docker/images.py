"""Images of nodes: fetched once however many ask, a few at a time, with how far they have come."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import NAME, engine_errors
from providers.docker.engine.http import EngineRefusal, quote_segment
from providers.docker.fleet import Fleet
from providers.docker.pull_progress import LayerProgress, parse_messages, pull_error
from providers.images import NodeImage, OnPullProgress, PullProgress, PullRequest
from schemas.images.facts import ImagePlatform
from schemas.problems.errors.node import PullFailed
from schemas.values.image_reference import parse_reference

AT_ONCE = 2
"""Most images that one node fetches at the same time; its engine fetches their layers side by side."""
SILENCE = 900.0
"""Seconds without a word after which a pull has failed: unpacking a large layer says nothing for long."""
_GONE = 404


@dataclass
class _PullInFlight:
    """A pull that several may wait for."""

    listeners: list[OnPullProgress]
    over: threading.Event = field(default_factory=threading.Event)
    fetched: bool = False
    error: BaseException | None = None

    def tell(self, news: PullProgress) -> None:
        for listener in list(self.listeners):
            listener(news)


class Puller:
    """The pulls of one provider. May be used by several threads."""

    def __init__(self, fleet: Fleet, *, at_once: int = AT_ONCE) -> None:
        self._fleet = fleet
        self._at_once = at_once
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str, str], _PullInFlight] = {}
        self._slots: dict[str, threading.Semaphore] = {}

    def pull(self, request: PullRequest, tell: OnPullProgress) -> bool:
        """False when the node had it. Raises ProviderError, RegistryError."""
        engine = self._fleet.engine_of(request.node)
        key = (request.node, request.image, request.auth)
        with self._lock:
            shared = self._running.get(key)
            mine = shared is None
            if shared is None:
                shared = self._running[key] = _PullInFlight([])
            shared.listeners.append(tell)
        if mine:
            self._run_pull(engine, request, shared, key)
        else:
            shared.over.wait()
        if shared.error is not None:
            raise shared.error
        return shared.fetched

    def _run_pull(
        self, engine: Engine, request: PullRequest, shared: _PullInFlight, key: tuple[str, str, str]
    ) -> None:
        try:
            if request.policy == "always" or inspect_image(engine, request.image) is None:
                with self._slot(request.node):
                    _fetch(engine, request, shared.tell)
                shared.fetched = True
        except BaseException as error:
            shared.error = error
        finally:
            with self._lock:
                del self._running[key]
            shared.over.set()

    def _slot(self, node: str) -> threading.Semaphore:
        with self._lock:
            return self._slots.setdefault(node, threading.Semaphore(self._at_once))


def _fetch(engine: Engine, request: PullRequest, tell: OnPullProgress) -> None:
    reference = parse_reference(request.image)
    layers = LayerProgress(request.node, request.image)
    tell(layers.news())
    # An empty one keeps the engine from looking for credentials of its own.
    headers = {"X-Registry-Auth": request.auth or "e30="}
    query = {"fromImage": reference.name, "tag": reference.selector}
    with engine_errors(engine.node):
        try:
            pieces = engine.stream("POST", "/images/create", query=query, headers=headers, timeout=SILENCE)
        except EngineRefusal as refusal:
            raise pull_error(request, refusal.why) from None
        for message in parse_messages(pieces):
            if "error" in message:
                detail = message.get("errorDetail") or {}
                raise pull_error(request, str(detail.get("message") or message["error"]))
            if layers.update(message):
                tell(layers.news())
    if inspect_image(engine, request.image) is None:
        why = "the engine ended without a word, and the image is not there"
        raise PullFailed(provider=NAME, node=request.node, image=request.image, why=why)
    tell(layers.news(over=True))


def inspect_image(engine: Engine, image: str) -> dict[str, Any] | None:
    """An image as the engine knows it; None when it does not. Raises ProviderError."""
    reference = parse_reference(image)
    name = f"{reference.name}@{reference.digest}" if reference.digest else str(reference)
    with engine_errors(engine.node):
        try:
            found: dict[str, Any] = engine.call("GET", f"/images/{quote_segment(name)}/json")
        except EngineRefusal as refusal:
            if refusal.status != _GONE:
                raise
            return None
    return found


def list_images(
    fleet: Fleet, nodes: frozenset[str]
) -> tuple[Mapping[str, tuple[NodeImage, ...]], Mapping[str, str]]:
    """What these nodes have, and why some could not be asked."""
    asked = Fleet({node: engine for node, engine in fleet.engines.items() if node in nodes}, fleet.poll)
    return asked.ask_all(_node_images, patient=True)


def _node_images(engine: Engine) -> tuple[NodeImage, ...]:
    found = engine.call("GET", "/images/json")
    return tuple(
        NodeImage(
            _full_names(each.get("RepoTags")),
            _full_names(each.get("RepoDigests")),
            int(each.get("Size") or 0),
        )
        for each in found
    )


def _full_names(names: list[str] | None) -> tuple[str, ...]:
    full = []
    for name in names or ():
        try:
            full.append(str(parse_reference(name)))
        except ValueError:
            continue  # `<none>:<none>`: what a newer image took the name from.
    return tuple(full)


def image_facts(engine: Engine, image: str) -> tuple[str, ImagePlatform, str] | None:
    """Architecture, what the engine knows, and the digest that the image was pulled by."""
    found = inspect_image(engine, image)
    if found is None:
        return None
    name = parse_reference(image).name
    digests = [parse_reference(each) for each in _full_names(found.get("RepoDigests"))]
    digest = next((each.digest for each in digests if each.name == name), "")
    layers = (found.get("RootFS") or {}).get("Layers") or ()
    labels = (found.get("Config") or {}).get("Labels") or {}
    platform = ImagePlatform(
        digest=digest, size=int(found.get("Size") or 0), layers=len(layers), labels=labels
    )
    return str(found.get("Architecture") or "amd64"), platform, digest
