"""`python -m benchmarks.services` on little of everything: a service that is asked, updated and scaled by the
real server and the real Caddy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.planner.test_benchmarks import run


@pytest.mark.slow
def test_services(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    few = ("--seconds", "1", "--rounds", "1", "--connections", "2", "--updates", "1", "--scaled", "1")
    run("benchmarks.services", *few, "--json", str(out))
    result = json.loads(out.read_text())
    assert {name: each["rate"] > 0 for name, each in result["ways"].items()} == {
        "one replica directly": True, "Caddy configured by hand": True, "bai serve": True,
    }  # fmt: skip
    assert result["requests"] > 0 and result["failed"] == 0
    assert all(each["median"] > 0 for each in result["times"].values()) and len(result["times"]) == 5
    assert "failed requests: 0" in capsys.readouterr().out
