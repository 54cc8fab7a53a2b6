"""The way to GitOps, word by word: every shell block of docs/gitops.md, in a clean home, on this machine.

Only what cannot be the same for everybody is put in: free ports, and a database of the tests' own server.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.examples.guide import Guide
from tests.harness.ports import free_port
from tests.lab.postgres import Server

PAGE = Path(__file__).parents[2] / "docs" / "gitops.md"
DATABASE = "postgresql://bai@db.example.com/bai"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("curl") or not shutil.which("openssl"), reason="needs curl and openssl")
def test_the_way_to_gitops(guide: Guide, postgres: Server) -> None:
    text = PAGE.read_text(encoding="utf-8").replace(DATABASE, f"'{postgres.database()}'")
    for port in ("8080", "8081"):
        text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}")
    out = guide.follow(text)
    assert "Traceback" not in out + "".join(path.read_text() for path in guide.home.glob("*.log"))
    assert "been here" in out and "hello from" in out
    assert "held there (the second one was a mistake)" in out
    assert guide.running() == []
