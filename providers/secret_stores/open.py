"""Declared stores → what reads them."""

from __future__ import annotations

from typing import cast

from providers.secret_stores.base import Backend, SecretUnreadable
from schemas.kinds.secret_store import PluginStore
from schemas.plugins.entry_points import SECRET_STORES, entry_point_names, load_entry_points
from schemas.repository.declared_stores import DeclaredStore


def open_backend(declared: DeclaredStore) -> Backend:
    """Raises SecretUnreadable, and whatever a plugin raises."""
    spec = declared.store.spec
    if spec.directory is not None:
        from providers.secret_stores.directory import DirectoryBackend

        return DirectoryBackend(spec.directory.path)
    if spec.environment is not None:
        from providers.secret_stores.environment import EnvironmentBackend

        return EnvironmentBackend()
    if spec.sops is not None:
        from providers.secret_stores.sops import SopsBackend

        if declared.sealed is None:
            raise SecretUnreadable(declared.why)
        return SopsBackend(declared.sealed, spec.sops.key_file or "")
    assert spec.plugin is not None
    return _plugin(spec.plugin)


def _plugin(plugin: PluginStore) -> Backend:
    found = load_entry_points(SECRET_STORES, [plugin.name])
    if not found:
        known = ", ".join(entry_point_names(SECRET_STORES)) or "none"
        raise SecretUnreadable(
            f"there is no plugin '{plugin.name}' of {SECRET_STORES}; installed are: {known}"
        )
    return cast(Backend, found[plugin.name](dict(plugin.options)))
