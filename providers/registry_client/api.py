"""What every way to speak with a registry has: who it speaks with, and a connection that is closed."""

from __future__ import annotations

from typing import Self

from providers.registry_client.access import RegistryAccess
from providers.registry_client.transport import Transport
from schemas.problems.errors.registry import RegistryError


class RegistryApi:
    """Every method raises RegistryError and its kinds, nothing else."""

    def __init__(self, access: RegistryAccess, transport: Transport | None = None) -> None:
        self.access = access
        self._transport = transport or Transport(access)

    def _error(self, why: str) -> RegistryError:
        return RegistryError(registry=self.access.address, why=why)

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
