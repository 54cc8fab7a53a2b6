"""Public keys in PEM, as `cosign generate-key-pair` and `openssl` write them, and what they have signed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from schemas.problems.issues import value_error

LARGEST_KEY = 16 * 1024
_LEAST_RSA = 2048
_HINT = "write what `cosign public-key` prints: -----BEGIN PUBLIC KEY-----, ..."


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key by which signatures are verified."""

    fingerprint: str
    """`sha256:…` of its DER form (SubjectPublicKeyInfo): the same however its text is laid out."""
    kind: str
    """`ECDSA P-256`, `RSA` or `Ed25519`."""
    _verify: Callable[[bytes, bytes], bool] = field(repr=False, compare=False)

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Whether its owner signed these bytes: ECDSA and RSA (PKCS #1 v1.5) over SHA-256, as cosign does."""
        return self._verify(message, signature)


@lru_cache(256)
def parse_public_key(text: str) -> PublicKey:
    """Raises ValueError for what is no key of a kind that signs images."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    if "PRIVATE KEY" in text:
        raise ValueError("it is a private key")
    if len(text) > LARGEST_KEY or text.count("-----BEGIN ") > 1:
        raise ValueError("it is more than one key")
    try:
        key = serialization.load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("it is no public key in PEM") from None
    kind, verify = _signature_verifier(key)
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return PublicKey(f"sha256:{hashlib.sha256(der).hexdigest()}", kind, verify)


def _signature_verifier(key: object) -> tuple[str, Callable[[bytes, bytes], bool]]:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

    def check(message: bytes, signature: bytes) -> bool:
        try:
            if isinstance(key, ec.EllipticCurvePublicKey):
                key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
            elif isinstance(key, rsa.RSAPublicKey):
                key.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
            else:
                assert isinstance(key, ed25519.Ed25519PublicKey)
                key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return "ECDSA P-256", check
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < _LEAST_RSA:
            raise ValueError(f"an RSA key of {key.key_size} bits is too short, {_LEAST_RSA} are the least")
        return "RSA", check
    if isinstance(key, ed25519.Ed25519PublicKey):
        return "Ed25519", check
    raise ValueError("it is neither ECDSA P-256 nor RSA nor Ed25519")


def _validate_public_key(text: str) -> str:
    try:
        parse_public_key(text)
    except ValueError as error:
        raise value_error(str(error), _HINT, "BAI-V033") from None
    return text


PublicKeyText = Annotated[
    str,
    AfterValidator(_validate_public_key),
    WithJsonSchema({"type": "string", "pattern": "^-----BEGIN PUBLIC KEY-----"}),
]
