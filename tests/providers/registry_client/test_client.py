"""Real registries asked by the client: open, with a password, with tokens, with TLS, and what goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from providers.registry_client.access import RegistryAccess
from providers.registry_client.client import RegistryClient
from providers.registry_client.transport import Transport
from schemas.problems.errors.registry import (
    NoSuchImage,
    RegistryError,
    RegistryRefused,
    RegistryUnreachable,
    RegistryUntrusted,
)
from schemas.values.image_reference import parse_reference
from tests.lab.registry import USER, LabRegistry, StartRegistry, tar_of


def client(lab: LabRegistry, *, user: str = "", password: str = "", **other: object) -> RegistryClient:
    ca = Path(lab.ca).read_text() if lab.ca else ""
    given = {"plain_http": not lab.tls, "ca": ca, "timeout": 60, **other}
    return RegistryClient(RegistryAccess(lab.address, username=user, password=password, **given))  # type: ignore[arg-type]


def reference(lab: LabRegistry, name: str):  # type: ignore[no-untyped-def]
    return parse_reference(f"{lab.address}/{name}")


def test_facts_of_an_image_of_several_architectures(registry: StartRegistry) -> None:
    lab = registry()
    labels = {"ai.backend.resource.min.mem": "1g"}
    layers = (tar_of({"a": b"x" * 5000}), tar_of({"b": b"y"}))
    digest = lab.push("team/tool:1", labels=labels, architectures=("amd64", "arm64"), layers=layers)
    with client(lab) as asked:
        asked.check()
        facts = asked.facts(reference(lab, "team/tool:1"))
        by_digest = asked.facts(reference(lab, f"team/tool@{digest}"))
    assert facts.digest == digest == by_digest.digest
    assert set(facts.platforms) == {"amd64", "arm64"}
    assert facts.labels == labels
    assert facts.platforms["amd64"].layers == 2
    assert facts.platforms["amd64"].size > 0
    assert facts.platforms["amd64"].digest != facts.platforms["arm64"].digest


def test_facts_of_a_single_image(registry: StartRegistry) -> None:
    lab = registry()
    digest = lab.push("tool:1", architectures=("arm64",), single=True)
    with client(lab) as asked:
        facts = asked.facts(reference(lab, "tool:1"))
    assert facts.digest == digest == facts.platforms["arm64"].digest


def test_lists_over_many_pages(registry: StartRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = registry()
    wanted = [f"team/tool{n}" for n in range(7)]
    for name in wanted:
        lab.push(f"{name}:1", single=True)
    lab.push("team/tool0:2", single=True)
    monkeypatch.setattr("providers.registry_client.client._PAGE", 3)
    with client(lab) as asked:
        assert sorted(asked.tags("team/tool0")) == ["1", "2"]
        assert list(asked.repositories()) == wanted


def test_what_is_not_there_comes_with_the_nearest(registry: StartRegistry) -> None:
    lab = registry()
    lab.push("team/pytorch:2.4-cuda12.4", single=True)
    with client(lab) as asked:
        with pytest.raises(NoSuchImage) as tag:
            asked.facts(reference(lab, "team/pytorch:2.4-cuda12"))
        with pytest.raises(NoSuchImage) as path:
            asked.facts(reference(lab, "team/pytroch:2.4"))
        with pytest.raises(NoSuchImage):
            list(asked.tags("nothing"))
    assert "did you mean 2.4-cuda12.4?" in str(tag.value)
    assert "did you mean team/pytorch?" in str(path.value)


def test_a_password(registry: StartRegistry) -> None:
    lab = registry(password="open sesame")
    lab.push("tool:1", single=True)
    with client(lab, user=USER, password="open sesame") as asked:
        asked.check()
        assert asked.facts(reference(lab, "tool:1")).platforms
    for user, password, told in ((USER, "wrong", "is the password right?"), ("", "", "credentials")):
        with client(lab, user=user, password=password) as asked, pytest.raises(RegistryRefused) as caught:
            asked.facts(reference(lab, "tool:1"))
        assert told in str(caught.value)
        assert "wrong" not in str(caught.value)


def test_tokens(registry: StartRegistry) -> None:
    lab = registry(password="secret", tokens=True)
    assert lab.tokens is not None
    lab.push("team/tool:1", single=True)
    with client(lab, user=USER, password="secret") as asked:
        asked.check()
        assert asked.facts(reference(lab, "team/tool:1")).platforms
        before = len(lab.tokens.asked)
        assert list(asked.tags("team/tool")) == ["1"]
        assert len(lab.tokens.asked) == before  # the same scope, the same token
    assert {
        "service": "lab-registry",
        "scope": "repository:team/tool:pull",
        "account": USER,
    } in lab.tokens.asked
    with client(lab, user=USER, password="wrong") as asked, pytest.raises(RegistryRefused) as caught:
        asked.facts(reference(lab, "team/tool:1"))
    assert "incorrect username or password" in str(caught.value)


def test_a_token_service_without_tls_gets_no_password_of_a_registry_with_tls(registry: StartRegistry) -> None:
    lab = registry(password="secret", tokens=True, tls=True)
    assert lab.tokens is not None
    with client(lab, user=USER, password="secret") as asked, pytest.raises(RegistryError) as caught:
        asked.check()
    assert "without TLS" in str(caught.value)
    assert lab.tokens.asked == []


def test_certificates(registry: StartRegistry) -> None:
    lab = registry(password="secret", tls=True)
    lab.push("tool:1", single=True)
    login = {"user": USER, "password": "secret"}
    with client(lab, **login) as asked:
        assert asked.facts(reference(lab, "tool:1")).platforms
    with client(lab, **login, ca="", insecure=True) as asked:
        asked.check()
    with client(lab, **login, ca="") as asked, pytest.raises(RegistryUntrusted) as caught:
        asked.check()
    assert "in the Registry's caFrom" in str(caught.value)
    with client(lab, **login, ca="", plain_http=True) as asked, pytest.raises(RegistryError):
        asked.check()


def test_tls_where_there_is_none(registry: StartRegistry) -> None:
    lab = registry()
    with client(lab, plain_http=False) as asked, pytest.raises(RegistryUntrusted) as caught:
        asked.check()
    assert "plainHttp: true" in str(caught.value)


def test_a_ca_that_is_no_certificate(registry: StartRegistry) -> None:
    lab = registry(tls=True)
    with client(lab, ca="no PEM") as asked, pytest.raises(RegistryError) as caught:
        asked.check()
    assert "certificate" in str(caught.value).lower()


def test_nobody_answers() -> None:
    waits: list[float] = []
    access = RegistryAccess("127.0.0.1:1", plain_http=True)
    asked = RegistryClient(access, Transport(access, sleep=waits.append))
    with pytest.raises(RegistryUnreachable) as caught:
        asked.check()
    assert caught.value.retryable
    assert "refused" in str(caught.value)
    assert len(waits) == 2


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(RegistryAccess("reg.example", username="u", password="secret"))
