"""The section of the role `control_plane`: bai's own service, its database and a registry."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from schemas.problems.issues import Issue
from schemas.profile.roles.field_types import Package, Version
from schemas.values.envelope import Flag, Model, Port
from schemas.values.names import AbsolutePath, Address, Cidr, LinuxUser, Name, SecretReference, Text
from schemas.values.quantities import Duration


class ApiService(Model):
    """The HTTP API of bai's own service, on the way to a proxy that ends TLS."""

    listen: Address = "127.0.0.1"
    """It answers there."""
    port: Port = 8080
    """It listens there."""


class BaiService(Model):
    """bai as a service."""

    version: Version
    """Of the Python package."""
    wheel: AbsolutePath | None = None
    """The package as a file on the node; from the profile's index of Python packages when left out."""
    repository: Text
    """Address of the git repository it follows."""
    branch: Text = "main"
    """The branch that counts."""
    cluster: Name | None = None
    """May be left out when the repository has exactly one."""
    interval: Duration = 60
    """Between two looks at the repository."""
    user: LinuxUser = "bai"
    """The Linux user it runs as; made where it is missing."""
    home: AbsolutePath = "/var/lib/bai/service"
    """Its working copy and its store."""
    known_hosts: tuple[Text, ...] = ()
    """Lines of known_hosts: hosts it may speak SSH with."""
    watchdog: Duration = Field(default=120, gt=0)
    """Restarted when it has not shown life for so long."""
    api: ApiService | None = None
    """`bai serve` instead of `bai reconcile`."""
    options: tuple[Text, ...] = ()
    """Further words of its command line."""


class Database(Model):
    """PostgreSQL."""

    version: Version
    """Major version, `15`, which the operating system or the profile's repositories have."""
    package_version: Version | None = None
    """Exact version of the server's package."""
    name: Name = "bai"
    """The database."""
    user: LinuxUser = "bai"
    """Its owner, who logs in with `databasePasswordFrom`, and from the node itself."""
    listen: tuple[Address, ...] = ("localhost",)
    """Addresses it is reached at."""
    port: Port = 5432
    """It listens there."""
    allow: tuple[Cidr, ...] = ()
    """Networks from which the owner may log in, with the password."""


class RegistryService(Model):
    """A registry of images."""

    version: Version
    """Of the package."""
    package: Package = "docker-registry"
    """On RHEL, `docker-distribution` from the profile's repositories."""
    listen: Address | None = None
    """On every address when left out."""
    port: Port = 5000
    """It listens there."""
    data: AbsolutePath = "/var/lib/bai/registry"
    """Where images lie."""
    certificate: AbsolutePath | None = None
    """TLS: certificate chain and key, files on the node."""
    key: AbsolutePath | None = None
    """Given together with the certificate."""
    delete: Flag = True
    """Whether images may be deleted."""

    def issues(self) -> Iterator[Issue]:
        """What cannot stand together."""
        if (self.certificate is None) != (self.key is None):
            yield Issue(("certificate",), "certificate and key belong together", "give both", "BAI-V034")


class ControlPlane(Model):
    """bai's own service, its database and a registry."""

    bai: BaiService | None = None
    """`bai reconcile` or `bai serve` as a service of systemd."""
    ssh_key_from: SecretReference | None = None
    """The private key with which it reaches repository and nodes."""
    access_from: SecretReference | None = None
    """The text of the API's access file; without it only the probes answer."""
    secret_stores_from: SecretReference | None = None
    """The text of the service's own file of secret stores; without it, none but those of its repository."""
    webhook_secret_from: SecretReference | None = None
    """With which forges sign their messages to the API."""
    postgresql: Database | None = None
    """The store's database server."""
    database_password_from: SecretReference | None = None
    """Of the database's owner; without it he logs in from the node itself only."""
    registry: RegistryService | None = None
    """A registry of images without a cloud behind it."""

    def issues(self) -> Iterator[Issue]:
        """What cannot stand together."""
        if self.bai is None or self.bai.api is None:
            for field, value in (
                ("accessFrom", self.access_from),
                ("webhookSecretFrom", self.webhook_secret_from),
            ):
                if value is not None:
                    yield Issue((field,), "there is no API that it is for", "give bai.api", "BAI-V034")
        if self.postgresql is not None and self.postgresql.allow and self.database_password_from is None:
            words = "networks are allowed to log in, and there is no password"
            hint = "give databasePasswordFrom: STORE/ENTRY"
            yield Issue(("postgresql", "allow"), words, hint, "BAI-V021")
