"""An authorization service as registries refer to: tokens for whoever knows the password, to read only."""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

from tests.lab.certificates import Certificate


class TokenServer:
    """On a free port of the loopback. `asked` holds every request's query."""

    issuer = "bai-lab"
    service = "lab-registry"

    def __init__(self, user: str, password: str) -> None:
        self.certificate = Certificate.make("127.0.0.1")
        self.asked: list[dict[str, str]] = []
        self.login = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def realm(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/token"

    def token(self, repository: str, actions: tuple[str, ...]) -> str:
        """Signed for one repository; for none, it only proves who one is."""
        now = int(time.time())
        access = [{"type": "repository", "name": repository, "actions": list(actions)}] if repository else []
        head = {"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(self.certificate.der).decode()]}
        claims = {
            "iss": self.issuer, "sub": "bai", "aud": self.service, "iat": now, "nbf": now - 60,
            "exp": now + 600, "jti": str(uuid.uuid4()), "access": access,
        }  # fmt: skip
        text = f"{_part(head)}.{_part(claims)}"
        signature = self.certificate.private.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_encoded(signature)}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
                outer.asked.append(query)
                allowed = self.headers.get("Authorization") == outer.login
                kind, _, rest = query.get("scope", "").partition(":")
                name = rest.rpartition(":")[0] if kind == "repository" else ""
                body: dict[str, Any] = {"token": outer.token(name, ("pull",)), "expires_in": 600}
                if not allowed:
                    body = {"errors": [{"code": "UNAUTHORIZED", "message": "incorrect username or password"}]}
                content = json.dumps(body).encode()
                self.send_response(200 if allowed else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                return None

        return Handler


def _part(value: dict[str, Any]) -> str:
    return _encoded(json.dumps(value, separators=(",", ":")).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
