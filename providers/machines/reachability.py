"""Whether nodes can be reached, and have what bai uses there."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schemas.problems.errors.base import BaiError

if TYPE_CHECKING:
    from providers.machines.base import Endpoint

AT_ONCE = 32
NEEDED = ("python3", "timeout")
"""Programs without which a node cannot be probed, and commands there have no time limit."""
_ASK = 'id -un; for name in "$@"; do command -v "$name" >/dev/null || echo "$name"; done'


@dataclass(frozen=True, slots=True)
class Reachability:
    """What came of trying. `problem` is empty for a node that can be used."""

    node: str
    address: str
    local: bool = False
    seconds: float = 0.0
    """For the login and one command."""
    user: str = ""
    """Who one is there."""
    problem: str = ""
    hint: str = ""


def check_nodes(endpoints: Iterable[Endpoint]) -> tuple[Reachability, ...]:
    """All at the same time, in their order. Never raises."""
    wanted = tuple(endpoints)
    if not wanted:
        return ()
    with ThreadPoolExecutor(min(AT_ONCE, len(wanted)), "reach") as pool:
        return tuple(pool.map(check_node, wanted))


def check_node(endpoint: Endpoint) -> Reachability:
    """Log in and run one command."""
    from providers.machines.connections import connect

    started = time.monotonic()
    try:
        done = connect(endpoint).run(["sh", "-c", _ASK, "sh", *NEEDED])
    except BaiError as error:
        return Reachability(
            endpoint.name, endpoint.address, endpoint.local, problem=error.message, hint=error.hint
        )
    seconds = time.monotonic() - started
    user, *missing = done.out.decode(errors="replace").split() or [""]
    if done.code == 127:  # what puts a limit on commands is not there itself
        missing = ["timeout"]
    problem = hint = ""
    if missing:
        problem, hint = f"{' and '.join(missing)} missing there", f"install {' and '.join(missing)} on it"
    elif done.code or not user:
        problem = f"commands do not work there: {done.err.decode(errors='replace').strip()[:200]}"
    return Reachability(endpoint.name, endpoint.address, endpoint.local, seconds, user, problem, hint)
