"""The quickstart, word by word, on a machine with nothing but a distribution's git, make, python3-venv and
certificates, as an ordinary user: `make demo` first, which is the README's, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.guide import ANSWERS, script
from tests.lab.bare_machine import DEBIAN_12, UBUNTU_24_04, BareMachine
from tests.lab.cache import LabUnavailable

PAGE = Path(__file__).parents[2] / "docs/quickstart.md"
NOT_THERE = ("pipx install .", "uv tool install .")


@pytest.fixture(params=[DEBIAN_12, UBUNTU_24_04], ids=lambda each: each.name)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BareMachine]:
    try:
        made = BareMachine(request.param, tmp_path / "machine")
    except LabUnavailable as error:
        pytest.skip(f"{request.param.name}: {error}")
    yield made
    made.close()


@pytest.mark.campaign
@pytest.mark.root
@pytest.mark.xdist_group("bare-machines")  # Both have this machine's network, and the demo's port.
def test_the_quickstart_on_a_bare_machine(machine: BareMachine) -> None:
    code, out = machine.type(script(PAGE.read_text(encoding="utf-8"), NOT_THERE), ANSWERS)
    assert code == 0 and out.rstrip().endswith("=== all done"), out
    assert "every process has the cores of the plan" in out and "no control group is left" in out, out
    assert "greetings from main1" in out or "hello from main1" in out
    assert "Plan: 1 to replace." in out and "Destroyed: " in out
