"""Every JSON format of the command has a version and a line in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSION = re.compile(r"\"(bai\.[a-z]+/v\d+)\"")


def test_every_format_is_documented() -> None:
    printed = {
        version
        for package in ("bai", "reconciler")
        for path in (ROOT / package).rglob("*.py")
        for version in VERSION.findall(path.read_text())
    }
    documented = set(re.findall(r"`(bai\.[a-z]+/v\d+)`", (ROOT / "docs" / "json.md").read_text()))
    assert len(printed) >= 10
    assert printed == documented
