"""Examples as a user has them: a copy of the folder, the command, and a machine-level root of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.guide import Guide
from tests.examples.user import EXAMPLES, User

OWNERS = EXAMPLES / "sessions" / "secret-stores.yaml"
"""What the owner of this machine declares, outside of the repository."""


@pytest.fixture
def guide(tmp_path: Path) -> Iterator[Guide]:
    made = Guide(tmp_path)
    yield made
    made.close()


@pytest.fixture
def user(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[User]:
    """`@pytest.mark.parametrize("user", ["clusters/mixed"], indirect=True)`: all is destroyed after."""
    folder = tmp_path / "repository"
    shutil.copytree(EXAMPLES / request.param, folder)
    chosen = {
        "BAI_PROCESS_ROOT": str(tmp_path / "machine"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "NO_COLOR": "1",
        "COLUMNS": "160",
    }
    if request.param == "sessions/here":
        chosen |= {"BAI_SECRET_STORES": str(OWNERS), "EXAMPLE_TOKEN": "swordfish"}
    hidden = ("BAI_", "COV_")
    somebody = User(folder, {k: v for k, v in os.environ.items() if not k.startswith(hidden)} | chosen)
    yield somebody
    if (tmp_path / "machine").exists():
        unprotect(folder)
        somebody.run("apply", "--yes")
        somebody.bai("destroy", "--yes")


def unprotect(folder: Path) -> None:
    """Without the annotation that guards a session, the next apply lets it go."""
    for path in folder.rglob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(', annotations: {bai/protect: "true"}', ""), encoding="utf-8")
