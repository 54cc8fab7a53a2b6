"""Where the API server is, and who we are there."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from providers.kubernetes.api.access import (
    ClusterAccess,
    find_access,
    kubeconfig_access,
    service_account_access,
)
from schemas.problems.errors.provider import ProviderUnavailable

V1 = "client.authentication.k8s.io/v1"


def config(**fields: Any) -> dict[str, Any]:
    """A kubeconfig with the contexts `a` and `b`; `cluster` and `user` are what `a` uses."""
    cluster = {"server": "https://a:6443", **fields.pop("cluster", {})}
    return {
        "current-context": "a",
        "clusters": [{"name": "c", "cluster": cluster}, {"name": "d", "cluster": {"server": "https://d/x/"}}],
        "users": [{"name": "u", "user": fields.pop("user", {"token": "t"})}],
        "contexts": [
            {"name": "a", "context": {"cluster": "c", "user": "u"}},
            {"name": "b", "context": {"cluster": "d", "user": "u"}},
        ],
        **fields,
    }


def written(folder: Path, content: Any, name: str = "config") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def access(folder: Path, context: str = "", **fields: Any) -> ClusterAccess:
    return kubeconfig_access([written(folder, config(**fields))], context)


def test_the_current_context_or_the_named_one(tmp_path: Path) -> None:
    assert access(tmp_path).server == "https://a:6443"
    named = access(tmp_path, "b")
    assert (named.server, named.context, named.credentials.token()) == ("https://d/x", "b", "t")
    with pytest.raises(ProviderUnavailable, match="no context 'z'; it has a, b"):
        access(tmp_path, "z")
    with pytest.raises(ProviderUnavailable, match="no current context"):
        access(tmp_path, **{"current-context": None})


def test_of_several_files_the_first_that_names_something_counts(tmp_path: Path) -> None:
    one = written(tmp_path / "one", {"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]})
    two = written(
        tmp_path / "two", {**config(cluster={"certificate-authority": "ca.pem"}), "current-context": "x"}
    )
    three = written(tmp_path / "three", config(user={"token": "other"}))
    (tmp_path / "two" / "ca.pem").write_bytes(b"PEM")
    env = {"KUBECONFIG": f"{one}:{tmp_path}/nowhere::{two}:{three}"}
    found = find_access("", env)
    assert (found.server, found.ca, found.credentials.token()) == ("https://a:6443", b"PEM", "t")


def test_relative_paths_begin_beside_the_file_and_data_is_base64(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key", "token"):
        (tmp_path / name).write_text(f"{name}\n")
    files = {"client-certificate": "cert", "client-key": "key", "tokenFile": "token", "token": "t"}
    found = access(tmp_path, cluster={"certificate-authority": "ca", "tls-server-name": "n"}, user=files)
    certificate = found.credentials.certificate()
    assert certificate is not None and (certificate.certificate, certificate.key) == (b"cert\n", b"key\n")
    assert (found.ca, found.server_name, found.credentials.token()) == (b"ca\n", "n", "token")
    (tmp_path / "token").write_text("renewed")
    assert found.credentials.token() == "renewed"
    assert "key" not in repr(certificate)
    data = base64.b64encode(b"inline").decode()
    given = access(tmp_path, cluster={"certificate-authority-data": data}, user={"token": "hidden"})
    assert given.ca == b"inline" and "hidden" not in repr(given)
    for bad in ({"certificate-authority-data": "%"}, {"certificate-authority": "nowhere"}):
        with pytest.raises(ProviderUnavailable):
            access(tmp_path, cluster=bad)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"cluster": {"server": "http://a"}}, "must be https"),
        ({"cluster": {"server": None}}, "must be https"),
        ({"cluster": {"proxy-url": "http://p"}}, "proxy-url is not supported"),
        ({"user": {"username": "u", "password": "p"}}, "no longer taken"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "no longer taken"),
        ({"user": {"exec": {"command": "x", "apiVersion": "v1alpha1"}}}, "v1alpha1"),
        ({"user": {"exec": "x"}}, "is no mapping"),
        ({"user": {"exec": {"apiVersion": V1, "command": "x", "env": ["A"]}}}, "is no mapping"),
        ({"users": "u"}, "is no list"),
        ({"users": ["u"]}, "is no list"),
        ({"contexts": [{"name": "a", "context": "c"}]}, "is no list"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(tmp_path: Path, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ProviderUnavailable, match=why):
        access(tmp_path, **fields)


@pytest.mark.parametrize("content", ["- a", "a: [", "\x00", "!!python/object/apply:os.getcwd []"])
def test_what_is_no_kubeconfig_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(ProviderUnavailable, match="kubeconfig"):
        kubeconfig_access([written(tmp_path, content)])


def test_without_a_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(ProviderUnavailable, match="no kubeconfig at") as caught:
        find_access("", {"HOME": str(tmp_path)})
    assert "KUBECONFIG" in caught.value.hint
    written(tmp_path / ".kube", config())
    assert find_access("", {"HOME": str(tmp_path)}).server == "https://a:6443"


def test_in_a_pod_its_service_account_counts(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one")
    (tmp_path / "ca.crt").write_text("CA")
    env = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    found = service_account_access(env, tmp_path)
    assert (found.server, found.ca, found.credentials.token()) == ("https://[fd00::1]:6443", b"CA", "one")
    (tmp_path / "token").write_text("two")
    assert found.credentials.token() == "two"
    with pytest.raises(ProviderUnavailable, match="KUBERNETES_SERVICE_HOST"):
        service_account_access({}, tmp_path)


def plugin(folder: Path, text: str, **more: Any) -> ClusterAccess:
    """By a program `bin/plugin` beside the kubeconfig."""
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin" / "plugin"
    program.write_text(f"#!/bin/sh\ncd {folder}\necho run >> runs\n{text}\n")
    program.chmod(0o755)
    said = {"command": "./bin/plugin", "apiVersion": V1, **more}
    return access(folder, user={"exec": said}, cluster={"tls-server-name": "n"})


def answers(folder: Path, status: Any) -> str:
    (folder / "answer").write_text(json.dumps({"kind": "ExecCredential", "status": status}))
    return "cat answer"


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().split())


def test_a_plugin_is_asked_once_and_again_when_it_has_to_be(tmp_path: Path) -> None:
    text = answers(tmp_path, {"token": "one"})
    found = plugin(
        tmp_path, f'printf "%s" "$KUBERNETES_EXEC_INFO" > info; echo "$MORE $1" > said; {text}',
        args=["get"], env=[{"name": "MORE", "value": "more"}], provideClusterInfo=True,
    )  # fmt: skip
    credentials = found.credentials
    assert not (tmp_path / "runs").exists(), "nobody has asked yet"
    assert [credentials.token() for _ in range(3)] == ["one"] * 3 and credentials.certificate() is None
    assert runs(tmp_path) == 1 and (tmp_path / "said").read_text() == "more get\n"
    info = json.loads((tmp_path / "info").read_text())
    assert info["apiVersion"] == V1 and info["spec"]["interactive"] is False
    assert info["spec"]["cluster"] == {"server": "https://a:6443", "tls-server-name": "n"}
    answers(tmp_path, {"clientCertificateData": "C", "clientKeyData": "K"})
    credentials.forget()
    certificate = credentials.certificate()
    assert certificate is not None and (certificate.certificate, certificate.key) == (b"C", b"K")
    assert credentials.token() == "" and runs(tmp_path) == 2


@pytest.mark.parametrize(("seconds", "asked"), [(3600, 1), (20, 2), (-5, 2)])
def test_what_ends_soon_is_renewed(tmp_path: Path, seconds: int, asked: int) -> None:
    ends = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    credentials = plugin(
        tmp_path, answers(tmp_path, {"token": "one", "expirationTimestamp": ends})
    ).credentials
    assert credentials.token() == credentials.token() == "one" and runs(tmp_path) == asked


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo first >&2; echo expired login >&2; exit 3", "ended with 3: expired login"),
        ("exit 1", "it said nothing"),
        ("echo hello", "ExecCredential"),
        ("echo '[]'", "ExecCredential"),
        ("echo '{}'", "ExecCredential"),
        ("""echo '{"status": {}}'""", "ExecCredential"),
        ("""echo '{"status": "token"}'""", "ExecCredential"),
    ],
)
def test_a_plugin_that_fails_says_why(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ProviderUnavailable, match=why):
        plugin(tmp_path, text).credentials.token()


def test_a_plugin_that_is_not_there(tmp_path: Path) -> None:
    found = access(tmp_path, user={"exec": {"command": "no-such-plugin", "apiVersion": V1}})
    with pytest.raises(ProviderUnavailable, match="no-such-plugin"):
        found.credentials.token()
