"""Certificates of apps: whose they are, and how Caddy is told of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InternalCertificates:
    """Caddy's own certificate authority signs them."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class AcmeCertificates:
    """One for each app, when it is first asked for, where `permission` (a URL) says that there is such an
    app. Whoever signs them asks at port 443, which leads to `port` here."""

    email: str
    permission: str = ""
    port: int = 443


Certificates = InternalCertificates | CertificateFiles | AcmeCertificates


def tls_app(certificates: Certificates, hosts: list[str]) -> Json:
    """What Caddy has to know of certificates of `hosts`."""
    match certificates:
        case CertificateFiles(certificate, key):
            return {"certificates": {"load_files": [{"certificate": str(certificate), "key": str(key)}]}}
        case InternalCertificates():
            issuers: list[Json] = [{"module": "internal", "ca": "local"}]
            policy = {"subjects": hosts, "issuers": issuers}
            return {"certificates": {"automate": hosts}, "automation": {"policies": [policy]}}
        case AcmeCertificates(email, permission, port):
            account = {"email": email} if email else {}
            challenges = {"http": {"disabled": True}, "tls-alpn": {"alternate_port": port}}
            issuers = [{"module": "acme", **account, "challenges": challenges}]
            return {
                "automation": {
                    "policies": [{"subjects": hosts, "issuers": issuers, "on_demand": True}],
                    "on_demand": {"permission": {"module": "http", "endpoint": permission}},
                }
            }
