"""Values of secrets that documents name: who may have which is judged again here, then the store is asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import RLock

from providers.secret_stores.base import Backend, SecretUnreadable, decode_secret
from providers.secret_stores.open import open_backend
from schemas.problems.errors.plan import SecretMissing
from schemas.repository.declared_stores import NO_STORES, DeclaredStores

CACHE_SECONDS = 60.0
"""Seconds after which a secret with which nodes, registries and others are reached is read again."""
FOREVER = float("inf")


class SecretReader:
    """Reads each entry once, and again when it is older than `keep` seconds. May be used by several threads.

    All methods raise SecretMissing, whose message names the reference and never a value.
    """

    def __init__(
        self,
        stores: DeclaredStores,
        *,
        keep: float = CACHE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stores, self._keep, self._clock = stores, keep, clock
        self._lock = RLock()
        self._begun = clock()
        self._backends: dict[str, Backend] = {}
        self._values: dict[str, str] = {}

    def for_project(self, project: str, reference: str) -> str:
        """The value for a session of a project."""
        return self._value(reference, project)

    def for_infrastructure(self, reference: str) -> str:
        """The value for a registry, a notification, a profile or a way to a node."""
        return self._value(reference, None)

    def for_one_apply(self) -> SecretReader:
        """Another one of the same stores, which keeps what it reads: for one apply."""
        return SecretReader(self._stores, keep=FOREVER)

    def use_stores(self, stores: DeclaredStores) -> None:
        """Go by other declarations from here on."""
        with self._lock:
            if stores != self._stores:
                self._stores = stores
                self._clear_cache()

    def _clear_cache(self) -> None:
        self._begun = self._clock()
        self._backends, self._values = {}, {}

    def _value(self, reference: str, project: str | None) -> str:
        with self._lock:
            refusal = self._stores.refusal(reference, project)
            if refusal is not None:
                raise SecretMissing(reference=reference, why=refusal.why, hint=refusal.hint)
            if self._clock() - self._begun > self._keep:
                self._clear_cache()
            if reference not in self._values:
                self._values[reference] = self._read(reference)
            return self._values[reference]

    def _read(self, reference: str) -> str:
        name, _, entry = reference.partition("/")
        try:
            if name not in self._backends:
                self._backends[name] = open_backend(self._stores.stores[name])
            return _validate_text(self._backends[name].read(entry))
        except SecretUnreadable as error:
            raise SecretMissing(reference=reference, why=str(error)) from None
        except Exception as error:  # A plugin's; its text may hold what it is about.
            raise SecretMissing(
                reference=reference, why=f"the store failed: {type(error).__name__}"
            ) from None


def _validate_text(value: object) -> str:
    """What a plugin gives is held to what every store is. Raises Unreadable."""
    if not isinstance(value, str):
        raise SecretUnreadable("the store gave no text")
    try:
        return decode_secret(value.encode())
    except UnicodeEncodeError:
        raise SecretUnreadable("it is not UTF-8 text") from None


NO_SECRETS = SecretReader(NO_STORES)
"""Of no store."""
