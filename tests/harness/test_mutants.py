"""The tool that changes code, on a module with a good test and one that notices nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE = """\
LIMIT = 3


def fits(amount: int) -> bool:
    if amount < 0:
        raise ValueError("negative")
    return amount <= LIMIT


def left(amount: int) -> int:
    return LIMIT - amount


def rest(amount: int) -> int:
    while amount > LIMIT:
        amount -= LIMIT
    return amount
"""
TESTS = """\
import pytest
import tiny


def test_fits():
    assert [tiny.fits(amount) for amount in (0, 3, 4)] == [True, True, False]
    with pytest.raises(ValueError):
        tiny.fits(-1)


def test_left_notices_nothing():
    tiny.left(1)


def test_rest():
    assert [tiny.rest(amount) for amount in (0, 3, 8)] == [0, 3, 2]


def test_fits_once_more():
    assert tiny.fits(3)


def test_fails_whatever_happens():
    assert tiny.left(3) == 1
"""


pytestmark = pytest.mark.slow


def test_only_what_no_test_notices_survives(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tiny.py").write_text(MODULE)
    (tmp_path / "tests" / "test_tiny.py").write_text(TESTS)
    words = [sys.executable, ROOT / "scripts" / "mutants.py", "tiny.py", "--all", "--least", "0.9"]
    done = subprocess.run(
        words, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "left out, for it fails by itself: tests/test_tiny.py::test_fails_whatever_happens",
        "tiny.py:11: returns None in place of LIMIT - amount",
        "    return LIMIT - amount",
        "tiny.py:11: LIMIT - amount -> LIMIT + amount",
        "    return LIMIT - amount",
        "   17 of    19 killed ( 89%)  tiny.py",
        "spare: tests/test_tiny.py::test_fits_once_more",
    ], done.stderr
    assert done.returncode == 1
    assert (tmp_path / "tiny.py").read_text() == MODULE


def test_a_sample_is_the_same_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from mutants import chosen_mutants  # type: ignore[import-not-found]

    (tmp_path / "tiny.py").write_text(MODULE)
    first, again, other, whole = (
        [(mutant.line, mutant.what) for mutant in chosen_mutants(tmp_path, ["tiny.py"], size, seed)]
        for size, seed in ((6, 1), (6, 1), (6, 2), (0, 1))
    )
    assert first == again != other
    assert len(first) == 6
    assert set(first) < set(whole)


def test_every_area_is_of_modules_and_tests_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from mutants import AREAS

    named = [path for area in AREAS.values() for path in (*area.modules, *area.tests)]
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.campaign
def test_tests_of_this_repository_notice_changes_of_its_code() -> None:
    tests = ("tests/reconciler/test_graph.py", "tests/reconciler/test_converges.py")
    words = [
        sys.executable,
        ROOT / "scripts" / "mutants.py",
        "reconciler/apply/graph_walk.py",
        "--sample",
        "6",
    ]
    done = subprocess.run(
        [*words, "--least", "0.5", "--tests", *tests],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
