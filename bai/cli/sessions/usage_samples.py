"""Samples of what kernels use, one after another."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from bai.cli.sessions.own_kernels import OwnKernels
    from bai.remote.cluster import RemoteCluster
    from bai.render.analysis.top_rows import UsageRow
    from providers.abilities import Usage
    from providers.base import Labels

    Measured = tuple[Mapping[str, Labels], Mapping[str, Usage]]
    """Kernel → whose it is, and what it has used by now."""


class UsageSource(Protocol):
    """Where use is measured. Raises NotAble, ProviderError, ServerError."""

    def measure(self) -> Measured: ...


class OwnUsage:
    """By the provider of the repository here."""

    def __init__(self, kernels: OwnKernels) -> None:
        from providers.required_abilities import require_usage

        self._provider, self._kernels = require_usage(kernels.provider, kernels.cluster), kernels

    def measure(self) -> Measured:
        return self._kernels.labels(), {use.kernel: use for use in self._provider.usage()}


class RemoteUsage:
    """By a server, which has its nodes asked for everybody at once."""

    def __init__(self, cluster: RemoteCluster) -> None:
        self._cluster = cluster

    def measure(self) -> Measured:
        from bai.queries.facts.kernel_usage import labels_of, usage_of

        facts = self._cluster.usage().kernels
        return {each.id: labels_of(each) for each in facts}, {each.id: usage_of(each) for each in facts}


class UsageMeter:
    """Measures again and again, all kernels or one session's; rates are between one sample and the next."""

    def __init__(self, source: UsageSource, session: str | None) -> None:
        self._source, self._session = source, session
        self._before: Mapping[str, Usage] = {}

    def sample(self) -> list[UsageRow]:
        """What is used now, with rates since the sample before."""
        from bai.render.analysis.top_rows import usage_rows

        names, measured = self._source.measure()
        labels = {id: each for id, each in names.items() if self._session in (None, each.resource)}
        found = usage_rows(self._before, measured, labels)
        self._before = measured
        return found

    def every(self, seconds: float) -> Iterator[list[UsageRow]]:
        """Samples with rates, `seconds` apart; for ever."""
        self.sample()
        while True:
            time.sleep(seconds)
            yield self.sample()
