"""Registry and Image: where container images come from, and what an image needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import ConfigDict, model_validator

from schemas.kinds.parts.resources import Slots
from schemas.kinds.session import SessionPort
from schemas.problems.issues import Issue, issues_error
from schemas.values.envelope import Flag, Model, Resource, exactly_one_schema
from schemas.values.image_reference import Reference, RegistryAddress, RegistryPath
from schemas.values.names import LabelKey, LabelValue, Name, NodeName, SecretReference, Text, Vendor

Architecture = Literal["amd64", "arm64", "ppc64le", "riscv64", "s390x"]
PullPolicy = Literal["missing", "always", "never"]

MACHINES: Mapping[str, str] = {"amd64": "x86_64", "arm64": "aarch64"}
"""Architectures as images name them → as Linux does, where the names differ."""


class Credentials(Model):
    """Who logs in. The values are read only when a registry is talked to, and never kept."""

    model_config = ConfigDict(json_schema_extra=exactly_one_schema("username", "usernameFrom"))

    username: Text | None = None
    """A user or robot account, `robot$bai`."""
    username_from: SecretReference | None = None
    """Where its name is, if that is a secret too."""
    password_from: SecretReference
    """`STORE/ENTRY`, of a SecretStore for infrastructure."""

    @model_validator(mode="after")
    def _require_exactly_one(self) -> Credentials:
        if [self.username, self.username_from].count(None) != 1:
            raise issues_error([Issue((), "credentials have a username or a usernameFrom", code="BAI-V034")])
        return self


class RegistrySpec(Model):
    type: Literal["docker", "harbor"] = "docker"
    """`docker`: any registry of the OCI distribution API; `harbor`: Harbor 2, which lists its projects."""
    address: RegistryAddress
    """Host and port as images' names begin: `registry.example:5000`."""
    plain_http: Flag = False
    """No TLS: whoever is on the way can read and swap images. Engines must be told to allow it as well."""
    insecure: Flag = False
    """TLS, but whoever answers is believed."""
    ca_from: SecretReference | None = None
    """Certificates to trust instead of the system's, as PEM: `STORE/ENTRY`."""
    projects: tuple[RegistryPath, ...] = ()
    """Harbor: the projects that are listed; all that can be seen when left out."""
    serves: tuple[Text, ...] = ()
    """Which images it has, as patterns of names below the address such as `team/*`; all when left out."""
    credentials: Credentials | None = None


class Registry(Resource):
    """A place that images are pulled from."""

    singular = "registry"
    kind: Literal["Registry"]
    spec: RegistrySpec


class PrePull(Model):
    """The nodes that have the image before any session needs it: those that any of these names."""

    all: Flag = False
    """Every node of the cluster."""
    nodes: tuple[NodeName, ...] = ()
    resource_groups: tuple[Name, ...] = ()
    node_selector: Mapping[LabelKey, LabelValue] = {}
    """Nodes with all these labels."""


class ImageSpec(Model):
    registry: Name | None = None
    """The Registry it is in; `reference` then need not repeat the address."""
    reference: Reference
    """`team/pytorch:2.4`, or with a digest `…@sha256:…`."""
    pin: Literal["tag", "digest"] | None = None
    """`digest`: new containers run the very image that the tag meant when its registry was asked last;
    `tag`: what each node means by it. Left out: the digest where it is known and pullPolicy is `missing`."""
    pull_policy: PullPolicy = "missing"
    """When a node fetches it: if it has none (`missing`), before every start (`always`), or `never`."""
    architectures: tuple[Architecture, ...] = ()
    """Machines it runs on; as the registry says when left out."""
    accelerators: tuple[Vendor, ...] | None = None
    """Accelerators it can use: `cuda`, `rocm`; its labels when left out, and without these any."""
    ports: tuple[SessionPort, ...] = ()
    """Its apps; interactive and inference sessions that name no ports serve these."""
    minimum: Slots = Slots()
    """The least each container must have. A session that leaves cpu or memory out gets this much."""
    maximum: Slots = Slots()
    """The most a container may have."""
    labels: Mapping[Text, Text] | None = None
    """Labels as the image carries them; those of the registry when left out."""
    pre_pull: PrePull | None = None


class Image(Resource):
    """A container image that sessions name."""

    singular = "image"
    kind: Literal["Image"]
    spec: ImageSpec
