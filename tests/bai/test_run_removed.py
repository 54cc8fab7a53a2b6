"""`bai run --rm`: what is left of it, however it ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bai.cli.run import run_session as running
from bai.cli.run.run_session import RunOptions, run_session
from bai.cli.run.session_request import RunRequest
from bai.settings import Settings
from schemas.problems.errors.command import CommandError
from schemas.problems.errors.store import StoreUnavailable
from tests.bai.conftest import Repo
from tests.waiting import until

pytestmark = pytest.mark.slow

SMALL = ("--cpu", "100m", "--memory", "16MiB")


@pytest.fixture
def house(repo: Repo) -> Iterator[Repo]:
    yield repo
    repo("destroy", "--yes")


def documents(repo: Repo) -> list[str]:
    return sorted(path.name for path in (repo.root / "sessions" / "run").glob("*"))


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM], ids=["hung up", "terminated"])
def test_a_terminal_that_is_closed_leaves_no_session(house: Repo, number: signal.Signals) -> None:
    """Its GPUs would be held by nobody."""
    words = ("run", "--batch", "--rm", *SMALL, "--name", "mine", "--", "sh", "-c", "echo up; sleep 1000")
    with house.start(*words) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "up\n"
        assert documents(house) == ["mine.yaml"]
        started.send_signal(number)
        until(lambda: started.poll() is not None, "it ends")
    assert documents(house) == []
    left = house.ok("get", "sessions", "--format", "json").json["items"]
    assert [item for item in left if item.get("phase") == "RUNNING"] == []


def test_it_is_not_left_and_taken_out_at_once(house: Repo) -> None:
    said = house("run", "--detach", "--rm", "--batch", *SMALL, "--", "true")
    assert said.code == 1 and "--rm" in said.err
    assert documents(house) == []


def test_a_store_that_is_away_for_a_moment_ends_no_job(
    house: Repo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It runs on while nobody can be asked: to take it out would throw its work away."""
    taken: list[str] = []

    def away(*_: object, **__: object) -> int:
        raise StoreUnavailable(store="it", why="for a moment")

    monkeypatch.setattr(running, "_apply_and_attach", away)
    monkeypatch.setattr(running, "_take_out_of_git", lambda *words, **_: taken.append("out"))
    with pytest.raises(StoreUnavailable):
        run_session(Settings(directory=house.root), wish(), RunOptions(remove=True))
    assert not taken and documents(house) == ["mine.yaml"]
    assert "mine.yaml" in capsys.readouterr().err


def test_what_can_never_run_is_taken_out(house: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []

    def never(*_: object, **__: object) -> int:
        raise CommandError(why="it does not run")

    monkeypatch.setattr(running, "_apply_and_attach", never)
    monkeypatch.setattr(running, "_take_out_of_git", lambda *words, **_: taken.append("out"))
    with pytest.raises(CommandError):
        run_session(Settings(directory=house.root), wish(), RunOptions(remove=True))
    assert taken


def wish() -> RunRequest:
    return RunRequest("mine", "", ("true",), 0, "10m", "16MiB", "", "", (), (), "", (), True)


def test_a_session_that_waits_is_asked_for_again_while_the_store_is_away(
    house: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Settings(directory=house.root).workspace() as workspace:
        answers = iter([StoreUnavailable(store="it", why="for a moment"), {}])

        def recorded(_: str) -> object:
            answer = next(answers, StopIteration("asked again"))
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(workspace.store, "recorded", recorded)
        monkeypatch.setattr(running, "_waiting_reason", lambda *_: "nobody has taken it up yet")
        with pytest.raises((StopIteration, RuntimeError)):
            running._wait_until_running(workspace, "Session/demo/mine", 60)
