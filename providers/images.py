"""What providers can do that keep images on their nodes: asked for with `isinstance`, as `abilities.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from schemas.images.facts import ImagePlatform


@dataclass(frozen=True, slots=True)
class PullRequest:
    """One image for one node."""

    node: str
    image: str
    """A reference, with a tag or a digest."""
    policy: Literal["missing", "always"] = "missing"
    auth: str = field(default="", repr=False)
    """Credentials as engines want them in the header `X-Registry-Auth`; sent with the request, never kept."""


@dataclass(frozen=True, slots=True)
class PullProgress:
    """How far a pull has come. Totals grow as the engine learns about layers."""

    node: str
    image: str
    layers_done: int = 0
    layers: int = 0
    bytes_done: int = 0
    bytes: int = 0
    """Of the layers whose size is known; compressed, as they are transferred."""
    over: bool = False


@dataclass(frozen=True, slots=True)
class NodeImage:
    """An image that a node has."""

    names: tuple[str, ...]
    """Full references with tags."""
    digests: tuple[str, ...]
    """Full references with digests, of the registries it came from or went to."""
    size: int
    """Bytes on disk, unpacked."""


OnPullProgress = Callable[[PullProgress], None]


@runtime_checkable
class PullsImages(Protocol):
    """Methods raise ProviderError and RegistryError kinds."""

    def pull(self, request: PullRequest, tell: OnPullProgress) -> bool:
        """Bring the image to the node; False when nothing had to be done. Several calls for the same image
        and node transfer it once."""
        ...

    def images(self, nodes: frozenset[str]) -> tuple[Mapping[str, tuple[NodeImage, ...]], Mapping[str, str]]:
        """What these nodes have, one call per node, and for those that could not be asked, why."""
        ...

    def image_facts(self, node: str, image: str) -> tuple[str, ImagePlatform, str] | None:
        """Architecture, what is known of its image there, and the digest it was pulled by (empty for an image
        that was made on the node); None when the node does not have it."""
        ...
