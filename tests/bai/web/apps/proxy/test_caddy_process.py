"""Caddy as a child: it comes back, it ends with bai, and what it says can be read."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bai.web.apps.proxy.caddy_log import MOST, PERIOD, ThrottledLines, log_text
from bai.web.apps.proxy.certificates import CertificateFiles
from bai.web.apps.proxy.engine import find_engine
from bai.web.apps.proxy.private_folder import private_folder
from schemas.problems.errors.command import CommandError
from tests.bai.web.apps.app_lab import HOST, app_lab
from tests.waiting import until


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_killed_it_comes_back_and_only_what_is_under_way_breaks(tmp_path: Path) -> None:
    """New connections wait: its socket is bai's."""
    with app_lab(tmp_path) as lab, lab.talk() as cut:
        cut.send("a")
        assert cut.recv() == "heard a"
        for number in range(4):
            pid = lab.proxy.caddy.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            until(lambda pid=pid: lab.proxy.caddy.pid != pid, "it has ended")
            assert lab.ask().status_code == 200
            assert lab.said == ["ended with code -9, and is begun anew"] * (number + 1)
        with pytest.raises(Exception, match="close"):
            cut.recv(timeout=60)


def test_at_the_end_a_request_may_end_and_a_websocket_is_closed(tmp_path: Path) -> None:
    with app_lab(tmp_path) as lab, lab.talk() as talk:
        talk.send("a")
        assert talk.recv() == "heard a"
        pid = lab.proxy.caddy.pid
        folder = lab.proxy.tunnels.folder
        assert folder.stat().st_mode & 0o777 == 0o700 and (folder / "caddy.json").stat().st_mode & 0o077 == 0
        with httpx.stream("GET", f"{lab.url}/sse", headers={"Host": HOST}, timeout=60) as answer:
            lines = answer.iter_lines()
            assert next(lines) == "data: first"
            lab.go_on.set()
            lab.proxy.close()
            assert "data: second" in list(lines)
        with pytest.raises(Exception, match="1001"):
            talk.recv(timeout=60)
        assert pid is not None and not exists(pid)
        assert not folder.exists()
        assert not [line for line in lab.said if "byeee" in line or "background" in line]


KILLED = """
import socket, sys, time
from pathlib import Path
from bai.web.apps.proxy.app_proxy import AppProxyServer, AppProxySettings
from bai.web.apps.proxy.engine import find_engine
from bai.web.apps.proxy.private_folder import private_folder
listener = socket.create_server(("127.0.0.1", 0))
settings = AppProxySettings(None, find_engine(None), Path(sys.argv[1]))
proxy = AppProxyServer(settings, ["http://*.apps.example"], listener, lambda tunnels: None, None, print)
proxy.start()
print(proxy.caddy.pid, flush=True)
time.sleep(1000)
"""


def killed_while_it_serves(folder: Path) -> int:
    """The Caddy of a bai that was killed, whose temporary folder is this one."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    command = [sys.executable, "-c", KILLED, str(folder / "s")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert exists(pid)
        parent.kill()
    return pid


def test_bai_is_killed_and_no_caddy_is_left() -> None:
    """The folder that is left goes when the next one begins, and one that somebody lives in stays."""
    with tempfile.TemporaryDirectory(prefix="bai-t-") as name, pytest.MonkeyPatch.context() as patch:
        temporary = Path(name)
        pid = killed_while_it_serves(temporary)
        until(lambda: not exists(pid), "Caddy is gone")
        assert len(list(temporary.glob("bai-apps-*"))) == 1
        patch.setattr(tempfile, "tempdir", name)
        (temporary / "bai-apps-file").write_text("no folder")
        (temporary / "bai-apps-link").symlink_to(temporary / "s")
        with private_folder() as first, private_folder() as second:
            left = {each.name for each in temporary.glob("bai-apps-*")}
            assert left == {first.name, second.name, "bai-apps-file", "bai-apps-link"}
            assert (temporary / "s").is_dir() and first.stat().st_mode & 0o777 == 0o700
        assert not first.exists() and not second.exists()


def test_a_folder_whose_name_is_too_long_for_sockets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 80)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with private_folder() as folder:
        assert folder.parent == Path("/tmp")


def test_apps_move_to_another_domain(tmp_path: Path) -> None:
    """Whoever asks meanwhile waits, and nothing is said to have gone wrong."""
    with app_lab(tmp_path) as lab:
        first = lab.proxy.caddy.pid
        lab.proxy.serve(["http://*.apps.example"])
        assert lab.proxy.caddy.pid == first and lab.ask().status_code == 200
        lab.proxy.serve(["https://*.new.example:8443", "http://*.second.example"])
        until(lambda: lab.status() == 421, "the old domain is none any more")
        assert lab.told(host="a.new.example:8443")["x-forwarded-proto"] == "https"
        assert lab.gate.headers_of()["x-forwarded-proto"] == "https"
        assert lab.told(host="a.second.example")["x-forwarded-proto"] == "http"
        assert lab.said == []


def test_before_the_documents_are_known_clients_are_asked_to_come_again(tmp_path: Path) -> None:
    """They have the right address, as far as anybody knows: 421 would have them give up."""
    with app_lab(tmp_path) as lab:
        lab.proxy.serve([])
        until(lambda: lab.status() == 503, "the address is none any more")
        answer = lab.ask()
        assert answer.headers["retry-after"] == "2" and "no AppProxy yet" in answer.text
        lab.proxy.serve(["http://*.apps.example"])
        until(lambda: lab.status() == 200, "it is one again")
        assert lab.ask(host="a.elsewhere.example").status_code == 421


def test_what_cannot_be_written_changes_nothing_and_is_tried_again(tmp_path: Path) -> None:
    """A loop that tells of new documents does not end by it."""
    with app_lab(tmp_path) as lab:
        config = lab.proxy.tunnels.folder / "caddy.json"
        before, blocked = config.read_bytes(), config.with_suffix(".new")
        blocked.mkdir()
        lab.proxy.serve(["http://*.moved.example"])
        assert lab.said == ["goes on as it was: Is a directory"] and config.read_bytes() == before
        blocked.rmdir()
        lab.proxy.serve(["http://*.moved.example"])
        assert b"moved" in config.read_bytes()


def test_what_it_has_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAI_SECRET", "hidden")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with app_lab(tmp_path) as lab:
        pid = lab.proxy.caddy.pid
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert b"BAI_SECRET" not in environment and b"PROXY" not in environment and b"HOME=" in environment
        assert lab.ask().status_code == 200


def test_nobody_can_tell_it_anything(tmp_path: Path) -> None:
    """It listens at the one socket that it was given, and has no administration."""
    with app_lab(tmp_path) as lab:
        pid = lab.proxy.caddy.pid
        inodes = set()
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                inodes.add(os.readlink(link).removeprefix("socket:[").rstrip("]"))
        listening = []
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    listening.append(int(fields[1].rpartition(":")[2], 16))
        assert set(listening) == {lab.port}


def test_a_certificate_that_is_none_is_said(tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path / "no.crt", tmp_path / "no.key")
    with (
        pytest.raises(CommandError, match=r"Caddy does not start: .*no\.crt"),
        app_lab(tmp_path, certificates=files),
    ):
        pass


def write_certificate(folder: Path, number: int) -> CertificateFiles:
    """Signed by itself, for all apps, and at the place of the one before."""
    files = CertificateFiles(folder / "apps.crt", folder / "apps.key")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"number {number}")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), number, now, now + timedelta(days=60))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("*.apps.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    files.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
    files.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return files


def test_files_of_certificates_are_read_again_when_they_are_renewed(tmp_path: Path) -> None:
    """What is none takes nothing away."""
    files = write_certificate(tmp_path, 1)

    def shown() -> int:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with (
            socket.create_connection(("127.0.0.1", lab.port), timeout=60) as stream,
            context.wrap_socket(stream, server_hostname=HOST) as secured,
        ):
            return x509.load_der_x509_certificate(secured.getpeercert(binary_form=True) or b"").serial_number

    def is_renewed() -> bool:
        with contextlib.suppress(OSError):  # Who is about to end may cut it.
            return shown() == 2
        return False

    with app_lab(tmp_path / "s", certificates=files) as lab:
        assert shown() == 1
        urls = ["https://*.apps.example"]
        pid = lab.proxy.caddy.pid
        lab.proxy.serve(urls)
        files.key.write_text("no key")
        for _ in range(2):
            lab.proxy.serve(urls)
        assert lab.proxy.caddy.pid == pid and shown() == 1
        assert len(lab.said) == 1 and lab.said[0].startswith("goes on as it was: error: ")
        write_certificate(tmp_path, 2)
        lab.proxy.serve(urls)
        until(is_renewed, "the new one is shown")
        assert len(lab.said) == 1


def test_no_engine_or_an_old_one_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_engine(None)
    assert found.is_absolute() and found.name == "caddy"
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\necho v2.6.2 h1:x\n")
    old.chmod(0o755)
    with pytest.raises(CommandError, match=r"is Caddy 2\.6\.2; apps need 2\.11 or newer"):
        find_engine(old)
    old.write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(CommandError, match="does not say which Caddy"):
        find_engine(old)
    with pytest.raises(CommandError, match="no such file"):
        find_engine(tmp_path / "nothing")
    monkeypatch.setattr("bai.web.apps.proxy.engine.WHEEL", "no-such-wheel")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandError, match="there is none here") as refused:
        find_engine(None)
    assert "pip install 'bai[apps]'" in refused.value.hint
    (tmp_path / "caddy").symlink_to(found)
    assert find_engine(None) == tmp_path / "caddy"


def said(**entry: object) -> str:
    return log_text(json.dumps(entry))


def test_what_it_says_in_lines_for_people() -> None:
    error = said(level="error", logger="tls.obtain", msg="could not get", identifier="a.b", error="no route")
    assert error == "error: could not get (a.b): no route"
    told = said(level="info", logger="tls.obtain", msg="certificate obtained successfully", identifier="*.b")
    assert told == "certificate obtained successfully (*.b)"
    assert said(level="info", logger="http", msg="enabling HTTP/2") == ""
    assert (
        log_text("Error: loading initial config: no such module\n")
        == "Error: loading initial config: no such module"
    )
    assert log_text("[1]") == "" and len(log_text("x" * 10_000)) == 1000


def test_a_flood_of_lines_fills_no_log() -> None:
    lines: list[str] = []
    now = [0.0]
    say = ThrottledLines(lines.append, lambda: now[0])
    for number in range(1000):
        say(str(number))
    assert lines == [str(number) for number in range(MOST)]
    now[0] = PERIOD
    say("again")
    assert lines[MOST:] == [f"{1000 - MOST} more lines were left out", "again"]


def test_requests_that_fail_are_no_lines(tmp_path: Path) -> None:
    with app_lab(tmp_path) as lab:
        lab.gate.port = 1
        for _ in range(5):
            assert lab.ask(path="/?secret=1").status_code == 503
        assert lab.said == ["port 1 of kernel is not reached: connection refused"]
