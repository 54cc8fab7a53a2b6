"""Certificates for servers of the lab, signed by themselves."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM, DER and the private key."""

    pem: bytes
    der: bytes
    key: bytes
    private: rsa.RSAPrivateKey

    @classmethod
    def make(cls, host: str) -> Self:
        """One for an address or a name, which is its own authority."""
        private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bai lab")])
        now = datetime.now(UTC)
        try:
            known: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            known = x509.DNSName(host)
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(private.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=2))
            .add_extension(x509.SubjectAlternativeName([known]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(private, hashes.SHA256())
        )
        key = private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        encoding = serialization.Encoding
        return cls(made.public_bytes(encoding.PEM), made.public_bytes(encoding.DER), key, private)
