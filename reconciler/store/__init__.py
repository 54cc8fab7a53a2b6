"""What was decided, remembered: tables, migrations, leases, journal, events. Read `store.py` for what it
offers."""

from reconciler.store.store import Store

__all__ = ["Store"]
