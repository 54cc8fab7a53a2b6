"""One repository and one cluster, opened: what the command talks to. Store and provider are opened when first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.actual import Actual, Desired
from reconciler.clock import Clock
from reconciler.plan import Plan

if TYPE_CHECKING:
    from providers.base import Provider
    from reconciler.apply import ApplyEvent, ApplyResult
    from reconciler.store import Store


class Workspace:
    """Use as a context manager, or call `close`.

    Raises InvalidRepository and CannotRead when opening; StoreError and ProviderError when these are first needed.
    """

    @classmethod
    def open(
        cls,
        directory: Path | str,
        *,
        revision: str | None = None,
        cluster: str | None = None,
        state: Path | None = None,
        clock: Clock | None = None,
    ) -> Workspace:
        """`revision` is any git revision; without it, the working directory's files count. `cluster` must be given when there are several."""
        raise NotImplementedError

    def desired(self) -> Desired:
        """What the documents say, for the chosen cluster."""
        raise NotImplementedError

    def actual(self, *, offline: bool = False) -> Actual:
        """What is recorded and runs; `offline` asks no provider and probes nothing."""
        raise NotImplementedError

    def plan(
        self,
        *,
        targets: Sequence[str] = (),
        offline: bool = False,
        refresh_only: bool = False,
        destroy: bool = False,
    ) -> Plan:
        """Raises GuardRefused when a protected resource would be deleted, PlanError for an unknown target."""
        raise NotImplementedError

    def apply(
        self,
        plan: Plan,
        *,
        holder: str,
        parallel: int = 8,
        on_event: Callable[[ApplyEvent], None] | None = None,
        stop: threading.Event | None = None,
    ) -> ApplyResult:
        """Carry out `plan`; raises StalePlan when it is another cluster's or the world moved, LeaseHeld, LeaseLost."""
        raise NotImplementedError

    def refresh(self, *, holder: str) -> Actual:
        """Observe, and write down what was seen: phases, results, hardware."""
        raise NotImplementedError

    def rebuild(self, *, holder: str) -> tuple[str, ...]:
        """Fill an empty or lost store from the labels of what runs; gives the identities recovered."""
        raise NotImplementedError

    @property
    def store(self) -> Store:
        raise NotImplementedError

    @property
    def provider(self) -> Provider:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError
