"""Backend.AI's manager as the peer of `benchmarks.throughput`: its FIFO scheduler, called in process.

    PEER_PYTHON benchmarks/peers/backendai.py < workload.json > result.json

Runs in an environment of its own with `backend.ai-manager` in it, and imports nothing else of this repository
than the modules beside it. The workload: `nodes`, `node` (slots of one node), `sessions` (slots of each
kernel of each session) and `selection` (`concentrated` or `dispersed`).

Two versions of its scheduler are known: 23.09 (`backendai_rows`, Python 3.11) and 26.9 (`backendai_trackers`,
Python 3.13). What surrounds the scheduler is left out, in the peer's favour: database, validation of quotas,
records, events, launching, and the sum of all agents' slots that 23.09 makes before each decision. A session
that fits nowhere is passed over, so that every pending session is tried once, as by the planner.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from importlib.metadata import version

FIRST_WITH_TRACKERS = 26
"""Major version."""


def main() -> None:
    installed = version("backend.ai-manager")
    trackers = int(installed.split(".")[0]) >= FIRST_WITH_TRACKERS
    workload = json.load(sys.stdin)
    manager = import_module("backendai_trackers" if trackers else "backendai_rows").Manager(workload)
    start = time.process_time()
    placed = manager.decide_all()
    cpu = time.process_time() - start
    decisions = len(workload["sessions"])
    result = {
        "name": "Backend.AI",
        "version": installed,
        "selection": workload["selection"],
        "decision_ms": 1000 * cpu / decisions,
        "placed": placed,
        "waiting": decisions - placed,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
