"""Signals as SSH names them: without `SIG` (RFC 4254, 6.10)."""

from __future__ import annotations

import signal


def signal_number(name: str) -> int:
    """Of `KILL`: 9; 0 for one that this system does not know (`KILL@openssh.com`)."""
    try:
        return signal.Signals[f"SIG{name.partition('@')[0]}"].value
    except KeyError:
        return 0
