"""A panel that believes an identity provider, and browsers that log in there."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import yaml
from fastapi.testclient import TestClient

from bai.web.auth.access_file import WatchedAccessFile
from bai.web.auth.static_tokens import hash_of
from tests.bai.web.lab import PATIENCE, Lab, asking
from tests.lab.identity_provider import IdentityProviderLab

SAME = {"Sec-Fetch-Site": "same-origin"}
PANEL = "https://panel.test"
GRANTS = (
    {"role": "viewer", "groups": ["vision"], "projects": ["p"]},
    {"role": "admin", "groups": ["admins"]},
)
USERS: Mapping[str, Mapping[str, Any]] = {
    "ada": {"email": "ada@x", "groups": ["vision", "elsewhere"]},
    "root": {"email": "root@x", "groups": ["admins"]},
    "eve": {"email": "eve@x", "groups": ["elsewhere"]},
}


class LoginLab(Lab):
    """`access_file` is the file as it is written; `grant` writes it anew."""

    def __init__(self, folder: Path) -> None:
        self.provider = IdentityProviderLab()
        self.provider.browsers.users.update(USERS)
        self.access_file = folder / "access.yaml"
        self.grant()
        super().__init__(folder, access=WatchedAccessFile(self.access_file, print))
        self.once()

    def grant(self, *, providers: bool = True, anonymous: str | None = None, **changes: Any) -> None:
        """The same access file, with other words about the provider."""
        entry = {
            "issuer": self.provider.issuer, "audience": [self.provider.client_id, "another-api"],
            "clientId": self.provider.client_id, "user": "email", "grants": [*GRANTS], **changes,
        }  # fmt: skip
        tokens = [{"name": "typed", "sha256": hash_of("a-token"), "role": "viewer"}]
        written = {"tokens": tokens, "oidc": [entry] if providers else [], "anonymous": anonymous}
        fresh = self.access_file.with_suffix(".new")
        fresh.write_text(yaml.safe_dump(written))
        fresh.replace(self.access_file)

    def browser(self, address: str = PANEL, **headers: str) -> TestClient:
        return asking(self.app, base_url=address, follow_redirects=False, headers=headers)

    def begin(self, visitor: TestClient, next_path: str = "/") -> str:
        """Where the provider is asked."""
        answer = visitor.get("/login/oidc/0", params={"next": next_path})
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    def allow(self, asked: str, user: str) -> str:
        """The provider's answer to somebody who has said there who they are: an address of the panel."""
        # Nothing of TLS is here to be verified, for which each call would read the machine's certificates.
        answer = httpx.post(asked, data={"user": user}, timeout=PATIENCE, verify=False)
        assert answer.is_redirect, answer.text
        return answer.headers["location"]

    def log_in(self, visitor: TestClient, user: str, next_path: str = "/") -> Any:
        """What the panel answers in the end."""
        return visitor.get(self.allow(self.begin(visitor, next_path), user))

    def logged_in(self, user: str) -> TestClient:
        made = self.browser()
        answer = self.log_in(made, user)
        assert answer.status_code == 303, answer.text
        return made

    def close(self) -> None:
        with contextlib.suppress(AttributeError):
            super().close()
        self.provider.close()


def query_of(address: str) -> dict[str, str]:
    return {name: value for name, [value] in parse_qs(urlsplit(address).query).items()}
