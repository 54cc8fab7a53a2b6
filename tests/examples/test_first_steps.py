"""The README and the quickstart, word by word, in a clean home, on this machine.

Left out is what sets things up: `make demo` is tried by test_quickstart.py and, on a bare machine, with the
quickstart as a whole, by test_bare_machine.py; what `pipx` or `uv` install, by tests/test_wheel.py;
`make demo-panel` runs what tests/bai/web/test_demo.py tries.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.examples.guide import Guide

ROOT = Path(__file__).parents[2]
SET_UP = ("make demo", "make demo-panel", "make test", "pipx install .", "uv tool install .")
LOOKED_UP = re.compile(r"^\| (`bai .*`) \| ", re.MULTILINE)


def looks(page: str) -> str:
    """A block of the commands that the page's table names."""
    named = [line for cells in LOOKED_UP.findall(page) for line in re.findall(r"`(bai [^`]+)`", cells)]
    assert len(named) > 6
    return "```sh\n" + "".join(f"echo LOOK: {line}\n{line} </dev/null\n" for line in named) + "```\n"


@pytest.mark.slow
def test_the_quickstart(guide: Guide) -> None:
    page = (ROOT / "docs/quickstart.md").read_text(encoding="utf-8")
    before, tidying = page.split("## Tidy up\n")
    out = guide.follow(f"{before}{looks(page)}{tidying}", SET_UP)
    assert "Traceback" not in out, out
    assert "hello from main1 on cores" in out
    changed, looked = out.split("LOOK: ", 1)
    assert "forces replacement" in changed and "Plan: 1 to replace." in changed
    assert "No changes" in changed[changed.index("Plan: 1 to replace.") :]
    assert "Session/demo/hello  RUNNING" in looked and "selects by concentrated" in looked
    assert guide.running() == []


@pytest.mark.slow
def test_the_readme(guide: Guide) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    tidy = "```sh\ncd ~/my-cluster && bai destroy\n```\n"
    out = guide.follow(page + tidy, SET_UP)
    assert "Traceback" not in out, out
    assert "Session/demo/hello: created" in out and "bai plan: cluster dgx" in out
    assert "Destroyed: " in out and guide.running() == []
