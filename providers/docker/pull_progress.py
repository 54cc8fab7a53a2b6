"""What an engine tells while it fetches an image, and why one could not be fetched. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from providers.docker.engine.errors import NAME
from providers.docker.engine.http import split_lines
from providers.images import PullProgress, PullRequest
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.node import PullFailed
from schemas.problems.errors.registry import (
    NoSuchImage,
    RegistryRefused,
    RegistryUnreachable,
    RegistryUntrusted,
)
from schemas.values.image_reference import parse_reference

_STEP = 20
"""A pull is told of at least so often, as parts of what is known to come."""


def parse_messages(pieces: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON objects of a stream, one to a line; what else is said is passed over."""
    for line in split_lines(pieces):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


class LayerProgress:
    """The layers of one image, as far as they have come."""

    def __init__(self, node: str, image: str) -> None:
        self._node, self._image = node, image
        self._done: dict[str, bool] = {}
        self._bytes: dict[str, tuple[int, int]] = {}
        self._told = -1

    def update(self, message: Mapping[str, Any]) -> bool:
        """Take in one message; whether it is worth telling."""
        layer, status = str(message.get("id") or ""), str(message.get("status") or "")
        if not layer or status.startswith("Pulling from"):
            return False
        known = self._done.setdefault(layer, False)
        self._done[layer] = known or status in ("Pull complete", "Already exists")
        detail = message.get("progressDetail") or {}
        if status == "Downloading" and isinstance(detail.get("total"), int) and detail["total"] > 0:
            self._bytes[layer] = (int(detail.get("current") or 0), detail["total"])
        elif layer in self._bytes and status != "Downloading":
            self._bytes[layer] = (self._bytes[layer][1],) * 2
        now = self.news()
        # Engines tell of every layer ten times a second.
        mark = (
            now.layers_done * 1000
            + now.layers
            + (now.bytes_done * _STEP // now.bytes if now.bytes else 0) * 7
        )
        told, self._told = self._told, mark
        return mark != told

    def news(self, *, over: bool = False) -> PullProgress:
        return PullProgress(
            self._node,
            self._image,
            sum(self._done.values()),
            len(self._done),
            sum(done for done, _ in self._bytes.values()),
            sum(total for _, total in self._bytes.values()),
            over,
        )


_AWAY = (
    "connection refused", "no such host", "i/o timeout", "timeout exceeded", "connection reset",
    "unreachable", "toomanyrequests", "unexpected eof", "no route to host", "service unavailable",
    "bad gateway",
)  # fmt: skip
_DENIED = ("unauthorized", "access denied", "no basic auth credentials", "authentication required", "denied:")
_ABSENT = ("manifest unknown", "not found", "name unknown", "name_unknown", "no such image")


def pull_error(request: PullRequest, why: str) -> BaiError:
    """The engine's words as an error that says what to do."""
    reference = parse_reference(request.image)
    said, told = why.lower(), f"node {request.node}: {why}"
    domain = reference.domain
    if any(word in said for word in _AWAY):
        return RegistryUnreachable(registry=domain, why=told)
    if "server gave http response" in said:
        hint = f'its engine must be told: "insecure-registries": ["{domain}"] in /etc/docker/daemon.json'
        return RegistryUntrusted(registry=domain, why=told, hint=hint)
    if "x509" in said or "tls:" in said:
        hint = f"put its certificate on the node, as /etc/docker/certs.d/{domain}/ca.crt"
        return RegistryUntrusted(registry=domain, why=told, hint=hint)
    if any(word in said for word in _DENIED):
        hint = "are the Registry's credentials right? An unknown image is refused like this too"
        return RegistryRefused(registry=domain, why=told, hint=hint)
    if "no matching manifest" in said:
        hint = "push the image for this architecture, or name the architectures in its Image document"
        return PullFailed(provider=NAME, node=request.node, image=request.image, why=why, hint=hint)
    if any(word in said for word in _ABSENT):
        hint = "`bai images scan` says which tags there are"
        return NoSuchImage(registry=domain, image=f"{reference.path} {reference.selector}", hint=hint)
    hint = "free some of its disk" if "no space left" in said else ""
    return PullFailed(provider=NAME, node=request.node, image=request.image, why=why, hint=hint)
