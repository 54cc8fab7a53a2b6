"""The section of the role `repositories`: where packages come from, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from schemas.problems.issues import Issue
from schemas.profile.roles.field_types import Uri
from schemas.values.envelope import Flag, Integer, Model
from schemas.values.image_reference import RegistryAddress
from schemas.values.names import AbsolutePath, Name, Text


class AptSource(Model):
    """One source of Debian packages."""

    name: Name
    """Of the file under /etc/apt/sources.list.d."""
    uri: Uri
    """Where it is: `https://mirror.example/ubuntu`, or `file:///srv/mirror` on the node itself."""
    suites: tuple[Text, ...] = Field(min_length=1)
    """`bookworm`, `noble-updates`; `./` for a flat one."""
    components: tuple[Text, ...] = ()
    """`main`, `universe`; none for a flat one."""
    architectures: tuple[Text, ...] = ()
    """`amd64`, `arm64`; the node's own when left out."""
    key: Text | None = None
    """The key it is signed with, ASCII-armoured, in full."""
    keyring: AbsolutePath | None = None
    """The key as a file that the node already has, in place of `key`:
    /usr/share/keyrings/debian-archive-keyring.gpg."""
    trusted: Flag = False
    """Believed without a signature: for a mirror that is a folder of the node itself."""
    snapshot: Flag = False
    """A frozen copy: that its index is out of date is no error."""
    priority: Integer | None = None
    """Of its packages against other sources', as apt_preferences(5) counts; 500 when left out."""

    def issues(self) -> Iterator[Issue]:
        """What cannot stand together."""
        if not self.components and not all(suite.endswith("/") for suite in self.suites):
            hint = "give components: [main], or suites: [./] for a flat one"
            message = "a source without components is flat: its suites end in /"
            yield Issue(("suites",), message, hint, "BAI-V034")


class YumSource(Model):
    """One source of RPM packages."""

    name: Name
    """Of the file under /etc/yum.repos.d."""
    baseurl: Uri
    """Where it is."""
    gpg_key: Text | None = None
    """The key it is signed with, ASCII-armoured, in full."""
    gpg_check: Flag = True
    """Whether packages without a good signature are refused."""
    module_hotfixes: Flag = False
    """Its packages are taken even where a module stream would hide them."""
    priority: Integer | None = None
    """The lower wins; 99 when left out."""


class Repositories(Model):
    """Where a node's packages come from; left out, the node's own sources stay as they are."""

    apt: tuple[AptSource, ...] = ()
    """On Debian and Ubuntu."""
    yum: tuple[YumSource, ...] = ()
    """On RHEL and its rebuilds."""
    only: Flag = True
    """The node's other sources are put aside (`….bai.disabled`), so that nothing else is ever reached;
    `false` brings them back."""
    proxy: Uri | None = None
    """HTTP proxy through which packages are fetched."""
    pypi: Uri | None = None
    """Index of Python packages; pip on the node asks no other."""
    registry: RegistryAddress | None = None
    """Registry of images that the roles' own containers come from."""
