"""The real `sops`, with age keys of its own.

    def test_something(sops: Sops) -> None:
        sops.encrypt(folder / "secrets.yaml", {"token": "value"})

Debian has no package of it: `scripts/sops.sh` builds it, and tests that ask for it are skipped by name until
that was done.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.lab.cache import folder


class Sops:
    """Programs in `bin`; `keys` is a file of age identities, `recipient` who that is."""

    def __init__(self, work: Path) -> None:
        found = sorted(folder().glob("sops-*/sops"))
        if not found:
            pytest.skip("sops is not built: scripts/sops.sh does that")
        self.bin = found[-1].parent
        self.work = work
        self.keys, self.recipient = self.identity("keys.txt")

    @property
    def environment(self) -> dict[str, str]:
        """With which bai finds the program and the key."""
        return {"PATH": f"{self.bin}:{os.environ['PATH']}", "SOPS_AGE_KEY_FILE": str(self.keys)}

    def identity(self, name: str) -> tuple[Path, str]:
        """Another key: its file, and its recipient."""
        path = self.work / name
        subprocess.run([self.bin / "age-keygen", "-o", path], check=True, capture_output=True)
        line = next(line for line in path.read_text().splitlines() if "public key" in line)
        return path, line.rpartition(" ")[2]

    def encrypt(self, path: Path, values: Mapping[str, Any], *options: str, recipient: str = "") -> None:
        """Write what `sops encrypt` makes of these values, in the form that the path's suffix says."""
        kind = "json" if path.suffix == ".json" else "yaml"
        words = [
            self.bin / "sops", "encrypt", "--age", recipient or self.recipient, "--input-type", "json",
            "--output-type", kind, *options, "/dev/stdin",
        ]  # fmt: skip
        done = subprocess.run(
            words, input=json.dumps(values).encode(), capture_output=True, check=True, cwd=self.work
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(done.stdout)


@pytest.fixture
def sops(tmp_path_factory: pytest.TempPathFactory) -> Sops:
    return Sops(tmp_path_factory.mktemp("sops"))
