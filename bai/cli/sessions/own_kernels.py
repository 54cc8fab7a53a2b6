"""The kernels of one repository in one cluster, as its provider sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from providers.base import Labels, Provider
    from schemas.kinds.cluster import Cluster


@dataclass(frozen=True, slots=True)
class OwnKernels:
    """Made by a command; read by who watches kernels for a while."""

    provider: Provider
    cluster: Cluster
    repo: str

    def labels(self) -> dict[str, Labels]:
        """Of each that is there now, by its id. Raises ProviderError."""
        return {
            kernel.id: kernel.labels
            for kernel in self.provider.observe().kernels
            if (kernel.labels.repo, kernel.labels.cluster) == (self.repo, self.cluster.name)
        }
