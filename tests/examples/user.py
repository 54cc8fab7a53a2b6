"""Somebody who has a copy of an example and types commands."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@dataclass(frozen=True)
class User:
    """Somebody in a copy of one example, who types commands."""

    folder: Path
    environment: dict[str, str]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(Path(sys.executable).parent / "bai"), *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def bai(self, *words: str, code: int = 0) -> str:
        done = self.run(*words)
        assert done.returncode == code, f"bai {' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def plan(self, *words: str) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(self.bai("plan", "--format", "json", *words))["plan"]
        return made
