"""Where volumes of pods lie, when that is no folder of a node: an NFS export, or PersistentVolumeClaims."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from schemas.values.envelope import Model
from schemas.values.names import AbsolutePath, Address, NodeName
from schemas.values.quantities import Memory

AccessMode = Literal["ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "ReadWriteMany"]


class NfsExport(Model):
    """An export that the kubelets of a Kubernetes cluster mount."""

    server: Address
    """Its name or address, as the nodes know it."""
    path: AbsolutePath
    """On the server; nothing outside it is ever given to a session."""


class PersistentVolumeClaims(Model):
    """Claims of a Kubernetes cluster, one for each volume."""

    storage_class: NodeName | None = None
    """The cluster's default one when left out."""
    access_modes: Annotated[tuple[AccessMode, ...], Field(min_length=1)] = ("ReadWriteOnce",)
    """`ReadWriteOnce`: on one node at a time. `ReadWriteOncePod`: in one container. `ReadOnlyMany`,
    `ReadWriteMany`: on any number of nodes."""
    size: Annotated[Memory, Field(ge=1)] | None = None
    """Of volumes that say no `size`."""
