"""`--defragment` as it is typed: with other options, and where there is nothing to gain."""

from __future__ import annotations

from pathlib import Path

from tests.bai.conftest import Repo


def test_where_nothing_may_move_that_is_said(repo: Repo) -> None:
    repo.session("web", "sleep", "60")
    said = repo.ok("plan", "--defragment", "--offline")
    assert "--defragment moves nothing: of the sessions with `movable: true`" in said.out
    assert "moves nothing" not in repo.ok("plan", "--offline").out
    assert "moves nothing" not in repo.ok("plan", "--defragment", "--offline", "--format", "json").out


def test_options_that_do_not_go_together(repo: Repo, tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    repo.ok("plan", "--offline", "--out", str(saved))
    for words in (
        ("apply", "--refresh-only", "--defragment"),
        ("apply", str(saved), "--defragment"),
        ("plan", "--destroy", "--defragment", "--offline"),
        ("plan", "--refresh-only", "--defragment", "--offline"),
        ("plan", "--defragment", "--max-moves", "0", "--offline"),
    ):
        said = repo(*words)
        assert (said.code, "error" in said.err.lower()) == (1, True), words


def test_the_field_is_one_of_a_session(repo: Repo) -> None:
    repo.session("web", "sleep", "60", extra="  movable: true\n")
    assert "error" not in repo.ok("validate").err
    repo.session("web", "sleep", "60", extra="  movable: perhaps\n")
    assert "spec.movable" in repo("validate").err
