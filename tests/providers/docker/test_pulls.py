"""Pulls without an engine: what engines say while they fetch, why they refuse, and how many fetch at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.docker.engine.http import EngineRefusal
from providers.docker.fleet import Fleet
from providers.docker.images import Puller
from providers.docker.pull_progress import LayerProgress, parse_messages, pull_error
from providers.images import PullProgress, PullRequest
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.node import PullFailed
from schemas.problems.errors.provider import ProviderUnavailable
from schemas.problems.errors.registry import (
    NoSuchImage,
    RegistryRefused,
    RegistryUnreachable,
    RegistryUntrusted,
)

REQUEST = PullRequest("n1", "r.io/team/tool:1")
LINES: list[dict[str, Any]] = [
    {"status": "Pulling from team/tool", "id": "1"},
    {"status": "Pulling fs layer", "id": "a"},
    {"status": "Already exists", "id": "b"},
    {"status": "Downloading", "id": "a", "progressDetail": {"current": 40, "total": 100}},
    {"status": "Download complete", "id": "a"},
    {"status": "Extracting", "id": "a", "progressDetail": {"current": 100, "total": 100}},
    {"status": "Pull complete", "id": "a"},
    {"status": "Digest: sha256:x"},
]


def stream(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\r\n" for line in lines)


@given(st.lists(st.integers(1, 200), max_size=30))
def test_messages_are_read_however_they_are_cut(cuts: list[int]) -> None:
    data, pieces = stream(LINES), []
    for cut in cuts:
        pieces.append(data[:cut])
        data = data[cut:]
    assert list(parse_messages([*pieces, data])) == LINES


def test_progress_of_layers() -> None:
    layers = LayerProgress("n1", "i")
    told = [layers.news() for line in LINES if layers.update(line)]
    assert [(news.layers_done, news.layers, news.bytes_done, news.bytes) for news in told] == [
        (0, 1, 0, 0), (1, 2, 0, 0), (1, 2, 40, 100), (1, 2, 100, 100), (2, 2, 100, 100),
    ]  # fmt: skip


@given(
    st.lists(
        st.fixed_dictionaries(
            {"status": st.sampled_from(["Downloading", "Pull complete", "Waiting", "Extracting"])},
            optional={
                "id": st.sampled_from("abc"),
                "progressDetail": st.none()
                | st.dictionaries(st.sampled_from(["current", "total"]), st.integers(0, 99)),
            },
        )
    )
)
def test_no_word_of_an_engine_breaks_the_progress(lines: list[dict[str, Any]]) -> None:
    layers = LayerProgress("n1", "i")
    for line in lines:
        layers.update(line)
        news = layers.news()
        assert 0 <= news.layers_done <= news.layers


@pytest.mark.parametrize(
    ("why", "kind"),
    [
        ("manifest for r.io/team/tool:1 not found: manifest unknown: manifest unknown", NoSuchImage),
        (
            "pull access denied for team/tool, repository does not exist or may require 'docker login'",
            RegistryRefused,
        ),
        ("Get https://r.io/v2/: no basic auth credentials", RegistryRefused),
        ("Get https://r.io/v2/: x509: certificate signed by unknown authority", RegistryUntrusted),
        ("Get https://r.io/v2/: http: server gave HTTP response to HTTPS client", RegistryUntrusted),
        ("Get https://r.io/v2/: dial tcp 10.0.0.1:443: connect: connection refused", RegistryUnreachable),
        ("Get https://r.io/v2/: dial tcp: lookup r.io: no such host", RegistryUnreachable),
        ("toomanyrequests: You have reached your pull rate limit", RegistryUnreachable),
        ("write /var/lib/docker/tmp/x: no space left on device", PullFailed),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", PullFailed),
        ("something else", PullFailed),
    ],
)
def test_refusals(why: str, kind: type[BaiError]) -> None:
    error = pull_error(REQUEST, why)
    assert type(error) is kind
    assert error.retryable == (kind is RegistryUnreachable)
    assert "tool" in str(error) or "r.io" in str(error)


@dataclass
class Engine:
    """An engine as far as pulls see it."""

    node: str = "n1"
    lines: list[dict[str, Any]] = field(default_factory=lambda: LINES)
    breaks: BaseException | None = None
    has: set[str] = field(default_factory=set)
    keeps: bool = True
    hold: threading.Event | None = None
    sent: list[dict[str, Any]] = field(default_factory=list)
    running: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def call(self, method: str, path: str, **_: Any) -> Any:
        if path not in self.has:
            raise EngineRefusal(404, f"No such image: {path}")
        return {}

    def stream(self, method: str, path: str, **given: Any) -> Iterator[bytes]:
        self.sent.append(given)
        if isinstance(self.breaks, EngineRefusal):
            raise self.breaks
        return self._pieces(given)

    def _pieces(self, given: dict[str, Any]) -> Iterator[bytes]:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            if self.hold is not None:
                assert self.hold.wait(30)
            yield stream(self.lines)
            if self.breaks is not None:
                raise self.breaks
            if self.keeps:
                name = f"{given['query']['fromImage']}:{given['query']['tag']}"
                self.has.add(f"/images/{name.replace('/', '%2F').replace(':', '%3A')}/json")
        finally:
            with self.lock:
                self.running -= 1


def puller(engine: Engine) -> Puller:
    return Puller(Fleet(cast("Any", {engine.node: engine})))


def test_credentials_go_into_the_header_alone() -> None:
    engine = Engine()
    puller(engine).pull(PullRequest("n1", "r.io/x:1", auth="c2VjcmV0"), lambda _: None)
    puller(engine).pull(PullRequest("n1", "r.io/y:1"), lambda _: None)
    assert [sent["headers"] for sent in engine.sent] == [
        {"X-Registry-Auth": "c2VjcmV0"},
        {"X-Registry-Auth": "e30="},
    ]
    assert "c2VjcmV0" not in str([sent["query"] for sent in engine.sent])


def test_an_image_that_is_there_is_fetched_only_when_it_always_is() -> None:
    engine, news = Engine(), list[PullProgress]()
    made = puller(engine)
    assert made.pull(REQUEST, news.append) is True
    assert news[-1].over
    assert made.pull(REQUEST, news.append) is False
    assert made.pull(PullRequest("n1", REQUEST.image, "always"), news.append) is True
    assert len(engine.sent) == 2


def test_a_stream_that_breaks_off_is_no_success() -> None:
    for engine, kind in (
        (Engine(keeps=False), PullFailed),
        (Engine(breaks=ConnectionResetError("reset")), ProviderUnavailable),
        (Engine(breaks=EngineRefusal(500, "x509: no")), RegistryUntrusted),
        (Engine(lines=[{"error": "no space left", "errorDetail": {"message": "no space left"}}]), PullFailed),
    ):
        made = puller(engine)
        with pytest.raises(kind):
            made.pull(REQUEST, lambda _: None)
        engine.breaks, engine.lines, engine.keeps = None, LINES, True
        assert made.pull(REQUEST, lambda _: None) is True  # nothing of the failure is left


def test_an_unknown_node() -> None:
    with pytest.raises(BaiError, match="no node n9"):
        puller(Engine()).pull(PullRequest("n9", "x"), lambda _: None)


def all_at_once(made: Puller, requests: list[PullRequest], engine: Engine) -> list[bool | BaiError]:
    """Ask for all of them in threads; the engine answers once all who may have begun."""
    answers: list[bool | BaiError] = []

    def ask(request: PullRequest) -> None:
        try:
            answers.append(made.pull(request, lambda _: None))
        except BaiError as error:
            answers.append(error)

    engine.hold = threading.Event()
    threads = [threading.Thread(target=ask, args=(request,)) for request in requests]
    for thread in threads:
        thread.start()
    engine.hold.set()
    for thread in threads:
        thread.join(60)
    return answers


def test_a_node_fetches_few_images_at_the_same_time() -> None:
    engine = Engine()
    requests = [PullRequest("n1", f"r.io/t{n}:1") for n in range(8)]
    assert all_at_once(puller(engine), requests, engine) == [True] * 8
    assert engine.most <= 2
    assert len(engine.sent) == 8


def test_who_waits_for_a_pull_hears_that_it_failed() -> None:
    engine = Engine(lines=[{"error": "manifest unknown"}])
    answers = all_at_once(puller(engine), [REQUEST] * 5, engine)
    assert all(isinstance(answer, NoSuchImage) for answer in answers)
