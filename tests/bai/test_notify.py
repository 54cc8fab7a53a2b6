"""People are told by the real command, of real processes."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schemas.kinds.notification import CLASSES
from tests.bai.conftest import PATIENCE, Repo
from tests.lab.stores import NAME, environment, owner_file
from tests.reconciler.notify.servers import Hook, hook
from tests.waiting import until

pytestmark = pytest.mark.slow

OPS = """\
apiVersion: bai/v1
kind: Notification
metadata: {name: ops}
spec:
  to: {http: {urlFrom: env/BAI_TEST_HOOK, signatureFrom: env/BAI_TEST_KEY}}
  events: [session-failed, documents-refused, commit-applied]
"""


@pytest.fixture
def server() -> Iterator[Hook]:
    with hook() as made:
        yield made


@pytest.fixture
def told(repo: Repo, server: Hook) -> Repo:
    repo.write("ops.yaml", OPS)
    stores = owner_file(repo.root.parent / NAME, environment("BAI_TEST_HOOK", "BAI_TEST_KEY"))
    env = {"BAI_TEST_HOOK": server.url, "BAI_TEST_KEY": "hidden-key", "BAI_SECRET_STORES": str(stores)}
    return replace(repo, env={**repo.env, **env})


def test_a_test_is_sent_or_shown(told: Repo, server: Hook) -> None:
    shown = json.loads(told.ok("notify", "test", "ops", "--show").out)
    assert shown["news"][0]["event"] == "test" and server.got == []
    assert told.ok("notify", "test", "ops").out == "ops: HTTP 200\n"
    assert json.loads(server.got[0].body)["text"].endswith("this is a test; nothing has happened")
    assert server.got[0].headers["X-Bai-Signature"].startswith("sha256=")
    server.answers.append((403, {}))
    said = told("notify", "test", "ops")
    assert said.code == 1 and "BAI-E0381" in said.err and "HTTP 403" in said.err and "hidden" not in said.err
    said = told("notify", "test", "opps")
    assert said.code == 1 and "ops" in said.err


def test_what_would_be_sent_is_shown_line_by_line(told: Repo) -> None:
    text = OPS.rstrip() + "\n  template:\n    body: |\n      {{ title }}\n      --\n"
    told.write("ops.yaml", text)
    lines = told.ok("notify", "test", "ops", "--show").out.splitlines()
    assert len(lines) == 2 and lines[1] == "--"


def test_list_before_anything_was_sent(told: Repo) -> None:
    (only,) = told.ok("notify", "list", "--format", "json").json["items"]
    assert only == {
        "name": "ops", "to": "http", "events": ["session-failed", "documents-refused", "commit-applied"],
        "sent": 0, "failed": 0, "waiting": 0, "leftOut": 0, "last": None,
    }  # fmt: skip
    assert "never" in told.ok("notify", "list").out


@contextlib.contextmanager
def running(repo: Repo, log: Path) -> Iterator[None]:
    """A loop, ended properly."""
    with log.open("a") as out:
        loop = repo.stay("reconcile", "--interval", "1s", out=out)
    try:
        yield
    finally:
        loop.send_signal(signal.SIGTERM)
        assert loop.wait(PATIENCE) == 0, log.read_text()


def deliveries(repo: Repo) -> dict[str, Any]:
    """As they are noted: what has come, and is not noted yet, is sent again by the next loop."""
    (only,) = repo.ok("notify", "list", "--format", "json").json["items"]
    return dict(only)


def test_a_loop_tells_and_its_successor_repeats_nothing(told: Repo, server: Hook, tmp_path: Path) -> None:
    told.session("bad", "sh", "-c", "exit 3", kind="batch")
    with running(told, tmp_path / "log"):
        until(lambda: deliveries(told)["sent"] == 1, "the first message")
    with running(told, tmp_path / "log"):
        told.session("web", "sleep", "1000")
        until(lambda: "created Session/demo/web" in (tmp_path / "log").read_text(), "the second start")
        told.write("broken.yaml", "kind: [")
        until(lambda: len(server.got) == 2, "the second message")
        (told.root / "broken.yaml").unlink()
        until(lambda: deliveries(told)["sent"] == 3, "that it is over")
    titles = [json.loads(got.body)["title"] for got in server.got]
    assert titles == [
        "error: Session/demo/bad: session failed",
        "error: cluster here: documents refused",
        "cluster here: documents refused is over",
    ]
    assert "hidden" not in (tmp_path / "log").read_text()
    only = deliveries(told)
    assert only["sent"] == 3 and only["last"]["said"] == "HTTP 200"


def test_once_sends_before_it_ends(told: Repo, server: Hook) -> None:
    told.write("ops.yaml", OPS.replace("session-failed", "session-started"))
    told.session("web", "sleep", "1000")
    told.ok("reconcile", "--once")
    assert [json.loads(got.body)["title"] for got in server.got] == ["Session/demo/web: session started"]


def test_the_guide_has_every_class() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text()
    rows = [line for line in guide.splitlines() if line.startswith("| `") and line.count("|") == 5]
    assert rows == [
        f"| `{name}` | {about.severity} | {'yes' if about.lasts else ''} | {about.when} |"
        for name, about in CLASSES.items()
    ]


def test_metrics_of_notifications() -> None:
    from bai.web.pass_metrics import PassCollector
    from reconciler.notify.dispatcher import DeliveryCounts

    watched = SimpleNamespace(
        name="here", latest=None, good=None, pulse=SimpleNamespace(silent=0.0),
        loop=SimpleNamespace(
            leads=lambda: True, workspace=SimpleNamespace(clock=SimpleNamespace(now=lambda: 0.0))
        ),
        dispatcher=SimpleNamespace(
            delivery_counts={"ops": DeliveryCounts(sent=5, failed=2, lost=1, waiting=3)}
        ),
    )  # fmt: skip
    found = PassCollector(SimpleNamespace(clusters={"here": watched})).collect()  # type: ignore[arg-type]
    values = {sample.name: sample.value for family in found for sample in family.samples}
    parts = {name: values[f"bai_notifications_{name}"] for name in ("sent", "failed", "lost", "waiting")}
    assert parts == {"sent": 5, "failed": 2, "lost": 1, "waiting": 3}
