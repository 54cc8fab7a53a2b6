"""Which tables this program knows."""

REVISION = "0015"
"""The newest migration; the program and a store agree when the store's `alembic_version` says the same."""
MOVED_KEY = "moved"
"""The entry of `meta` that says where the contents went."""
