"""The section of the role `monitoring`: exporters of the node's and its GPUs' metrics."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from schemas.problems.issues import Issue
from schemas.profile.roles.field_types import Package, Version
from schemas.values.envelope import Flag, Model, Port
from schemas.values.names import AbsolutePath, Address, Text


class Exporter(Model):
    """One exporter of metrics, from a package."""

    version: Version
    """Of the package."""
    port: Port
    """It listens there."""
    listen: Address | None = None
    """On every address when left out."""
    package: Package | None = None
    """Its name, where it is not the usual one of the operating system."""
    unit: Text | None = None
    """Name of the package's service, where it is not the usual one."""
    binary: AbsolutePath | None = None
    """The program, where it is not at the usual place."""
    options: tuple[Text, ...] = ()
    """Further words of its command line."""


class Monitoring(Model):
    """Exporters of the node's and its GPUs' metrics."""

    node_exporter: Exporter | None = None
    """Prometheus' own exporter of the machine."""
    textfile: AbsolutePath = "/var/lib/bai/metrics"
    """Folder from which the node exporter takes files of metrics."""
    dcgm: Version | None = None
    """Of the data center GPU manager itself; needed by its exporter."""
    dcgm_package: Package = "datacenter-gpu-manager-4-core"
    """`datacenter-gpu-manager` before version 4."""
    dcgm_exporter: Exporter | None = None
    """NVIDIA's exporter of GPUs."""
    counters: tuple[Text, ...] = Field(default=(), max_length=500)
    """Further lines of its list of metrics: `DCGM_FI_…, gauge, what it is`."""
    profiling: Flag = False
    """Profiling metrics (tensor core activity, bandwidth) too."""

    def issues(self) -> Iterator[Issue]:
        """What cannot stand together."""
        if self.dcgm_exporter is not None and self.dcgm is None:
            words = "the exporter needs the data center GPU manager"
            hint = "give dcgm: <version of its package>"
            yield Issue(("dcgmExporter",), words, hint, "BAI-V021", key=True)
