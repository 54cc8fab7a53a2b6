"""What loops print: a line with the time."""

from __future__ import annotations

import time


def log_line(cluster: str, line: str) -> None:
    """One line of a loop's, with the time, and the cluster where there are several."""
    from bai.render.humanize import clean

    where = f"{cluster}: " if cluster else ""
    print(f"{time.strftime('%H:%M:%S')} {where}{clean(line)}", flush=True)
