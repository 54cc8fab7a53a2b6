"""Bare git repositories behind HTTP with a password, served by git's own `git http-backend`.

    with GitHttp(folder) as forge:
        url = forge.repository("cluster")

`git.hook` is told of each push, as a forge tells it. What happens to servers can be done to it: `down`, `up`,
another `password`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

import requests

from tests.harness.ports import free_port
from tests.lab.cache import LabUnavailable, tool

USER, PASSWORD = "ada", "lab-secret-word-1"
LARGEST = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Hook:
    """Whom to tell of a push: the URL, and the secret that the message is signed with."""

    url: str
    secret: str

    def tell(self) -> None:
        """As GitHub does it."""
        body = json.dumps({"ref": "refs/heads/main", "nonce": os.urandom(8).hex()}).encode()
        signature = hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {"X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={signature}"}
        requests.post(self.url, data=body, headers=headers, timeout=30)


class GitHttp:
    """One server on the loopback; `folder` holds the repositories."""

    def __init__(self, folder: Path) -> None:
        backend = Path(_git(folder.parent, "--exec-path")) / "git-http-backend"
        if not backend.exists():
            raise LabUnavailable("git http-backend is not installed")
        self.backend = str(backend)
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.password = PASSWORD
        self.hook: Hook | None = None
        # Nobody else is given it, nor takes it for the end of a connection, while this one is down.
        self.port = free_port()
        self._server: ThreadingHTTPServer | None = None
        self.up()

    def up(self) -> None:
        """Answer, at the same port as before."""
        forge = self

        class Bound(_Answer):
            lab = forge

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Bound)
        self._server.daemon_threads = False
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def down(self) -> None:
        """Whoever asks is refused; who has asked before has the answer by then."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def repository(self, name: str) -> str:
        """A new, empty one; gives its address, without user and password."""
        path = self.path(name)
        _git(self.folder, "-c", "init.defaultBranch=main", "init", "--quiet", "--bare", str(path))
        _git(path, "config", "http.receivepack", "true")
        return f"http://127.0.0.1:{self.port}/{name}.git"

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.git"

    def with_password(self, url: str) -> str:
        """The address for those who push."""
        return url.replace("://", f"://{USER}:{self.password}@", 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.down()


class _Answer(BaseHTTPRequestHandler):
    lab: GitHttp
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(b"".join(self._body()))

    def _body(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            yield self.rfile.read(min(LARGEST, int(self.headers.get("Content-Length") or 0)))
            return
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _serve(self, body: bytes) -> None:
        wanted = base64.b64encode(f"{USER}:{self.lab.password}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {wanted}":
            self._answer(401, [("WWW-Authenticate", 'Basic realm="lab"')], b"")
            return
        path, _, query = self.path.partition("?")
        done = subprocess.run(
            [self.lab.backend], env=self._environment(path, query, len(body)), input=body,
            capture_output=True, check=False,
        )  # fmt: skip
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n") if ": " in line]
        status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
        plain = [(name, value) for name, value in headers if name != "Status"]
        self._answer(status if done.stdout else 500, plain, content)
        if path.endswith("/git-receive-pack") and status == 200 and self.lab.hook is not None:
            threading.Thread(target=self.lab.hook.tell, daemon=True).start()

    def _environment(self, path: str, query: str, length: int) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"], "HOME": str(self.lab.folder),
            "GIT_PROJECT_ROOT": str(self.lab.folder), "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_NOSYSTEM": "1", "PATH_INFO": path, "QUERY_STRING": query,
            "REQUEST_METHOD": self.command, "REMOTE_USER": USER, "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(length),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }  # fmt: skip

    def _answer(self, status: int, headers: list[tuple[str, ...]], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run([tool("git"), "-C", str(folder), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise LabUnavailable(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()
