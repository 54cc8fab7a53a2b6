"""Somebody who has a copy of an example and types commands."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.bai_process import Command, run_bai

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@dataclass(frozen=True)
class User:
    """Somebody in a copy of one example, who types commands."""

    folder: Path
    environment: dict[str, str]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_bai(Command(words, self.environment, self.folder), timeout=300)

    def bai(self, *words: str, code: int = 0) -> str:
        done = self.run(*words)
        assert done.returncode == code, f"bai {' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def plan(self, *words: str) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(self.bai("plan", "--format", "json", *words))["plan"]
        return made
