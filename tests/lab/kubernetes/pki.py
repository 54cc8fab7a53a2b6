"""The cluster's own certificate authority, and what it signs."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_BOTH = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """`ca.crt` and what it signs, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject("bai lab authority")
        ca = x509.BasicConstraints(ca=True, path_length=0)
        made = _builder(self._name, self._name, self._key).add_extension(ca, critical=True)
        self.certificate = folder / "ca.crt"
        self.certificate.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))

    def issue(self, user: str, group: str = "", *, hosts: tuple[str, ...] = ()) -> Pair:
        """For a server at `hosts` (names or addresses) and for a client who is `user` of `group`."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _builder(_subject(user, group), self._name, key).add_extension(_BOTH, critical=False)
        if hosts:
            made = made.add_extension(x509.SubjectAlternativeName(list(map(_host, hosts))), critical=False)
        file = self._folder / user.replace(":", "-")
        pair = Pair(file.with_suffix(".crt"), file.with_suffix(".key"))
        pair.certificate.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))
        write_key(pair.key, key)
        return pair


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def signing_keys(folder: Path) -> tuple[Path, Path]:
    """A new key with which tokens are signed, and its public half."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = folder / "tokens.key", folder / "tokens.pub"
    write_key(private, key)
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, spki))
    return private, public


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=30))
    )


def _subject(user: str, group: str = "") -> x509.Name:
    names = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group:
        names.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(names)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
