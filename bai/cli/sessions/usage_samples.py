"""Samples of what this repository's kernels use, one after another."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bai.cli.sessions.own_kernels import OwnKernels
    from bai.render.analysis.top_rows import UsageRow
    from providers.abilities import Usage
    from providers.base import Labels


class UsageMeter:
    """Measures again and again; rates are between one sample and the next. Raises NotAble, ProviderError."""

    def __init__(self, kernels: OwnKernels, session: str | None) -> None:
        from providers.required_abilities import require_usage

        self._provider = require_usage(kernels.provider, kernels.cluster)
        self._kernels = kernels
        self._session = session
        self._before: Mapping[str, Usage] = {}

    def sample(self) -> list[UsageRow]:
        """What is used now, with rates since the sample before."""
        from bai.render.analysis.top_rows import usage_rows

        labels = self._labels()
        after = {use.kernel: use for use in self._provider.usage() if use.kernel in labels}
        found = usage_rows(self._before, after, labels)
        self._before = after
        return found

    def every(self, seconds: float) -> Iterator[list[UsageRow]]:
        """Samples with rates, `seconds` apart; for ever."""
        self.sample()
        while True:
            time.sleep(seconds)
            yield self.sample()

    def _labels(self) -> dict[str, Labels]:
        """Of the kernels that are this repository's, or one session's."""
        found = self._kernels.labels()
        return {id: labels for id, labels in found.items() if self._session in (None, labels.resource)}
