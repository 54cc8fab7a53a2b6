"""Signatures of images as `cosign sign --key` leaves them in registries. Pure.

An image's signatures are layers of the manifest at the tag `sha256-<hex>.sig` of its repository: each layer
is a payload ("simple signing"), and an annotation of it the signature over the payload's bytes
(https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md). What cosign 3 writes is a bundle
beside the image, named by the list of its referrers: a DSSE envelope around an in-toto statement
(https://github.com/secure-systems-lab/dsse/blob/master/protocol.md).

Nothing that a registry gives is believed: what counts is a payload that one of the keys has signed, and that
names the digest asked about.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.files.strict_json import parse_json
from schemas.values.public_keys import PublicKey

MOST_SIGNATURES = 64
"""Of one image; more are not looked at."""
LARGEST_PAYLOAD = 64 * 1024
PAYLOAD = "application/vnd.dev.cosign.simplesigning.v1+json"
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_EMPTY = "application/vnd.oci.empty.v1+json"
_SIGNATURE = "dev.cosignproject.cosign/signature"
_TYPE = "cosign container image signature"
_IN_TOTO = "application/vnd.in-toto+json"
_PREDICATE = "https://sigstore.dev/cosign/sign/v1"


@dataclass(frozen=True, slots=True)
class SignatureLayer:
    """Where the bytes are that are signed, or the bundle that holds both; `signature` is empty then."""

    digest: str
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class VerifiedSignature:
    """A signature that was verified."""

    digest: str
    key: PublicKey
    named: str = ""
    """What the image was called when it was signed: shown, and trusted with nothing."""


def signature_tag(digest: str) -> str:
    """`sha256-<hex>.sig`: where an image's signatures are."""
    return digest.replace(":", "-") + ".sig"


def signature_layers(content: bytes) -> Iterator[SignatureLayer]:
    """The signatures that a manifest names, at most `MOST_SIGNATURES`. Raises ValueError for what is no
    manifest; a layer that cannot be a signature is passed over."""
    found = _as_object(parse_json(content, unique=True)).get("layers")
    if not isinstance(found, list):
        raise ValueError("it has no list of layers")
    if len(found) > MOST_SIGNATURES:
        raise ValueError(f"it has {len(found)} signatures, at most {MOST_SIGNATURES} are looked at")
    for each in found:
        if isinstance(each, dict) and isinstance(each.get("digest"), str) and _is_small(each.get("size")):
            if each.get("mediaType") == BUNDLE:
                yield SignatureLayer(each["digest"])
            elif each.get("mediaType") == PAYLOAD and (signature := _signature_annotation(each)):
                yield SignatureLayer(each["digest"], signature)


def _signature_annotation(layer: Mapping[str, Any]) -> bytes:
    notes = layer.get("annotations")
    return _decode_base64(notes.get(_SIGNATURE)) if isinstance(notes, dict) else b""


def bundle_digests(content: bytes) -> tuple[str, ...]:
    """Digests of the manifests of bundles, of a list of referrers. Raises ValueError."""
    found = _as_object(parse_json(content, unique=True)).get("manifests")
    if not isinstance(found, list):
        raise ValueError("it has no list of manifests")
    # Where the list is kept at a tag, cosign writes the type of the empty configuration into it.
    types = (BUNDLE, _EMPTY)
    mine = [each for each in found if isinstance(each, dict) and each.get("artifactType") in types]
    if len(mine) > MOST_SIGNATURES:
        raise ValueError(f"it has {len(mine)} signatures, at most {MOST_SIGNATURES} are looked at")
    return tuple(each["digest"] for each in mine if isinstance(each.get("digest"), str))


def verify_layer(
    layer: SignatureLayer, content: bytes, digest: str, keys: Sequence[PublicKey]
) -> tuple[VerifiedSignature, ...]:
    """Which of the keys have signed that an image with this digest is theirs; `content` is what the layer
    names. Raises ValueError with the reason where that is none of them."""
    if layer.signature:
        return _verify_simple_signing(content, layer.signature, digest, keys)
    return _verify_bundle(content, digest, keys)


def _verify_simple_signing(
    payload: bytes, signature: bytes, digest: str, keys: Sequence[PublicKey]
) -> tuple[VerifiedSignature, ...]:
    signers = _signers(payload, signature, keys)
    critical = _as_object(_as_object(parse_json(payload, unique=True)).get("critical"))
    if critical.get("type") != _TYPE:
        raise ValueError(f"what is signed is not of type {_TYPE!r}")
    image = _as_object(critical.get("image"))
    if image.get("docker-manifest-digest") != digest:
        raise ValueError("it is a signature of another image")
    named = critical.get("identity")
    name = named.get("docker-reference") if isinstance(named, dict) else ""
    return tuple(VerifiedSignature(digest, key, name if isinstance(name, str) else "") for key in signers)


def _verify_bundle(content: bytes, digest: str, keys: Sequence[PublicKey]) -> tuple[VerifiedSignature, ...]:
    envelope = _as_object(_as_object(parse_json(content, unique=True)).get("dsseEnvelope"))
    payload, signatures = _decode_base64(envelope.get("payload")), envelope.get("signatures")
    if envelope.get("payloadType") != _IN_TOTO or not isinstance(signatures, list) or len(signatures) != 1:
        raise ValueError("it is not one signature of an in-toto statement")
    kind = _IN_TOTO.encode()
    message = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    signers = _signers(message, _decode_base64(_as_object(signatures[0]).get("sig")), keys)
    statement = _as_object(parse_json(payload, unique=True))
    if statement.get("predicateType") != _PREDICATE:
        raise ValueError(f"what is signed is not of type {_PREDICATE}")
    subjects, (algorithm, _, value) = statement.get("subject"), digest.partition(":")
    named = [_as_object(each).get("digest") for each in subjects] if isinstance(subjects, list) else []
    if not any(isinstance(each, dict) and each.get(algorithm) == value for each in named):
        raise ValueError("it is a signature of another image")
    return tuple(VerifiedSignature(digest, key) for key in signers)


def _signers(message: bytes, signature: bytes, keys: Sequence[PublicKey]) -> tuple[PublicKey, ...]:
    found = tuple(key for key in keys if key.verify(message, signature))
    if not found:
        raise ValueError("it was made with another key")
    return found


def _as_object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not what cosign writes")
    return value


def _is_small(size: Any) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and 0 < size <= LARGEST_PAYLOAD


def _decode_base64(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        return b""
