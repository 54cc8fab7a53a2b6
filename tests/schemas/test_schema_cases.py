"""Each folder of `tests/cases/schemas/` holds a repository and what is said of it; BAI_RECORD=1 records."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schemas.loading.loader import load_directory
from schemas.problems.codes import CODES
from schemas.problems.errors.repository import InvalidRepository

CASES = Path(__file__).parents[1] / "cases" / "schemas"


def answer(repository: Path) -> str:
    """What the loader says: every problem on its line, or every identity and warning."""
    try:
        loaded = load_directory(repository)
    except InvalidRepository as error:
        return "".join(f"{problem}\n" for problem in error.problems)
    accepted = [
        *loaded.resources,
        *(identity for identity in loaded.machines if identity not in loaded.resources),
    ]
    return "".join(f"ok {identity}\n" for identity in accepted) + "".join(f"{w}\n" for w in loaded.warnings)


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_case(case: str) -> None:
    said = answer(CASES / case / "repository")
    expected = CASES / case / "expected.txt"
    if os.environ.get("BAI_RECORD") == "1":
        expected.write_text(said, encoding="utf-8")
    assert said == expected.read_text(encoding="utf-8")


def test_every_code_has_a_case() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in CASES.glob("*/expected.txt"))
    # Too large to keep in a repository: test_sources.py, tests/security/test_committer.py
    elsewhere = {"BAI-V002", "BAI-V017", "BAI-V018"}
    elsewhere.add("BAI-V094")  # Of no document: tests/security/test_committer_commits.py
    assert {code for code in CODES if code not in text} == elsewhere
