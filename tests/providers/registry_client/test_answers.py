"""Answers that no good registry gives, replayed: nothing is believed that does not fit, nothing ends in a
traceback."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.registry_client import manifests
from providers.registry_client.access import RegistryAccess
from providers.registry_client.auth import challenges
from providers.registry_client.client import RegistryClient
from providers.registry_client.transport import LARGEST, Transport
from schemas.problems.errors.registry import RegistryError, RegistryUnreachable
from schemas.values.image_reference import parse_reference
from tests.lab.http_replay import Replay, Reply

TARGET = "/v2/team/x/manifests/1"
CONFIG = json.dumps({"architecture": "amd64", "config": {"Labels": None}}).encode()
GOOD = {
    "schemaVersion": 2,
    "mediaType": manifests.MANIFESTS[1],
    "config": {"digest": manifests.digest_of(CONFIG), "size": len(CONFIG)},
    "layers": [{"digest": "sha256:" + "b" * 64, "size": 5}],
}
BLOB = f"/v2/team/x/blobs/{manifests.digest_of(CONFIG)}"


def asked(server: Replay) -> RegistryClient:
    access = RegistryAccess(server.address, plain_http=True, timeout=60)
    return RegistryClient(access, Transport(access, sleep=lambda _: None))


def facts(server: Replay):  # type: ignore[no-untyped-def]
    return asked(server).facts(parse_reference(f"{server.address}/team/x:1"))


def test_a_busy_registry_is_asked_again() -> None:
    busy = Reply(429, {}, {"Retry-After": "99999"})
    with Replay({TARGET: [busy, Reply(503), Reply(200, GOOD)], BLOB: Reply(200, CONFIG)}) as server:
        assert facts(server).size("amd64") == 5 + len(CONFIG)
    with Replay({TARGET: Reply(503)}) as server, pytest.raises(RegistryUnreachable):
        facts(server)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(200, b"not json"), "manifest"),
        (Reply(200, []), "not what a registry should give"),
        (Reply(200, {**GOOD, "config": {}}), "digest is missing"),
        (Reply(200, {"schemaVersion": 1, "fsLayers": []}), "version 1"),
        (Reply(200, {**GOOD, "config": {"digest": "md5:1"}}), "status 404"),
        (Reply(418, {"errors": [{"message": "short and stout"}]}), "short and stout"),
        (Reply(200, b"x" * (LARGEST + 1)), "more than"),
    ],
)
def test_manifests_that_are_none(reply: Reply, told: str) -> None:
    with Replay({TARGET: reply}) as server, pytest.raises(RegistryError) as caught:
        facts(server)
    assert told in str(caught.value)


def test_content_of_another_digest_is_not_believed() -> None:
    with Replay({TARGET: Reply(200, GOOD), BLOB: Reply(200, b"{}")}) as server:
        with pytest.raises(RegistryError) as caught:
            facts(server)
        digest = "sha256:" + "c" * 64
        server.answers[f"/v2/team/x/manifests/{digest}"] = [Reply(200, GOOD)]
        with pytest.raises(RegistryError) as other:
            asked(server).facts(parse_reference(f"{server.address}/team/x@{digest}"))
    assert "another digest" in str(caught.value)
    assert "digest asked for" in str(other.value)


def test_a_list_that_goes_on_elsewhere_is_not_followed() -> None:
    link = {"Link": '<http://192.0.2.1/v2/team/x/tags/list>; rel="next"'}
    answers = {"/v2/team/x/tags/list?n=200": Reply(200, {"tags": ["1"]}, link)}
    with Replay(answers) as server, pytest.raises(RegistryError) as caught:
        list(asked(server).tags("team/x"))
    assert "192.0.2.1" in str(caught.value)


@pytest.mark.parametrize("header", ["", "Bearer", 'Bearer realm="/x"', "Negotiate", 'Bearer realm="ftp://x"'])
def test_challenges_that_cannot_be_answered(header: str) -> None:
    refusal = Reply(401, {}, {"WWW-Authenticate": header})
    with Replay({"/v2/": refusal}) as server, pytest.raises(RegistryError):
        asked(server).check()


def test_a_challenge_is_read_with_commas_in_quotes() -> None:
    header = 'Bearer realm="https://a/token",service="s",scope="repository:x:pull,push", Basic realm="r"'
    assert challenges(header) == {
        "bearer": {"realm": "https://a/token", "service": "s", "scope": "repository:x:pull,push"},
        "basic": {"realm": "r"},
    }


@given(st.text(max_size=80))
def test_any_challenge_is_read(header: str) -> None:
    assert set(challenges(header)) <= {"bearer", "basic"}


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda s: (
            st.lists(s)
            | st.dictionaries(
                st.sampled_from(
                    ["config", "layers", "manifests", "platform", "digest", "size", "os", "mediaType"]
                ),
                s,
            )
        ),
    )
)
def test_any_manifest_is_read_or_refused(value: object) -> None:
    try:
        manifests.parse_manifest(json.dumps(value).encode(), "")
    except ValueError:
        return
