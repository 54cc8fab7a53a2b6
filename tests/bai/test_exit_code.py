"""`bai run` ends as its session did, or says that it does not know."""

from __future__ import annotations

import pytest

from bai.cli.run import exit_code
from bai.cli.run.exit_code import await_exit_code
from schemas.problems.errors.command import CommandError


def test_it_is_waited_for() -> None:
    seen = iter([None, None, 7])
    assert await_exit_code("Session/vision/train", lambda: next(seen), 0.0) == 7


def test_what_nobody_has_seen_is_not_called_a_failure_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exit_code, "PATIENCE", -1.0)
    with pytest.raises(CommandError, match="how Session/vision/train ended is not known"):
        await_exit_code("Session/vision/train", lambda: None, 0.0)
