"""Engines reached by other ways than their socket on this machine."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from providers.docker.engine import connection
from providers.docker.options import open_docker
from providers.docker.provider import DockerProvider
from providers.machines.base import Endpoint
from tests.lab.certificates import Certificate
from tests.lab.docker import Engine, Engines
from tests.lab.stores import secret_of
from tests.providers.docker.specs import kernel

pytestmark = pytest.mark.xdist_group("docker")
CLONE_NEWNET = 0x40000000
PORT = 2376


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread is on that node."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as before, open(f"/run/netns/{namespace}") as there:
        assert libc.setns(there.fileno(), CLONE_NEWNET) == 0
        try:
            yield
        finally:
            assert libc.setns(before.fileno(), CLONE_NEWNET) == 0


@pytest.fixture(scope="module")
def guarded(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Path]]:
    """An engine that listens with TLS and asks for a certificate, and the folder with ours."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("server", "client", "stranger"):
        made = Certificate.make("127.0.0.1")
        (folder / f"{name}.pem").write_bytes(made.pem)
        (folder / f"{name}.key").write_bytes(made.key)
    engine = engines.private(
        "--host", f"tcp://127.0.0.1:{PORT}", "--tlsverify", "--tlscacert", f"{folder}/client.pem",
        "--tlscert", f"{folder}/server.pem", "--tlskey", f"{folder}/server.key",
    )  # fmt: skip
    yield engine, folder
    engine.close()


def over_tls(engine: Engine, folder: Path, *, ca: str = "server", own: str = "client") -> DockerProvider:
    tls = {"caFrom": f"lab/{ca}.pem", "certFrom": f"lab/{own}.pem", "keyFrom": f"lab/{own}.key"}
    options = {"host": f"tcp://127.0.0.1:{PORT}", "tls": tls}
    there = Endpoint(engine.name, "127.0.0.1", options=options, secret=secret_of(folder, "*"))
    return open_docker({}, machines=[there])


def test_an_engine_that_listens_with_tls(guarded: tuple[Engine, Path]) -> None:
    engine, folder = guarded
    with inside(engine.namespace):
        provider = over_tls(engine, folder)
        made = provider.create(kernel(node=engine.name))
        assert [seen.id for seen in provider.observe().kernels] == [made.id]
        assert next(provider.usage()).kernel == made.id
        assert b"".join(provider.logs(made.id)) == b""
        provider.remove(made.id)
        assert provider.observe().kernels == ()
        provider.close()


@pytest.mark.parametrize(("ca", "own"), [("stranger", "client"), ("server", "stranger")])
def test_an_engine_that_is_not_trusted_or_trusts_us_not(
    guarded: tuple[Engine, Path], ca: str, own: str
) -> None:
    engine, folder = guarded
    with inside(engine.namespace):
        seen = over_tls(engine, folder, ca=ca, own=own).observe()
    assert (seen.kernels, list(seen.unreachable)) == ((), [engine.name])


@pytest.mark.parametrize(("text", "why"), [(None, "no such file"), ("no PEM", "tls: ")])
def test_certificates_that_cannot_be_read_make_their_engine_unreachable(
    tmp_path: Path, text: str | None, why: str
) -> None:
    if text is not None:
        (tmp_path / "ca.pem").write_text(text)
    options = {"host": "tcp://127.0.0.1:2376", "tls": {"caFrom": "lab/ca.pem"}}
    there = Endpoint("n", "127.0.0.1", options=options, secret=secret_of(tmp_path, "ca.pem"))
    seen = open_docker({}, machines=[there]).observe()
    assert why in seen.unreachable["n"]


def test_an_engine_by_its_context(engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (engine,) = engines(1)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    engine.docker("context", "create", "lab", "--docker", f"host=unix://{engine.socket}")
    digest = hashlib.sha256(b"lab").hexdigest()
    assert json.loads((tmp_path / "contexts/meta" / digest / "meta.json").read_text())["Name"] == "lab"
    provider = open_docker({"context": "lab"}, machines=[Endpoint(engine.name, "elsewhere")])
    assert provider.observe().unreachable == {}
    assert provider.capabilities().limits
    provider.close()


def test_a_node_without_an_engine_says_what_to_look_at(tmp_path: Path) -> None:
    none = tmp_path / "none.sock"
    machines = [Endpoint("n", "localhost", local=True, options={"socket": str(none)})]
    seen = open_docker({}, machines=machines).observe()
    assert seen.unreachable["n"].startswith(
        f"{none}: no such file or directory (is the docker daemon running"
    )
    assert seen.complete
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(none))
    seen = open_docker({}, machines=machines).observe()
    assert seen.unreachable["n"].startswith(f"{none}: connection refused (tried 4 times) (is the docker")


def test_what_to_do_depends_on_who_named_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SOCKET", str(tmp_path / "usual.sock"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    meta = tmp_path / "contexts/meta" / hashlib.sha256(b"mine").hexdigest() / "meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(json.dumps({"Endpoints": {"docker": {"Host": f"unix://{tmp_path}/own.sock"}}}))

    def said(**options: str) -> str:
        provider = open_docker({}, machines=[Endpoint("n", "localhost", local=True, options=options)])
        return provider.observe().unreachable["n"]

    assert said(context="mine").startswith(f"{tmp_path}/own.sock of docker context mine: no such file")
    assert "docker context ls" in said() and "usual.sock" in said()
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/user/1000/docker.sock")
    assert "DOCKER_HOST=unix:///run/user/1000/docker.sock is not read" in said()
    assert "DOCKER_HOST" not in said(socket=str(tmp_path / "own.sock"))
    assert said(host="tcp://127.0.0.1:1").startswith("127.0.0.1:1: connection refused (tried 4 times)")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_socket_that_is_not_ours_to_use(engines: Engines) -> None:
    (engine,) = engines(1)
    child = os.fork()
    if child == 0:  # the rest of the test is another user's
        code = 1
        try:
            os.setegid(65534)
            os.seteuid(65534)
            seen = open_docker({}, machines=[engine.endpoint()]).observe()
            code = 0 if "group docker" in seen.unreachable[engine.name] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
