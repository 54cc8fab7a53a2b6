"""What the pages show of the command is what it prints now."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.harness.bai_process import Command, run_bai

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
EXCERPT = re.compile(r"```text\n\$ (bai (?:[^\n]*\\\n)*[^\n]*)\n(.*?)```", re.DOTALL)
"""A command, perhaps over several lines, and what it prints."""
SHOWN = [
    (page.name, command, text) for page in PAGES for command, text in EXCERPT.findall(page.read_text("utf-8"))
]
TWO_CORES = "  hardware: {numaNodes: [{id: 0, cpus: 0-1, memory: 23.5GiB}]}\n"
README = re.compile(r"```text\n\$ bai plan --out plan\.json\n(.*?)\n\$ bai apply", re.DOTALL)


def bai(command: list[str], folder: Path, home: Path) -> list[str]:
    """Lines of its output; run as somebody with nothing set."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "BAI_PROCESS_ROOT": str(home / "kernels")}
    done = run_bai(Command(command, env, folder), timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.rstrip() for line in done.stdout.splitlines()]


def missing(shown: str, printed: list[str]) -> list[str]:
    """Lines of an excerpt, `...` left out, that are not printed in this order."""
    rest = iter(printed)
    wanted = [line.rstrip() for line in shown.splitlines() if line.strip() not in ("", "...")]
    return [line for line in wanted if line not in rest]


def test_there_are_excerpts() -> None:
    assert SHOWN


@pytest.mark.parametrize(("page", "command", "text"), SHOWN, ids=lambda value: str(value)[:40])
def test_an_excerpt_of_a_page_is_what_is_printed(page: str, command: str, text: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns(".bai"))
    assert missing(text, bai(shlex.split(command.replace("\\\n", ""))[1:], tmp_path, tmp_path)) == [], page


def test_the_plan_in_the_readme_is_that_of_the_quickstart(tmp_path: Path) -> None:
    """On a machine of two cores, which is declared here. What the documents' digest is does not matter."""
    shutil.copytree(ROOT / "examples/quickstart", tmp_path / "q", ignore=shutil.ignore_patterns(".bai"))
    cluster = tmp_path / "q/cluster.yaml"
    text = cluster.read_text("utf-8")
    assert "  address: localhost\n" in text
    cluster.write_text(text.replace("  address: localhost\n", "  address: localhost\n" + TWO_CORES))
    found = README.search((ROOT / "README.md").read_text("utf-8"))
    assert found is not None
    printed = bai(["plan", "--offline"], tmp_path / "q", tmp_path)
    assert missing(digestless(found[1]), digestless("\n".join(printed)).splitlines()) == []


def digestless(text: str) -> str:
    return re.sub(r"working files \w+", "working files DIGEST", text)
