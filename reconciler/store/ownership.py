"""What a store remembers so that all who use it agree: whose kernels these are, which key sessions have."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from reconciler.secrets.session_keys import derive_seed
from reconciler.store.maintenance.files import create_store_folder

if TYPE_CHECKING:
    from reconciler.store.reader import StoreReader
    from reconciler.store.store import Store

_REPOSITORY, _KEY = "repo", "session-key"


def known_repository(store: StoreReader, cluster: str) -> str | None:
    """What marks the repository's kernels: of this cluster on a server, which serves many; of all in a
    file."""
    return store.meta(f"{_REPOSITORY}/{cluster}") or store.meta(_REPOSITORY)


def remember_repository(store: Store, cluster: str, repository: str) -> None:
    """Unless one is known."""
    if known_repository(store, cluster) is None:
        store.set_meta(f"{_REPOSITORY}/{cluster}" if store.address.on_server else _REPOSITORY, repository)


def session_key_seeds(store: Store) -> Callable[[str], str]:
    """What the key pairs of sessions follow from, for who writes to this store. Whoever shares a store on a
    server shares the key."""
    key = store.address.key_file
    if not store.address.on_server:
        return partial(derive_seed, key)
    # Where it cannot be made, the key is missing with a reason, should one be needed.
    with contextlib.suppress(OSError):
        create_store_folder(key)
    return partial(derive_seed, key, agree=lambda mark: store.set_meta_default(_KEY, mark))


def forget_session_key(store: Store) -> None:
    """The next key that is used is the right one."""
    store.forget_meta(_KEY)
