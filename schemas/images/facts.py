"""What is known of an image because a registry or an engine was asked: kept by the store, read by plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class ImagePlatform(BaseModel):
    """The image of one architecture."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str
    """Of its own manifest; the index's when it is the only one."""
    size: int
    """Bytes to be transferred: all layers as they are compressed in the registry."""
    layers: int = 0
    labels: Mapping[str, str] = {}


class ImageFacts(BaseModel):
    """One image by its full reference."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reference: str
    """`ImageReference` as text, with registry and tag."""
    digest: str
    """What the tag means: the digest of the manifest or index, `sha256:…`; empty when it was never pushed."""
    platforms: Mapping[str, ImagePlatform]
    """By architecture as images name them: `amd64`, `arm64`."""
    signers: tuple[str, ...] = ()
    """Fingerprints of the public keys that were found to have signed `digest`. Kept with references by digest
    alone: a signature that was verified stays one."""

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without `signers` where there are none, as versions that know of none read it."""
        found: dict[str, Any] = write(self)
        return found if self.signers else {key: value for key, value in found.items() if key != "signers"}

    @property
    def labels(self) -> Mapping[str, str]:
        """Those that all platforms share."""
        found = [platform.labels for _, platform in sorted(self.platforms.items())]
        if not found:
            return {}
        return {key: value for key, value in found[0].items() if all(m.get(key) == value for m in found)}

    def size(self, architecture: str = "") -> int:
        """Bytes of one architecture, or of the largest."""
        if architecture in self.platforms:
            return self.platforms[architecture].size
        return max((platform.size for platform in self.platforms.values()), default=0)
