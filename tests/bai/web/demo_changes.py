"""What tests change in a process that shows the demo (`Command.first` of `tests/harness/bai_process.py`)."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def live_an_hour() -> None:
    """Instead of ten."""
    from bai.web.demo import demo_cluster

    demo_cluster.PAST = 3600.0


def live_without_end() -> None:
    """Whoever ends it does so before it is shown, however late."""
    from bai.web.demo import demo_cluster

    demo_cluster.PAST = 1e12


def signal_before_git() -> None:
    """Each git that writes is told of, once it has."""
    from bai.web.demo import demo_repository

    write = demo_repository._git

    def write_after_a_signal(*words: str, folder: Path | None = None, given: str = "") -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        write(*words, folder=folder, given=given)
        print("git has written", flush=True)

    demo_repository._git = write_after_a_signal
