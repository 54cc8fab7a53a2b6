"""What apps are asked and answer, through the real Caddy, the gate and a tunnel."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from bai.web.apps.proxy.certificates import AcmeCertificates, InternalCertificates
from tests.bai.web.apps.app_lab import HOST, AppLab, app_lab, dial_loopback


def test_the_gate_hears_what_is_asked_and_the_app_what_the_gate_says(apps: AppLab) -> None:
    apps.gate.allowed = {"Bai-Cookie": "theme=dark", "Bai-Authorization": "token jupyter"}
    asked = {
        "Cookie": "__Host-bai-app=sealed; theme=dark",
        "Authorization": "Bearer bai",
        "Origin": "http://x",
    }
    app = apps.ask("POST", "/a%2Fb/c?x=1&y={env.HOME}", headers=asked, content=b"x" * 5_000_000).json()
    assert (app["method"], app["path"], app["query"]) == ("POST", "/a%2Fb/c", "x=1&y={env.HOME}")
    assert app["size"] == 5_000_000
    headers = dict(app["headers"])
    assert headers["host"] == headers["x-forwarded-host"] == HOST
    assert (headers["x-forwarded-proto"], headers["x-forwarded-for"]) == ("http", "127.0.0.1")
    assert (headers["cookie"], headers["authorization"]) == ("theme=dark", "token jupyter")
    assert headers["origin"] == "http://x"
    [(path, _)] = apps.gate.asked
    gate = apps.gate.headers_of()
    assert path == "/check" and gate["cookie"] == asked["Cookie"] and gate["authorization"] == "Bearer bai"
    assert (gate["x-forwarded-method"], gate["x-forwarded-host"]) == ("POST", HOST)
    assert gate["x-forwarded-uri"] == "/a%2Fb/c?x=1&y={env.HOME}" and gate["x-forwarded-proto"] == "http"
    assert (gate["bai-upgrade"], gate["origin"]) == ("", "http://x")
    assert "content-length" not in gate and "transfer-encoding" not in gate


@pytest.mark.parametrize(
    ("allowed", "cookie", "authorization"),
    [
        ({}, None, None),
        ({"Bai-Cookie": "a=b"}, "a=b", None),
        ({"Bai-Authorization": "Basic x"}, None, "Basic x"),
    ],
)
def test_what_the_gate_leaves_out_is_taken_off(
    apps: AppLab, allowed: dict[str, str], cookie: str | None, authorization: str | None
) -> None:
    apps.gate.allowed = allowed
    headers = apps.told(headers={"Cookie": "bai=1", "Authorization": "Bearer bai"})
    assert (headers.get("cookie"), headers.get("authorization")) == (cookie, authorization)


@pytest.mark.parametrize("status", [302, 401, 403, 404, 503, 204])
def test_any_other_answer_of_the_gate_is_the_clients(apps: AppLab, status: int) -> None:
    said = {"Location": "http://panel/", "Set-Cookie": "__Host-bai-app=x; Path=/"}
    apps.gate.answer = lambda path, headers: (status, said, b"" if status == 204 else b"no")
    answer = apps.ask("POST", "/", content=b"x" * 100_000)
    assert answer.status_code == status and answer.headers["set-cookie"] == said["Set-Cookie"]
    assert answer.headers["location"] == "http://panel/" and answer.text == ("" if status == 204 else "no")


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "PUT", "PATCH", "DELETE", "PROPFIND", "TRACE"])
def test_methods(apps: AppLab, method: str) -> None:
    assert apps.ask(method, "/m").json()["method"] == method
    assert apps.gate.headers_of()["x-forwarded-method"] == method


def test_only_the_head(apps: AppLab) -> None:
    answer = apps.ask("HEAD", "/m")
    assert answer.status_code == 200 and answer.content == b"" and int(answer.headers["content-length"]) > 0


def test_a_body_in_chunks(apps: AppLab) -> None:
    assert apps.ask("POST", "/", content=iter([b"ab", b"c" * 70_000])).json()["size"] == 70_002


def test_a_client_that_waits_to_be_told_to_go_on(apps: AppLab) -> None:
    with socket.create_connection(("127.0.0.1", apps.port), timeout=60) as stream:
        waits = "Content-Length: 3\r\nExpect: 100-continue\r\nConnection: close"
        stream.sendall(f"POST / HTTP/1.1\r\nHost: {HOST}\r\n{waits}\r\n\r\n".encode())
        assert stream.recv(4096).startswith(b"HTTP/1.1 100 ")
        stream.sendall(b"abc")
        answer = b""
        while part := stream.recv(65536):
            answer += part
    assert b'"size":3' in answer and "expect" not in apps.gate.headers_of()


def test_events_come_as_they_are_sent(apps: AppLab) -> None:
    with httpx.stream("GET", f"{apps.url}/sse", headers={"Host": HOST}, timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "data: first"
        apps.go_on.set()
        assert "data: second" in list(lines)


def test_a_websocket(apps: AppLab) -> None:
    with apps.talk() as talk:
        for number in range(3):
            talk.send(str(number))
            assert talk.recv() == f"heard {number}"
        assert talk.response is not None
        assert talk.response.headers.get_all("Set-Cookie") == ["w=1; Path=/"]
    assert apps.gate.headers_of()["bai-upgrade"] == "websocket"


def test_what_an_app_sets_stays_its_own(apps: AppLab) -> None:
    answer = apps.ask("GET", "/cookies")
    assert answer.headers.get_list("set-cookie") == [
        "a=1; Path=/",
        "b=2; Path=/; HttpOnly",
        "c=3;dOmAiN;Secure",
        "d=4",
        "e=domain=kept; Path=/",
        *[""] * 4,
    ]
    assert not {"clear-site-data", "alt-svc", "bai-x"} & set(answer.headers)


def test_an_app_that_does_not_answer(apps: AppLab) -> None:
    """The gate tells why, and is asked as it was before."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        real, apps.gate.port = apps.gate.port, free.getsockname()[1]
        try:
            asked = {"Accept": "text/html", "Cookie": "bai={env.HOME}", "Authorization": "Bearer bai"}
            answer = apps.ask("POST", "/x", headers=asked, content=b"abc")
        finally:
            nobody, apps.gate.port = apps.gate.port, real
    assert (answer.status_code, answer.text) == (503, "it does not answer yet")
    assert answer.headers["retry-after"] == "3"
    assert [path for path, _ in apps.gate.asked] == ["/check", "/unanswered"]
    assert apps.gate.headers_of(0) == apps.gate.headers_of(1)
    assert apps.proxy.tunnels.failure("kernel", nobody) == "connection refused"
    assert f"port {nobody} of kernel is not reached: connection refused" in apps.said


def test_the_gate_breaks(tmp_path: Path) -> None:
    """Whoever asks meanwhile is told to come again."""
    with app_lab(tmp_path) as lab:
        assert lab.ask().status_code == 200
        lab.proxy._gate.close()
        answer = lab.ask()
        assert answer.status_code == 503 and answer.headers["retry-after"] == "2"


def test_by_tls_with_its_own_authority(tmp_path: Path) -> None:
    with app_lab(tmp_path, certificates=InternalCertificates()) as lab:
        with httpx.Client(verify=lab.trust(), timeout=60) as client:
            answer = client.get(
                f"https://127.0.0.1:{lab.port}/", headers={"Host": HOST}, extensions={"sni_hostname": HOST}
            )
        assert dict(answer.json()["headers"])["x-forwarded-proto"] == "https"
        assert lab.gate.headers_of()["x-forwarded-proto"] == "https"
        assert tmp_path.stat().st_mode & 0o077 == 0


def test_http2_with_curl(tmp_path: Path) -> None:
    with app_lab(tmp_path, certificates=InternalCertificates()) as lab:
        told = curl(lab, "/", "-d", "x" * 1000)
        assert told == "2 200" and lab.gate.headers_of()["x-forwarded-method"] == "POST"


def curl(lab: AppLab, path: str, *options: str) -> str:
    """Version of HTTP and status."""
    root = str(lab.storage / "pki/authorities/local/root.crt")
    command = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", "--http2"]
    where = [
        "--cacert",
        root,
        "--resolve",
        f"{HOST}:{lab.port}:127.0.0.1",
        f"https://{HOST}:{lab.port}{path}",
    ]
    try:
        return subprocess.run([*command, *options, *where], capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip("no curl, which speaks HTTP/2")


def test_certificates_when_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For apps alone. Caddy's own authority stands in for the one that would be asked by ACME."""
    from bai.web.apps.proxy import caddy_config

    def configured(certificates: object, hosts: list[str]) -> caddy_config.Json:
        made = original(certificates, hosts)  # type: ignore[arg-type]
        made["automation"]["policies"][0]["issuers"] = [{"module": "internal"}]
        return made

    original = caddy_config.tls_app
    monkeypatch.setattr(caddy_config, "tls_app", configured)
    with app_lab(tmp_path, certificates=AcmeCertificates("ops@example")) as lab:
        lab.gate.certificates = frozenset({HOST})
        url = f"https://127.0.0.1:{lab.port}/"
        with httpx.Client(verify=False, timeout=60) as client:
            answer = client.get(url, headers={"Host": HOST}, extensions={"sni_hostname": HOST})
            assert answer.status_code == 200
        with pytest.raises(httpx.ConnectError), httpx.Client(verify=False, timeout=60) as client:
            client.get(url, extensions={"sni_hostname": "other.apps.example"})
        permission = lab.proxy._gate.permission_url
        assert httpx.get(permission, params={"domain": HOST}, timeout=60).status_code == 200
        assert httpx.get(permission.replace("/certificate", "/check"), timeout=60).status_code == 404


def test_an_app_that_speaks_tls_itself(tmp_path: Path) -> None:
    with app_lab(tmp_path / "a", certificates=InternalCertificates()) as outer:
        # Its own port is an app with TLS.
        def dial(kernel_id: str, port: int) -> socket.socket:
            return dial_loopback(kernel_id, outer.port)

        with app_lab(tmp_path / "b", dial=dial) as lab:
            lab.gate.protocol = "https"
            assert lab.told()["host"] == HOST
