"""Manifests, indexes and configurations of images, as registries store them. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.files.strict_json import parse_json

INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
ACCEPT = ", ".join((*INDEXES, *MANIFESTS))
MOST_PLATFORMS = 32


@dataclass(frozen=True, slots=True)
class Manifest:
    """One architecture's manifest."""

    digest: str
    config: str
    """Digest of the configuration."""
    size: int
    """Bytes of all layers and the configuration."""
    layers: int


@dataclass(frozen=True, slots=True)
class Index:
    """Several architectures."""

    digest: str
    manifests: Mapping[str, str]
    """Architecture → digest of its manifest; Linux only."""


def digest_of(content: bytes, like: str = "sha256:") -> str:
    """The digest of content, by the algorithm that `like` names. Raises ValueError for one unknown."""
    algorithm = like.partition(":")[0]
    if algorithm not in ("sha256", "sha384", "sha512"):
        raise ValueError(f"{algorithm} is not an algorithm of digests")
    return f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}"


def parse_manifest(content: bytes, kind: str) -> Manifest | Index:
    """`kind` is the media type that came with it. Raises ValueError for anything else."""
    value = _as_object(parse_json(content))
    kind = str(value.get("mediaType") or kind.partition(";")[0].strip())
    if kind in INDEXES or (kind not in MANIFESTS and "manifests" in value):
        return Index(digest_of(content), _platforms(value))
    if value.get("schemaVersion") == 1:
        raise ValueError("its manifest is of version 1, which engines no longer pull; push it again")
    config = _as_object(value.get("config"))
    layers = [_as_object(layer) for layer in _as_list(value, "layers")]
    size = sum(_size(part) for part in (config, *layers))
    return Manifest(digest_of(content), _digest(config), size, len(layers))


def _platforms(value: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in _as_list(value, "manifests"):
        entry = _as_object(entry)
        platform = _as_object(entry.get("platform") or {})
        name = platform.get("architecture")
        # Attestations stand beside images as the platform unknown/unknown.
        if platform.get("os") == "linux" and isinstance(name, str) and name != "unknown":
            found.setdefault(name, _digest(entry))
    if len(found) > MOST_PLATFORMS:
        raise ValueError(f"it has more than {MOST_PLATFORMS} platforms")
    return found


def parse_config(content: bytes) -> tuple[str, dict[str, str]]:
    """Architecture and labels of a configuration. Raises ValueError."""
    value = _as_object(parse_json(content))
    found = _as_object(value.get("config") or {}).get("Labels") or {}
    return str(value.get("architecture") or "amd64"), {str(k): str(v) for k, v in _as_object(found).items()}


def _as_object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not what a registry should give")
    return value


def _as_list(value: Mapping[str, Any], field: str) -> list[Any]:
    found = value.get(field) or []
    if not isinstance(found, list):
        raise ValueError(f"{field} is not a list")
    return found


def _digest(value: Mapping[str, Any]) -> str:
    found = value.get("digest")
    if not isinstance(found, str) or ":" not in found:
        raise ValueError("a digest is missing")
    return found


def _size(value: Mapping[str, Any]) -> int:
    size = value.get("size")
    return size if isinstance(size, int) and size > 0 else 0
