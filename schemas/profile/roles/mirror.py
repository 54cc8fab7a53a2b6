"""The section of the role `mirror`: the reservoir of packages and images that other nodes are served from."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from schemas.problems.issues import Issue
from schemas.profile.roles.field_types import Package, Uri, Version
from schemas.values.envelope import Flag, Model, Port
from schemas.values.names import AbsolutePath, Name, Text


class AptMirror(Model):
    """A source of Debian packages that the mirror serves."""

    name: Name
    """Served at `/apt/<name>`."""
    distribution: Text
    """Under which it is published: `bookworm`."""
    components: tuple[Text, ...] = ("main",)
    """A folder gives its packages to the first one."""
    architectures: tuple[Text, ...] = ("amd64",)
    """`amd64`, `arm64`."""
    folder: AbsolutePath | None = None
    """A folder of .deb files on the node, the reservoir carried in; every version of a package is kept."""
    uri: Uri | None = None
    """In place of `folder`: a source that is copied."""
    keyring: AbsolutePath | None = None
    """File on the node with the key that `uri` is signed with; without it, it is believed unsigned."""
    filter: Text | None = None
    """Which packages of `uri` are copied, in aptly's words: `nginx | Name (~ ^nvidia-.*)`."""

    def issues(self) -> Iterator[Issue]:
        """What cannot stand together."""
        if (self.folder is None) == (self.uri is None):
            words = "a mirrored source is either a folder of packages or a copied source"
            yield Issue(("folder",), words, "give folder or uri", "BAI-V034")


class ImageMirror(Model):
    """A registry that the mirror serves."""

    version: Version
    """Of the package docker-registry."""
    package: Package = "docker-registry"
    """On RHEL, `docker-distribution` from the profile's repositories."""
    port: Port = 5001
    """It listens there."""
    upstream: Uri | None = None
    """A registry whose images are kept on the first pull; left out, images are pushed."""


class Mirror(Model):
    """The reservoir of packages and images that other nodes are served from."""

    root: AbsolutePath = "/srv/mirror"
    """Where everything lies."""
    port: Port = 8080
    """Packages are served there over HTTP."""
    apt: tuple[AptMirror, ...] = ()
    """Sources of Debian packages."""
    signed: Flag = True
    """With a key that is made on the node and never leaves it; the public half is served at `/key.asc`."""
    pypi_folder: AbsolutePath | None = None
    """A folder of wheels and source archives on the node, served at `/pypi/simple`."""
    pypi: tuple[Text, ...] = Field(default=(), max_length=2000)
    """Python packages that are fetched into it from the profile's index, `name==version`."""
    registry: ImageMirror | None = None
    """Images."""
