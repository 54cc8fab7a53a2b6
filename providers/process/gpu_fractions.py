"""What this provider can do about parts of GPUs (`providers.abilities`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from providers.gpu.enforcement import EnforcementFacts, NodeMeans, TrialPart
    from providers.process.gpu_share import GpuSharing
    from providers.process.host_capabilities import HostCapabilities
    from providers.process.supervision.records import KernelRoot


class GpuFractions:
    """Mixed into the provider, which has the root, what the machine can do, and the option `hami`."""

    root: KernelRoot
    _hami: str

    if TYPE_CHECKING:

        @property
        def host(self) -> HostCapabilities: ...

    @cached_property
    def _sharing(self) -> GpuSharing:
        from providers.process.gpu_share import GpuSharing

        return GpuSharing(self.root, hami=self._hami)

    def fractions(self, nodes: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """See `providers.abilities.ReportsFractions`; every node is this machine."""
        return {node: found.missing for node, found in self.fraction_means(nodes).items()}

    def fraction_means(self, nodes: Iterable[str]) -> Mapping[str, NodeMeans]:
        """See `providers.abilities.TriesFractions`."""
        return dict.fromkeys(nodes, self._sharing.means())

    def try_fraction(self, node: str, means: str, parts: Sequence[TrialPart]) -> EnforcementFacts:
        """See `providers.abilities.TriesFractions`."""
        return self._sharing.try_part(means, parts, sandboxed=self.host.sandbox)
