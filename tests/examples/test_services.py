"""A service as its example has it: the stand-in speaks the API that clients of vLLM know; bai keeps it up."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from planner.model.plan_time import PlanTime
from reconciler.plan.services.scale import bounds_at
from reconciler.values.apps.app import service_apps, session_apps
from reconciler.values.apps.standing import standing_of
from reconciler.values.services.pattern import pattern_of
from reconciler.values.services.scaling import ServiceLoad, recommend
from schemas.kinds.service import Service
from schemas.loading.loader import load_directory
from tests.examples.user import User
from tests.harness.ports import free_port
from tests.waiting import until

FOLDER = Path(__file__).parents[2] / "examples/sessions/services"
CHAT = "Service/examples/chat"
ECHO = "Service/examples/echo"


@dataclass(frozen=True)
class StandIn:
    """The program of the example, as a process of its own."""

    process: subprocess.Popen[str]
    port: int

    def ask(self, method: str, path: str, body: object = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, None if body is None else json.dumps(body))
        return connection.getresponse()

    def answer(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        with self.ask(method, path, body) as found:
            return found.status, json.loads(found.read())


def said(text: str, **more: object) -> dict[str, object]:
    return {"model": "echo-1", "messages": [{"role": "user", "content": text}], **more}


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    command = load_directory(FOLDER / "here").patterns[CHAT].spec.command
    port = free_port()
    env = {**os.environ, "MODEL": "echo-1", "BACKENDAI_SESSION_NAME": "chat-1", "BAI_PORT_API": str(port)}
    process = subprocess.Popen(
        [sys.executable, *command[1:]], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "listening\n"
    yield StandIn(process, port)
    process.kill()
    process.communicate()


@pytest.mark.parametrize("folder", ["here", "vllm"])
def test_each_has_a_url_and_listens_where_only_bai_comes(folder: str) -> None:
    repository = load_directory(FOLDER / folder)
    assert not repository.warnings
    pattern, proxy = repository.patterns[CHAT], repository.app_proxy_of("here")
    assert proxy is not None
    (app,) = session_apps(proxy, pattern, None)
    assert app.url == "https://api--chat--examples.apps.localhost:8443"
    assert "127.0.0.1" in pattern.spec.command[-1] and "BAI_PORT_API" in pattern.spec.command[-1]


def test_it_answers_as_a_server_of_openai_does(stand_in: StandIn) -> None:
    assert stand_in.answer("GET", "/health") == (200, {"status": "ok"})
    status, models = stand_in.answer("GET", "/v1/models")
    assert status == 200 and [each["id"] for each in models["data"]] == ["echo-1"]
    status, made = stand_in.answer("POST", "/v1/chat/completions", said("one two"))
    assert status == 200 and made["object"] == "chat.completion"
    (choice,) = made["choices"]
    assert choice["finish_reason"] == "stop" and choice["message"]["role"] == "assistant"
    text = choice["message"]["content"]
    assert "chat-1" in text and "stand-in for vLLM" in text and text.endswith("You said: one two")
    assert made["usage"]["prompt_tokens"] == 2


def test_a_stream_says_the_same_in_pieces(stand_in: StandIn) -> None:
    with stand_in.ask("POST", "/v1/chat/completions", said("hello", stream=True)) as found:
        assert found.headers["Content-Type"] == "text/event-stream"
        events = found.read().decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(each.removeprefix("data: "))["choices"][0] for each in events[:-2]]
    whole = "".join(each["delta"].get("content", "") for each in chunks)
    assert len(chunks) > 3 and whole.endswith("You said: hello")
    assert chunks[0]["delta"]["role"] == "assistant" and chunks[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("status", "path", "body"),
    [
        (404, "/v1/completions", said("x")),
        (404, "/v1/chat/completions", said("x") | {"model": "gpt"}),
        (400, "/v1/chat/completions", {"messages": []}),
        (400, "/v1/chat/completions", [1]),
    ],
)
def test_what_it_cannot_do_it_says(stand_in: StandIn, status: int, path: str, body: object) -> None:
    found, answer = stand_in.answer("POST", path, body)
    assert found == status and answer["error"]["message"]


def test_who_has_asked_is_answered_when_it_is_told_to_end(stand_in: StandIn) -> None:
    found = stand_in.ask("POST", "/v1/chat/completions", said("to the end", stream=True))
    assert found.readline().startswith(b"data: ")
    stand_in.process.send_signal(signal.SIGTERM)
    assert found.read().endswith(b"data: [DONE]\n\n")
    assert stand_in.process.wait(timeout=60) == 0
    with pytest.raises(ConnectionRefusedError):
        stand_in.ask("GET", "/health")


def test_one_sleeps_while_nobody_asks() -> None:
    repository = load_directory(FOLDER / "autoscaled")
    assert not repository.warnings
    (service,) = (each for each in repository.resources.values() if isinstance(each, Service))
    rules, proxy = service.spec.autoscaling, repository.app_proxy_of("here")
    assert rules is not None and proxy is not None
    (app,) = service_apps(proxy, pattern_of(service, repository.patterns[ECHO]), standing_of(None))
    assert app.url == "https://api--echo--examples.apps.localhost:8443"
    assert app.ready and app.hold == rules.hold, "a request of it waits for a replica"
    load = ServiceLoad(0.0, in_flight=7, requests_per_second=1.0)
    found = recommend(rules, load, 1)
    assert found is not None and found.replicas == rules.max
    for day, least in (("2026-11-30T08:00", 1), ("2026-11-30T12:00", 0), ("2026-11-29T08:00", 0)):
        monday = datetime.fromisoformat(day).replace(tzinfo=UTC)
        assert bounds_at(rules, PlanTime(monday.timestamp()))[0] == least


@pytest.mark.parametrize("user", ["sessions/services/headroom"], indirect=True)
def test_a_place_is_held_and_lent(user: User) -> None:
    user.bai("validate")
    user.bai("fmt", "--check")
    plan = user.plan("--offline")
    [service] = plan["services"]
    [place] = service["held"]
    [session] = place["lent"]
    [action] = [each for each in plan["actions"] if each["id"] == session]
    assert session.endswith(("/sweep", "/tune"))
    assert action["after"]["placement"]["choice"]["detail"] == f"gives way to replicas of {CHAT}"
    assert (
        action["after"]["placement"]["kernels"][0]["devices"] == place["placement"]["kernels"][0]["devices"]
    )
    assert [each["session"] for each in plan["waits"]] == ["Session/examples/report"]


@pytest.mark.xdist_group("machine")
@pytest.mark.parametrize("user", ["sessions/services/autoscaled"], indirect=True)
def test_the_sleeping_one_begins_with_a_replica_that_runs(user: User) -> None:
    path = user.folder / "echo.yaml"
    path.write_text(path.read_text().replace("port: 8000", f"port: {free_port()}"))
    user.bai("apply", "--yes")

    def ready() -> int:
        (item,) = json.loads(user.bai("get", "services", "--format", "json"))["items"]
        return int(item["status"]["ready"])

    until(lambda: ready() == 1, "it answers", pause=0.2)


@pytest.mark.xdist_group("machine")
@pytest.mark.parametrize("user", ["sessions/services/here"], indirect=True)
def test_its_replicas_run(user: User) -> None:
    path = user.folder / "chat.yaml"
    path.write_text(path.read_text().replace("port: 8000", f"port: {free_port()}"))
    user.bai("apply", "--yes")

    def replicas() -> dict[str, str]:
        found = json.loads(user.bai("get", "sessions", "--format", "json"))["items"]
        return {each["id"].rpartition("/")[2]: each["phase"] for each in found}

    until(lambda: [*replicas().values()] == ["RUNNING"] * 2, "both replicas run", pause=0.2)
    for name in replicas():
        assert name.startswith("chat-")
        until(lambda name=name: "listening" in user.bai("logs", name), "it listens", pause=0.2)
