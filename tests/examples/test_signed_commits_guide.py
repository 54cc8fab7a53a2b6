"""docs/signed-commits.md, word by word: every shell block of it, in a clean home, on this machine."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.examples.guide import Guide

PAGE = Path(__file__).parents[2] / "docs" / "signed-commits.md"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs ssh-keygen")
def test_the_way_to_signed_commits(guide: Guide) -> None:
    out = guide.follow(PAGE.read_text(encoding="utf-8"))
    assert out.count("exit code 1") == 2, out
    assert re.search(r"it is not signed; [0-9a-f]{12} stays in force", out)
    assert "(CODEOWNERS:2), and ada@cluster.example changed it" in out
