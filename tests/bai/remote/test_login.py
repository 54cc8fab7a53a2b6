"""Logging in, by a token and at an identity provider; the file that remembers it."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from bai.remote import identity_provider
from bai.remote.cluster import current_token
from bai.remote.contexts import Contexts, load_contexts, locked_contexts, save_contexts
from bai.remote.identity_provider import expires_at
from bai.web.auth import oidc
from bai.web.auth.access_file import WatchedAccessFile
from bai.web.auth.static_tokens import hash_of
from schemas.problems.errors.repository import CannotRead, InvalidRepository
from schemas.problems.errors.server import LoginFailed, NotLoggedIn
from tests.bai.remote.conftest import Laptop
from tests.bai.web.lab import PATIENCE, Lab, serving
from tests.lab.identity_provider import IdentityProviderLab
from tests.waiting import until


@pytest.fixture
def provider() -> Iterator[IdentityProviderLab]:
    made = IdentityProviderLab()
    yield made
    made.close()


def access_text(provider: IdentityProviderLab) -> str:
    return yaml.safe_dump(
        {
            "tokens": [{"name": "ci", "sha256": hash_of("a-token"), "role": "viewer"}],
            "oidc": [
                {
                    "issuer": provider.issuer, "audience": provider.client_id, "user": "email",
                    "clientId": provider.client_id,
                    "grants": [{"role": "operator", "users": ["ada@x"]}],
                }
            ],
        }
    )  # fmt: skip


@pytest.fixture
def server(tmp_path: Path, provider: IdentityProviderLab) -> Iterator[str]:
    yield from served(tmp_path, provider)


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """For tests of what logs nobody in."""
    made = IdentityProviderLab()
    yield from served(tmp_path_factory.mktemp("shared"), made)
    made.close()


def served(folder: Path, provider: IdentityProviderLab) -> Iterator[str]:
    """A server that believes the provider; nobody is given up for being slow."""
    file = folder / "access.yaml"
    file.write_text(access_text(provider))
    lab = Lab(folder, access=WatchedAccessFile(file, print))
    assert lab.once()
    with pytest.MonkeyPatch.context() as patch, serving(lab.app) as address:
        patch.setattr(oidc, "FETCH_TIMEOUT", PATIENCE)
        patch.setattr(identity_provider, "TIMEOUT", PATIENCE)
        yield address
    lab.close()


def typing(provider: IdentityProviderLab, **claims: str) -> threading.Thread:
    """Somebody elsewhere types in the code as soon as there is one."""

    def run() -> None:
        [code] = until(provider.waiting, "a code was asked for")
        provider.people[code] = {"sub": "u1", **claims}

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_at_an_identity_provider(server: str, provider: IdentityProviderLab, laptop: Laptop) -> None:
    thread = typing(provider, email="ada@x")
    said = laptop.ok("login", server)
    thread.join()
    assert f"Open {provider.issuer}/activate and enter " in said.err
    assert "as ada@x (operator). Context 127.0.0.1, cluster here." in said.out
    assert stat.S_IMODE(laptop.contexts.stat().st_mode) == 0o600
    assert laptop.ok("status").out.startswith("cluster    here")
    listed = laptop.ok("context", "list", "--format", "json").json["items"]
    assert listed == [{"name": "127.0.0.1", "server": server, "cluster": "here", "current": True}]
    said = laptop.ok("logout")
    assert "is forgotten" in said.out and "idToken" not in laptop.contexts.read_text()


def test_who_has_no_role_keeps_no_login(server: str, provider: IdentityProviderLab, laptop: Laptop) -> None:
    thread = typing(provider, email="eve@x")
    said = laptop("login", server)
    thread.join()
    assert said.code == 1 and "has no role here" in said.err and not laptop.contexts.exists()


def test_a_login_that_was_refused(server: str, provider: IdentityProviderLab, laptop: Laptop) -> None:
    def refuse() -> None:
        [code] = until(provider.waiting, "a code was asked for")
        provider.denied.add(code)

    thread = threading.Thread(target=refuse)
    thread.start()
    said = laptop("login", server)
    thread.join()
    assert said.code == 1 and "denied" in said.err and not laptop.contexts.exists()


def test_a_login_is_renewed_once_for_all_who_need_it(
    server: str, provider: IdentityProviderLab, laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.lifetime = 1.0
    thread = typing(provider, email="ada@x")
    laptop.ok("login", server)
    thread.join()
    monkeypatch.setenv("BAI_CONTEXTS", str(laptop.contexts))
    before = load_contexts().contexts["127.0.0.1"].oidc
    provider.lifetime, provider.requests = 3600.0, []
    tokens: list[str] = []
    threads = [threading.Thread(target=lambda: tokens.append(current_token("127.0.0.1"))) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(set(tokens)) == 1 and provider.requests == ["refresh_token"]
    after = load_contexts().contexts["127.0.0.1"].oidc
    assert before is not None and after is not None and after.idToken == tokens[0]
    assert after.refreshToken != before.refreshToken and expires_at(after.idToken) > time.time() + 3000
    assert laptop.ok("get").code == 0


def test_a_login_that_cannot_be_renewed(
    server: str, provider: IdentityProviderLab, laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.lifetime = 1.0
    thread = typing(provider, email="ada@x")
    laptop.ok("login", server)
    thread.join()
    provider.revoke()
    monkeypatch.setenv("BAI_CONTEXTS", str(laptop.contexts))
    with pytest.raises(LoginFailed):
        current_token("127.0.0.1")
    held = load_contexts().contexts["127.0.0.1"]
    assert held.oidc is not None
    bare = held.model_copy(update={"oidc": held.oidc.model_copy(update={"refreshToken": None})})
    with locked_contexts():
        save_contexts(load_contexts().with_context("127.0.0.1", bare))
    with pytest.raises(NotLoggedIn, match="bai login"):
        current_token("127.0.0.1")


def test_by_a_token(server: str, laptop: Laptop) -> None:
    secret = laptop.folder / "token"
    secret.write_text("a-token\n")
    said = laptop.ok("login", server, "--token", f"file:{secret}", "--name", "lab")
    assert "as ci (viewer). Context lab, cluster here." in said.out
    laptop.env["CI_TOKEN"] = "a-token"
    laptop.ok("login", server, "--token", "env:CI_TOKEN", "--name", "ci")
    assert laptop.ok("context").out.splitlines()[2].split()[:2] == ["*", "ci"]
    assert "Context lab is asked" in laptop.ok("context", "use", "lab").out
    laptop.ok("context", "use", "local")
    assert laptop("get").code == 1 and laptop.ok("get", "--context", "ci").code == 0
    laptop.env["BAI_CONTEXT"] = "lab"
    assert laptop.ok("get").code == 0


@pytest.mark.parametrize(
    ("words", "stdin", "why"),
    [
        (("login", "{server}", "--token", "-"), "wrong\n", "no such token"),
        (("login", "{server}", "--token", "-"), "", "this is no token"),
        (("login", "{server}", "--token", "-"), "a b\x1b[2J\n", "this is no token"),
        (("login", "{server}", "--token", "a-token"), "", "env:"),
        (("login", "http://bai.example", "--token", "-"), "x", "without TLS"),
        (("login", "ftp://bai.example"), "", "no address of a server"),
        (("login", "https://user:pw@bai.example"), "", "more than host, port and path"),
        (("login", "{server}", "--name", "local", "--token", "-"), "a-token", "no name of a context"),
        (("login", "{server}", "--name", "a/b", "--token", "-"), "a-token", "no name of a context"),
        (("login", "{server}", "--issuer", "https://evil.example"), "", "does not name"),
        (("login", "{server}", "--cluster", "there", "--token", "-"), "a-token", "has no cluster there"),
        (("login", "http://127.0.0.1:1"), "", "does not answer"),
        (("context", "use", "nowhere"), "", "there is no context 'nowhere'"),
        (("logout",), "", "no context is current"),
    ],
)
def test_what_logs_nobody_in(
    shared_server: str,
    laptop: Laptop,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    stdin: str,
    why: str,
) -> None:
    # Who does not answer is asked again after seconds, as often here without them.
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=lambda seconds: None))
    said = laptop(*(word.format(server=shared_server) for word in words), stdin=stdin)
    assert said.code == 1 and why in said.err and "Traceback" not in said.err, said.err
    assert "\x1b" not in said.err and not laptop.contexts.exists()


def test_another_server_does_not_take_a_contexts_place(server: str, laptop: Laptop) -> None:
    laptop.log_in(server, "a-token")
    before = laptop.contexts.read_text()
    port = server.rpartition(":")[2]
    said = laptop(
        "login", f"http://localhost:{port}", "--name", "127.0.0.1", "--token", "-", stdin="a-token\n"
    )
    assert said.code == 1 and "there is a context 127.0.0.1" in said.err
    assert laptop.contexts.read_text() == before


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("current: [", "contexts.yaml:"),
        ("contexts: {a: {server: 'http://bai.example'}}", "contexts.yaml:1:"),
        ("contexts: {a: {server: 'https://bai.example', tokn: x}}", "tokn"),
        ("contexts: {'a b': {server: 'https://bai.example'}}", "a b"),
    ],
)
def test_mistakes_in_the_file_are_said_with_their_place(
    text: str, why: str, laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop.contexts.parent.mkdir()
    laptop.contexts.write_text(text)
    laptop.contexts.chmod(0o600)
    monkeypatch.setenv("BAI_CONTEXTS", str(laptop.contexts))
    with pytest.raises(InvalidRepository) as error:
        load_contexts()
    assert why in " ".join(map(str, error.value.problems))


def test_tokens_that_others_can_read_are_not_used(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    laptop.contexts.parent.mkdir()
    laptop.contexts.write_text("{}")
    laptop.contexts.chmod(0o644)
    monkeypatch.setenv("BAI_CONTEXTS", str(laptop.contexts))
    with pytest.raises(CannotRead, match="others may read it"):
        load_contexts()
    laptop.contexts.unlink()
    os.mkfifo(laptop.contexts)
    with pytest.raises(CannotRead, match="FIFO"):
        load_contexts()


def test_without_a_file_there_are_no_contexts(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAI_CONTEXTS", str(laptop.contexts))
    assert load_contexts() == Contexts()
    assert "There is no context" in laptop.ok("context").err
