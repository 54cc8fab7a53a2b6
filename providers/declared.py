"""A provider for clusters that are only planned: nothing runs there, nothing can be made there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from providers.base import Capabilities, Fence, KernelSpec, Limit, Observation, Observed, unfenced
from providers.machines.base import Endpoint
from schemas.problems.errors.kernel import KernelNotFound, KernelRefused


class DeclaredProvider:
    """Observes nothing, completely. Its limits count as enforced, so that plans for it carry no warnings."""

    def capabilities(self) -> Capabilities:
        return Capabilities("declared", frozenset(Limit))

    def observe(self) -> Observation:
        return Observation(())

    def create(self, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        raise KernelRefused(
            provider="declared",
            kernel=spec.id,
            why="this cluster is only declared",
            hint="give the Cluster a real `provider` to run sessions on it",
        )

    def update(self, kernel_id: str, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        raise KernelNotFound(provider="declared", kernel=kernel_id)

    def stop(self, kernel_id: str, *, grace: float, signal: str = "") -> Observed:
        raise KernelNotFound(provider="declared", kernel=kernel_id)

    def remove(self, kernel_id: str) -> None:
        return None

    def logs(self, kernel_id: str, *, follow: bool = False, tail: int | None = None) -> Iterator[bytes]:
        raise KernelNotFound(provider="declared", kernel=kernel_id)

    def execute(
        self, kernel_id: str, argv: tuple[str, ...], *, stdin: IO[bytes] | None = None, tty: bool = False
    ) -> int:
        raise KernelNotFound(provider="declared", kernel=kernel_id)

    def close(self) -> None:
        """There are no connections."""


def open_declared(
    options: Mapping[str, object], *, state_root: Path | None = None, machines: Sequence[Endpoint] = ()
) -> DeclaredProvider:
    return DeclaredProvider()
