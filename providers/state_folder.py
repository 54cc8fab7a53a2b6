"""Where bai keeps what is a user's own and no repository's."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """`$XDG_STATE_HOME/bai`, by default `~/.local/state/bai`; it may not be there yet. A relative
    `XDG_STATE_HOME` counts for nothing, as the XDG Base Directory Specification has it."""
    chosen = os.environ.get("XDG_STATE_HOME", "")
    return Path(chosen if os.path.isabs(chosen) else os.path.expanduser("~/.local/state")) / "bai"
