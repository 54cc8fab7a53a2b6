"""A warm process that applies a directory in children of its own, and kills them when told: `python
applier.py <directory>`.

One request a line, `{"after": seconds or null}`: fork, plan and apply, SIGKILL after so many seconds unless
it ended before. One answer a line: `{"seconds": ..., "killed": ..., "error": ..., "changes": ...}`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import Any

import alembic.command
import alembic.config

import planner.place
import providers.process.interaction.execute
import reconciler.apply.apply
import reconciler.observe.endpoints
import reconciler.observe.refresh
import reconciler.plan.pipeline
import reconciler.store
import reconciler.workspace.placement_policies
from reconciler.workspace.workspace import Workspace

WARM = (
    alembic.command, alembic.config, planner.place, providers.process.interaction.execute,
    reconciler.apply.apply, reconciler.plan.pipeline, reconciler.observe.endpoints,
    reconciler.observe.refresh, reconciler.workspace.placement_policies, reconciler.store,
)  # fmt: skip
"""Imported before the fork, so that what is killed is the work and not its imports."""


def main() -> None:
    directory = sys.argv[1]
    for line in sys.stdin:
        print(json.dumps(serve(directory, json.loads(line)["after"])), flush=True)


def serve(directory: str, after: float | None) -> dict[str, Any]:
    reader, writer = os.pipe()
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(reader)
        run(directory, writer)
    os.close(writer)
    # The end of the pipe comes with the child's death: whatever it started does not have it.
    select.select([reader], [], [], after)
    if after is not None and time.monotonic() - begun >= after:
        os.kill(child, signal.SIGKILL)
    answer = b"".join(iter(lambda: os.read(reader, 65536), b""))
    os.close(reader)
    _, status = os.waitpid(child, 0)
    told: dict[str, Any] = json.loads(answer) if answer.endswith(b"\n") else {}
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return {"error": "", "changes": 0} | told | {"seconds": time.monotonic() - begun, "killed": killed}


def run(directory: str, writer: int) -> None:
    """In the child: never returns."""
    try:
        with Workspace.open(directory) as workspace:
            plan = workspace.plan()
            result = workspace.apply(plan, holder="the test")
        failed = [f"{each.action}: {each.error}" for each in result.results if each.outcome != "done"]
        answer = {"error": "; ".join(failed), "changes": len(plan.changes)}
    except BaseException as error:
        answer = {"error": f"{type(error).__name__}: {error}", "changes": 0}
    os.write(writer, (json.dumps(answer) + "\n").encode())
    os._exit(0)


if __name__ == "__main__":
    main()
