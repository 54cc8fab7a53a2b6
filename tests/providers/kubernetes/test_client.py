"""Client and reflector against a real HTTPS server that says what API servers say rarely."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.kubernetes.api.client import CONNECTIONS, ApiClient
from providers.kubernetes.api.credentials import PluginCredentials, StaticCredentials
from providers.kubernetes.api.errors import ApiRefusal, api_errors
from providers.kubernetes.api.reflector import Reflector
from providers.kubernetes.provider import KubernetesProvider
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.problems.errors.kernel import KernelNotFound, KernelRefused
from schemas.problems.errors.provider import ProviderError, ProviderUnavailable
from tests.providers.kubernetes.api_server import (
    Answer,
    ApiServer,
    Request,
    event,
    listed,
    serving,
    status,
    thing,
)
from tests.providers.kubernetes.specs import ID, node, pod
from tests.waiting import until

PATH = "/api/v1/things"


class Script:
    """Answers of a server: lists are what `items` is, watches say what is put into `events`."""

    def __init__(self, *items: Any) -> None:
        self.items, self.version = list(items), 10
        self.events: queue.Queue[Any] = queue.Queue()
        self.watches = self.lists = 0
        self.meanwhile: Callable[[], None] = lambda: None
        """What happens while a list is on its way."""

    def __call__(self, request: Request) -> Answer:
        if request.query.get("limit") == "1":
            return listed(*self.items[:1], version=self.version)
        if not request.watches:
            self.lists += 1
            answer = listed(*self.items, version=self.version)
            self.meanwhile()
            return answer
        request.begin()
        self.watches += 1
        while True:
            said = self.events.get()
            if said == "end":
                return None
            if said == "cut":
                request.cut()
                return None
            # As a server does, that has come to a state before it tells of it.
            with contextlib.suppress(TypeError, KeyError):
                self.version = max(self.version, int(said["object"]["metadata"]["resourceVersion"]))
            request.say(said)


@pytest.fixture
def script(tmp_path: Path) -> Iterator[tuple[Script, ApiServer]]:
    found = Script(thing("a", 3))
    with serving(tmp_path, found) as server:
        yield found, server
        for _ in range(8):
            found.events.put("end")


def values(reflector: Reflector[Any]) -> dict[str, Any]:
    return {name: value for (_, name), value in reflector.look().objects.items()}


def watched(server: ApiServer, found: Script) -> Reflector[Any]:
    """One that watches by now."""
    reflector = Reflector(server.client(), PATH, lambda each: each["value"])
    reflector.look()
    reflector.look()
    until(lambda: found.watches, "it watches")
    return reflector


def test_a_list_is_read_page_by_page(tmp_path: Path) -> None:
    def answer(request: Request) -> Answer:
        if "continue" not in request.query:
            return listed(thing("a", 1), version=7, go_on="p2")
        assert request.query["continue"] == "p2"
        return listed(thing("b", 2), version=7)

    with serving(tmp_path, answer) as server:
        found = server.client().list(PATH)
    assert [each["metadata"]["name"] for each in found.items] == ["a", "b"] and found.version == "7"


def test_a_page_that_has_expired_begins_anew_once(tmp_path: Path) -> None:
    tries: list[str] = []

    def answer(request: Request) -> Answer:
        tries.append(request.query.get("continue", "first"))
        if "continue" in request.query and len(tries) < 3:
            return status(410, "expired", "Expired")
        return listed(thing("b", 2)) if "continue" in request.query else listed(thing("a", 1), go_on="p2")

    with serving(tmp_path, answer) as server:
        assert values(Reflector(server.client(), PATH, lambda each: 1)) == {"a": 1, "b": 1}
    assert tries == ["first", "p2", "first", "p2"]


def test_credentials_that_are_not_taken_are_renewed_once(tmp_path: Path) -> None:
    plugin, said = tmp_path / "plugin", tmp_path / "token"
    said.write_text("old")
    plugin.write_text(f'#!/bin/sh\nprintf \'{{"status": {{"token": "%s"}}}}\' "$(cat {said})"\n')
    plugin.chmod(0o755)
    taken: list[str] = []

    def answer(request: Request) -> Answer:
        taken.append(request.headers["Authorization"])
        return (200, {"fine": 1}) if taken[-1] == "Bearer new" else status(401)

    with serving(tmp_path, answer) as server:
        client = server.client(PluginCredentials([str(plugin)], {}, "client.authentication.k8s.io/v1", None))
        with pytest.raises(ApiRefusal) as refused:
            client.get(PATH)
        assert refused.value.status == 401 and taken == ["Bearer old"] * 2
        said.write_text("new")
        assert client.get(PATH) == {"fine": 1} and taken[2:] == ["Bearer old", "Bearer new"]
        assert client.get(PATH) == {"fine": 1} and len(taken) == 5


BODIES = {
    "html": b"<html>", "nothing": b"", "array": b"[]", "number": b'{"items": 3, "metadata": {}}',
    "bytes": b"\xff", "deep": b"[" * 20_000,
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_an_answer_that_is_no_list_is_an_error_and_not_an_empty_cluster(tmp_path: Path, body: bytes) -> None:
    with serving(tmp_path, lambda _: (200, body)) as server:
        with pytest.raises(ProviderUnavailable), api_errors():
            server.client().list(PATH)
        seen = KubernetesProvider(server.client(), Kubernetes()).observe()
    assert not seen.complete and seen.errors and seen.kernels == ()


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_a_server_that_is_not_the_one_of_the_kubeconfig_is_not_spoken_to(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with serving(tmp_path, lambda _: (200, {})) as server, serving(other, lambda _: (200, {})) as elsewhere:
        for wrong in (
            server.access(ca=elsewhere.certificate.pem),
            server.access(ca=b""),
            server.access(ca=b"x\xff"),
        ):
            with pytest.raises(ProviderUnavailable), api_errors():
                ApiClient(wrong).get(PATH)
        assert server.requests == []
        assert ApiClient(server.access(ca=elsewhere.certificate.pem, insecure=True)).get(PATH) == {}


@pytest.mark.parametrize(
    ("code", "reason", "making", "error"),
    [
        (500, "", True, ProviderUnavailable),
        (429, "", True, ProviderUnavailable),
        (409, "Conflict", True, ProviderUnavailable),
        (401, "", True, ProviderUnavailable),
        (422, "Invalid", True, KernelRefused),
        (422, "Invalid", False, ProviderError),
        (403, "Forbidden", True, ProviderError),
        (404, "NotFound", False, KernelNotFound),
    ],
)
def test_what_a_refusal_means(code: int, reason: str, making: bool, error: type[ProviderError]) -> None:
    with pytest.raises(ProviderError) as caught, api_errors("k", making=making):
        raise ApiRefusal(code, reason, "said")
    assert type(caught.value) is error
    if code not in (401, 404):
        assert "said" in str(caught.value)


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1", "next plan"),
        ("failed quota: q: must specify limits.memory for: main", "pods name"),
        ('violates PodSecurity "restricted:latest": runAsNonRoot', "enforce"),
        ("no PriorityClass with name low was found", "priorityclasses"),
        ("maximum memory usage per Container is 1Gi, but limit is 2Gi", "limitrange"),
    ],
)
def test_what_admission_refuses_is_about_the_kernel(said: str, hint: str) -> None:
    with pytest.raises(KernelRefused, match="forbidden") as caught, api_errors("k", making=True):
        raise ApiRefusal(403, "Forbidden", f'pods "x" is forbidden: {said}')
    assert hint in caught.value.hint


def test_a_watch_tells_what_changes_and_nothing_is_listed_again(script: tuple[Script, ApiServer]) -> None:
    found, server = script
    reflector = watched(server, found)
    lists, before = found.lists, reflector.look()
    assert reflector.look() is before
    found.events.put(event("ADDED", thing("b", 11, 1)))
    found.events.put(event("BOOKMARK", {"metadata": {"resourceVersion": "12"}}))
    found.events.put(event("MODIFIED", thing("a", 13, 2)))
    until(lambda: values(reflector) == {"a": 2, "b": 1}, "both are known")
    found.events.put(event("DELETED", thing("a", 14, 2)))
    found.events.put("end")
    until(lambda: values(reflector) == {"b": 1} and found.watches == 2, "it watches again")
    assert server.requests[-1].query["resourceVersion"] == "14" and found.lists == lists
    reflector.close()


def test_history_that_is_gone_is_listed_anew(script: tuple[Script, ApiServer]) -> None:
    found, server = script
    reflector = watched(server, found)
    found.items, found.version = [thing("c", 21, 3)], 30
    found.events.put(event("ERROR", {"kind": "Status", "code": 410}))
    until(lambda: values(reflector) == {"c": 3}, "what there is now is listed")
    until(lambda: found.watches == 2, "and watched from there")
    assert server.requests[-1].query["resourceVersion"] == "30"
    reflector.close()


def test_what_is_newer_than_a_server_that_was_restored_is_not_kept(
    script: tuple[Script, ApiServer],
) -> None:
    """Its watch from a version that is still to come says nothing, and then it leaves out what was before."""
    found, server = script
    reflector = watched(server, found)
    found.events.put(event("MODIFIED", thing("a", 20, 5)))
    found.events.put(event("ADDED", thing("b", 21, 6)))
    until(lambda: values(reflector) == {"a": 5, "b": 6}, "all is told")
    reflector.forget(("n", "a"), "a")
    found.items, found.version = [thing("a", 3)], 12
    found.events.put("end")
    until(lambda: values(reflector) == {"a": 0}, lambda: f"it is as the server has it: {values(reflector)}")
    until(lambda: found.watches == 2, "it watches")
    assert server.requests[-1].query["resourceVersion"] == "12"
    found.events.put(event("MODIFIED", thing("a", 13, 7)))
    until(lambda: values(reflector) == {"a": 7}, "and goes on from there")
    found.items, found.version = [thing("a", 3)], 11
    found.events.put(event("MODIFIED", thing("a", 12, 8)))
    until(lambda: values(reflector) == {"a": 0}, "in the middle of a watch, too")
    reflector.close()


@pytest.mark.parametrize(
    "broken", ["cut", b'{"type": "ADD', b"null", b'{"type": "ADDED", "object": {}}', "end"]
)
def test_a_watch_that_breaks_is_followed_by_a_list(script: tuple[Script, ApiServer], broken: Any) -> None:
    found, server = script
    reflector = watched(server, found)
    found.items = [thing("a", 3), thing("d", 15, 4)]
    found.events.put(broken)
    found.events.put("cut")
    until(lambda: values(reflector) == {"a": 0, "d": 4}, "it is listed")
    reflector.close()


def test_a_server_that_ends_every_watch_at_once_is_not_asked_without_end(tmp_path: Path) -> None:
    asked: list[int] = []

    def answer(request: Request) -> Answer:
        asked.append(request.watches)
        return None if request.watches else listed(thing("a", 1))

    with serving(tmp_path, answer) as server:
        reflector = Reflector(server.client(), PATH, lambda each: 1)
        for looks in range(1, 4):
            reflector.look()
            until(lambda: not watchers(), "the watch has ended")
            assert asked.count(0) == looks
        assert asked.count(1) == 2
        reflector.close()


def watchers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "bai-watch-things"]


def test_closing_ends_the_watching_thread(script: tuple[Script, ApiServer]) -> None:
    found, server = script
    until(lambda: not watchers(), "those of tests before have ended")
    reflector = watched(server, found)
    assert len(watchers()) == 1
    reflector.close()
    until(lambda: not watchers(), "its thread has ended")
    reflector.look()
    reflector.look()
    assert not watchers(), "what is closed watches no more"


def test_closing_while_a_watch_begins_ends_it_too(tmp_path: Path) -> None:
    began, go = threading.Event(), threading.Event()

    def answer(request: Request) -> Answer:
        if not request.watches:
            return listed(thing("a", 1))
        began.set()
        go.wait(60)
        request.say(event("BOOKMARK", {"metadata": {"resourceVersion": "11"}}))
        ended.wait(60)
        return None

    ended = threading.Event()
    with serving(tmp_path, answer) as server:
        reflector = Reflector(server.client(), PATH, lambda each: 1)
        reflector.look()
        reflector.look()
        assert began.wait(60)
        reflector.close()
        go.set()
        until(lambda: not watchers(), "its thread has ended")
        ended.set()


def test_answers_that_are_older_than_what_was_told_change_nothing(script: tuple[Script, ApiServer]) -> None:
    """An answer to us may come late, after somebody else has deleted the object."""
    found, server = script
    reflector = watched(server, found)
    reflector.record(thing("b", 11, 1))
    assert values(reflector) == {"a": 0, "b": 1}, "ahead of the watch"
    found.events.put(event("ADDED", thing("b", 11, 1)))
    found.events.put(event("DELETED", thing("b", 13, 1)))
    until(lambda: values(reflector) == {"a": 0}, "it was deleted")
    reflector.record(thing("b", 12, 2))
    assert values(reflector) == {"a": 0}
    reflector.forget(("n", "a"), "a")
    found.events.put(event("MODIFIED", thing("a", 14, 5)))
    found.events.put(event("ADDED", thing("c", 15, 6)))
    until(lambda: "c" in values(reflector), "the watch went on")
    assert values(reflector) == {"c": 6}, "what was forgotten does not come back"
    found.events.put(event("DELETED", thing("a", 16)))
    found.events.put(event("ADDED", thing("a", 17, 7, uid="another")))
    until(lambda: values(reflector) == {"a": 7, "c": 6}, "another one of its name is seen")
    reflector.close()


def test_a_list_that_is_older_than_an_answer_to_us_changes_nothing(
    script: tuple[Script, ApiServer],
) -> None:
    """What is made and removed while it is on its way is not in it, and still there."""
    found, server = script
    reflector = Reflector(server.client(), PATH, lambda each: each["value"])
    changes: list[tuple[Any, Any]] = []

    def note(before: Any, now: Any) -> None:
        changes.append((before, now))

    reflector.listen(note)
    found.items.append(thing("c", 4, 2))
    reflector.look()

    def meanwhile() -> None:
        reflector.record(thing("b", 11, 1))
        reflector.forget(("n", "c"), "c")

    found.meanwhile = meanwhile
    assert values(reflector) == {"a": 0, "b": 1}
    found.meanwhile = lambda: None
    until(lambda: found.watches, "it watches")
    found.events.put(event("ADDED", thing("b", 11, 1)))
    found.events.put(event("DELETED", thing("c", 12, 2)))
    found.events.put(event("ADDED", thing("c", 13, 3, uid="another")))
    until(lambda: values(reflector) == {"a": 0, "b": 1, "c": 3}, "another one of its name is seen")
    assert changes == [(None, 0), (None, 2), (None, 1), (2, None), (None, 3)]
    reflector.close()


def test_a_watch_that_is_behind_a_list_tells_nothing_of_before(script: tuple[Script, ApiServer]) -> None:
    found, server = script
    reflector = watched(server, found)
    found.version = 20
    reflector.catch_up(20, seconds=0)
    found.events.put(event("ADDED", thing("b", 11, 1)))
    found.events.put(event("DELETED", thing("a", 12)))
    found.events.put(event("ADDED", thing("c", 21, 2)))
    until(lambda: "c" in values(reflector), "the watch went on")
    assert values(reflector) == {"a": 0, "c": 2}
    reflector.close()


def test_many_streams_do_not_keep_others_from_asking(tmp_path: Path) -> None:
    ended = threading.Event()

    def answer(request: Request) -> Answer:
        if request.path.endswith("log"):
            request.say(b"line")
            ended.wait(60)
            return None
        return 200, {"fine": 1}

    with serving(tmp_path, answer) as server:
        client = server.client()
        streams = [client.stream("/log", {}, silence=60) for _ in range(CONNECTIONS + 4)]
        try:
            asked = threading.Thread(target=client.get, args=(PATH,), daemon=True)
            asked.start()
            until(lambda: not asked.is_alive(), "it is answered")
        finally:
            ended.set()
            for stream in streams:
                stream.close()
        client.close()


def cluster(pods: Any, nodes: Any = None) -> Any:
    """A server's answers, where pods are listed as `pods` says."""

    def answer(request: Request) -> Answer:
        if request.watches:
            return None
        if request.path == "/api/v1/pods":
            return pods() if callable(pods) else pods
        if request.path == "/api/v1/nodes":
            return nodes or listed(node())
        return status(404)

    return answer


@pytest.mark.parametrize("refused", [status(500), status(403, "pods is forbidden"), status(401), status(503)])
def test_pods_that_cannot_be_listed_are_not_taken_for_none(tmp_path: Path, refused: Answer) -> None:
    now: list[Answer] = [listed(pod())]
    with serving(tmp_path, cluster(lambda: now[0])) as server:
        provider = KubernetesProvider(server.client(), Kubernetes())
        assert [each.id for each in provider.observe().kernels] == [ID]
        now[0] = refused
        until(lambda: not provider.observe().complete, "it is said that not all was seen")
        assert len(provider.observe().errors) == 1
        now[0] = listed(pod())
        until(lambda: provider.observe().complete, "all is seen again")
        assert [each.id for each in provider.observe().kernels] == [ID]
        provider.close()


def test_one_pod_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    bad = pod(metadata={"name": "bad"}, container={"restartCount": "many"}, state={})
    now: list[Answer] = [listed(pod())]
    with serving(tmp_path, cluster(lambda: now[0])) as server:
        provider = KubernetesProvider(server.client(), Kubernetes())
        assert provider.observe().complete
        now[0] = listed(pod(), bad)
        until(lambda: not provider.observe().complete, "it is said that not all was seen")
        seen = provider.observe()
        assert [each.id for each in seen.kernels] == [ID] and "bai/bad" in seen.errors[0]
        now[0] = listed(pod(), {**bad, "metadata": {**bad["metadata"], "namespace": "others"}})
        until(lambda: provider.observe().complete, "what others have is theirs")
        assert provider.observe().errors == ()
        provider.close()


def test_a_renewed_token_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    heard: list[str] = []
    with serving(
        tmp_path, lambda request: (200, heard.append(request.headers["Authorization"]) or {})
    ) as server:
        client = server.client(StaticCredentials(bearer_file=str(file)))
        client.get(PATH)
        file.write_text("two\n")
        client.get(PATH)
        file.unlink()
        with pytest.raises(ProviderUnavailable):
            client.get(PATH)
    assert heard == ["Bearer one", "Bearer two"]
