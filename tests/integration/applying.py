"""The applier (`applier.py`) as its callers see it: apply this directory, and be killed after so long."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]


class Applier:
    """Of one directory of documents; `environment` is added to the test's own."""

    def __init__(self, directory: Path, **environment: str) -> None:
        everything = {**os.environ, "PYTHONPATH": str(TOP)}
        everything.pop("BAI_STATE", None)
        everything.update(environment)
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("applier.py")), str(directory)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=everything, cwd=directory, text=True,
        )  # fmt: skip

    def apply(self, after: float | None = None) -> dict[str, Any]:
        """What came of one apply, killed after so many seconds unless it ended before."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"after": after}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
