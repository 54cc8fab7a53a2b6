"""docs/signed-commits.md, word by word: every shell block of it, in a clean home, on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.test_tutorial import script

PAGE = Path(__file__).parents[2] / "docs" / "signed-commits.md"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs ssh-keygen")
def test_the_way_to_signed_commits(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@cluster.example\n")
    environment = {
        "HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_COLOR": "1",
        "BAI_PROCESS_ROOT": str(tmp_path / "machine"), "LANG": "C.UTF-8", "COLUMNS": "200",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-c", script(PAGE.read_text(encoding="utf-8"))], cwd=home, env=environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.rstrip().endswith("=== all done"), done.stdout
    assert done.stdout.count("exit code 1") == 2, done.stdout
    assert re.search(r"it is not signed; [0-9a-f]{12} stays in force", done.stdout)
    assert "(CODEOWNERS:2), and ada@cluster.example changed it" in done.stdout
