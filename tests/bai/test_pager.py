"""Long output goes through a pager where a person sees it, and nowhere else."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bai.cli.pager import pager_command
from tests.bai.conftest import Repo

DGX = Path(__file__).parents[2] / "examples" / "clusters" / "dgx-h100"


@pytest.mark.parametrize(
    ("environment", "command"),
    [
        ({"PAGER": "sh -c 'cat -n'"}, ["sh", "-c", "cat -n"]),
        ({"BAI_PAGER": "sh", "PAGER": "true"}, ["sh"]),
        ({"BAI_PAGER": "", "PAGER": "sh"}, []),
        ({"BAI_PAGER": "cat"}, []),
        ({"BAI_PAGER": "no-such-program -x"}, []),
        ({"BAI_PAGER": "sh '"}, []),
        ({}, ["less"] if shutil.which("less") else []),
    ],
)
def test_which_pager(environment: Mapping[str, str], command: list[str]) -> None:
    assert pager_command(environment) == command


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    shutil.copytree(DGX, tmp_path / "dgx", ignore=shutil.ignore_patterns(".bai"))
    seen = tmp_path / "seen"
    return Repo(tmp_path / "dgx", {"BAI_PAGER": f"sh -c 'echo $LESS >{seen}; cat >>{seen}'", "TERM": "xterm"})


def on_terminal(repo: Repo, *words: str) -> str:
    """What reaches the terminal itself."""
    master, slave = pty.openpty()
    with ThreadPoolExecutor() as reading:
        shown = reading.submit(_all_of, master)
        try:
            said = repo.process(*words, stdout=slave)
        finally:
            os.close(slave)
    os.close(master)
    assert said.code == 0
    return shown.result().decode()


def _all_of(terminal: int) -> bytes:
    """What is written until nobody is left to write."""
    parts = []
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 1 << 16):
            parts.append(part)
    return b"".join(parts)


def test_a_plan_at_a_terminal_goes_through_the_pager(repo: Repo, tmp_path: Path) -> None:
    assert "bai plan: cluster dgx" not in on_terminal(repo, "plan", "--offline")
    seen = (tmp_path / "seen").read_text()
    assert "bai plan: cluster dgx" in seen and "\x1b[" in seen and seen.startswith("FRX\n")


@pytest.mark.parametrize("words", [("--no-pager",), ("--format", "json"), ("--format", "markdown")])
def test_no_pager_is_no_pager(repo: Repo, tmp_path: Path, words: tuple[str, ...]) -> None:
    assert "dgx" in on_terminal(repo, "plan", "--offline", *words)
    assert not (tmp_path / "seen").exists()


def test_a_file_gets_no_pager(repo: Repo, tmp_path: Path) -> None:
    assert "bai plan: cluster dgx" in repo.process("plan", "--offline").out
    assert not (tmp_path / "seen").exists()


def test_a_pager_that_reads_nothing_stops_nothing(repo: Repo) -> None:
    repo.env["BAI_PAGER"] = "true"
    assert "Saved." in on_terminal(repo, "plan", "--offline", "--details", "--out", str(repo.root / "p.json"))
