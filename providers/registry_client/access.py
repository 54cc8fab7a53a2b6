"""How one registry is reached and who asks."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field

from schemas.values.image_reference import DOCKER_HUB

_HUB_HOST = "registry-1.docker.io"
_HUB_KEY = "https://index.docker.io/v1/"


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """A registry with the credentials in clear text: made for a call, never kept or printed."""

    address: str
    """Host and port as in names of images."""
    plain_http: bool = False
    insecure: bool = False
    """TLS without looking at the certificate."""
    ca: str = ""
    """Certificates to trust instead of the system's, as PEM."""
    username: str = ""
    password: str = field(default="", repr=False)
    timeout: float = 20.0
    """Seconds for connecting, and of silence while reading."""

    @property
    def url(self) -> str:
        """Scheme and host of its API."""
        host = _HUB_HOST if self.address == DOCKER_HUB else self.address
        return f"{'http' if self.plain_http else 'https'}://{host}"

    def engine_auth(self) -> str:
        """The credentials as an engine wants them in `X-Registry-Auth`; empty for none."""
        if not self.username:
            return ""
        server = _HUB_KEY if self.address == DOCKER_HUB else self.address
        value = {"username": self.username, "password": self.password, "serveraddress": server}
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()
