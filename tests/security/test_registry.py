"""Who runs a registry, or may push to it, and wants an image to run that nobody trusted has signed; or wants
to keep bai busy."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from hypothesis import given
from hypothesis import strategies as st

from providers.registry_client import cosign
from providers.registry_client.access import RegistryAccess
from providers.registry_client.client import RegistryClient
from providers.registry_client.manifests import digest_of
from providers.registry_client.transport import Transport
from reconciler.plan.image_lookups import ImageLookup
from reconciler.workspace import image_lookup
from reconciler.workspace.image_lookup import RegistryLookups
from schemas.loading.loader import load_directory
from schemas.problems.errors.registry import RegistryError
from schemas.values.image_reference import parse_reference
from schemas.values.public_keys import PublicKey, parse_public_key
from tests.lab.http_replay import Replay, Reply

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
OWN = ec.generate_private_key(ec.SECP256R1())
FOREIGN = ec.generate_private_key(ec.SECP256R1())
NOTE = "dev.cosignproject.cosign/signature"


def pem(key: Any) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()  # type: ignore[no-any-return]


KEY = parse_public_key(pem(OWN))


def payload(digest: str = DIGEST, kind: str = "cosign container image signature") -> bytes:
    critical = {
        "identity": {"docker-reference": "r.io/team/x"},
        "image": {"docker-manifest-digest": digest},
        "type": kind,
    }
    return json.dumps({"critical": critical, "optional": None}).encode()


def by(key: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    return key.sign(message, ec.ECDSA(hashes.SHA256()))


def layer(content: bytes, signature: bytes, **more: object) -> dict[str, object]:
    return {
        "mediaType": cosign.PAYLOAD,
        "digest": digest_of(content),
        "size": len(content),
        "annotations": {NOTE: base64.b64encode(signature).decode()},
        **more,
    }


def answers(layers: list[dict[str, object]], *blobs: bytes) -> dict[str, Reply | list[Reply]]:
    at = f"/v2/team/x/manifests/{cosign.signature_tag(DIGEST)}"
    found: dict[str, Reply | list[Reply]] = {at: Reply(200, {"schemaVersion": 2, "layers": layers})}
    return found | {f"/v2/team/x/blobs/{digest_of(blob)}": Reply(200, blob) for blob in blobs}


def asked(server: Replay, *keys: PublicKey) -> tuple[tuple[cosign.VerifiedSignature, ...], tuple[str, ...]]:
    access = RegistryAccess(server.address, plain_http=True, timeout=120)
    client = RegistryClient(access, Transport(access, sleep=lambda _: None))
    return client.signatures(parse_reference(f"{server.address}/team/x@{DIGEST}"), keys or (KEY,))


def envelope(statement: bytes, key: ec.EllipticCurvePrivateKey, **more: object) -> bytes:
    kind = b"application/vnd.in-toto+json"
    signed = by(key, b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(statement), statement))
    inner = {
        "payload": base64.b64encode(statement).decode(),
        "payloadType": kind.decode(),
        "signatures": [{"sig": base64.b64encode(signed).decode()}],
    }
    return json.dumps({"mediaType": cosign.BUNDLE, "dsseEnvelope": inner | more}).encode()


def statement(digest: str = DIGEST, kind: str = "https://sigstore.dev/cosign/sign/v1") -> bytes:
    return json.dumps(
        {"predicateType": kind, "subject": [{"digest": {"sha256": digest.partition(":")[2]}}]}
    ).encode()


# What is no signature of this image by this key


def test_the_forger_here_can_write_what_counts() -> None:
    """Else nothing below would show anything."""
    good = payload()
    with Replay(answers([layer(good, by(OWN, good))], good)) as server:
        (signed,), refused = asked(server)
    assert (signed.key, signed.named, refused) == (KEY, "r.io/team/x", ())
    content = envelope(statement(), OWN)
    assert cosign.verify_layer(cosign.SignatureLayer(""), content, DIGEST, [KEY]) == (
        cosign.VerifiedSignature(DIGEST, KEY),
    )


TWICE = (
    b'{"critical": {"type": "cosign container image signature", "image": {"docker-manifest-digest": "%s",'
    b' "docker-manifest-digest": "%s"}}}' % (OTHER.encode(), DIGEST.encode())
)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (payload(OTHER), "of another image"),
        (payload("sha256:" + "A" * 64), "of another image"),
        (payload(kind="atomic container signature"), "not of type"),
        (TWICE, "a name twice"),
        (b"[]", "not what cosign writes"),
        (b'{"critical": null}', "not what cosign writes"),
        (b"[" * 60_000, "nested too deeply"),
    ],
    ids=["other", "case", "type", "twice", "list", "null", "deep"],
)
def test_what_the_owner_signed_for_something_else(content: bytes, told: str) -> None:
    """All of it signed by the very key: for another image, for another purpose, readable in two ways."""
    with Replay(answers([layer(content, by(OWN, content))], content)) as server:
        signed, (why,) = asked(server)
    assert signed == () and told in why


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (envelope(statement(OTHER), OWN), "of another image"),
        (envelope(statement(kind="https://slsa.dev/provenance/v1"), OWN), "not of type"),
        (envelope(statement(), FOREIGN), "another key"),
        (envelope(statement(), OWN, payloadType="text/plain"), "not one signature"),
        (envelope(statement(), OWN, signatures=[]), "not one signature"),
        (envelope(statement(), OWN, payload=base64.b64encode(statement(OTHER)).decode()), "another key"),
        (json.dumps({"mediaType": cosign.BUNDLE, "messageSignature": {}}).encode(), "not what cosign"),
    ],
    ids=["other", "type", "key", "payload-type", "none", "exchanged", "message"],
)
def test_bundles_that_are_of_no_use(content: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        cosign.verify_layer(cosign.SignatureLayer(""), content, DIGEST, [KEY])


def test_signatures_of_others_do_not_hide_the_owners() -> None:
    good, bad = payload(), payload(OTHER)
    layers = [
        layer(bad, by(OWN, bad)),
        layer(good, by(FOREIGN, good)),
        layer(good, by(OWN, bad)),
        layer(good, b""),
        layer(good, by(OWN, good), mediaType="text/plain"),
        {"mediaType": cosign.PAYLOAD},
        layer(good, by(OWN, good)),
    ]
    with Replay(answers(layers, good, bad)) as server:
        (signed,), refused = asked(server)
    assert signed.key == KEY and len(refused) == 2


def test_a_payload_with_other_bytes_than_its_digest_is_not_read() -> None:
    good = payload()
    found = answers([layer(good, by(OWN, good))], good)
    found[f"/v2/team/x/blobs/{digest_of(good)}"] = Reply(200, payload(OTHER))
    with Replay(found) as server, pytest.raises(RegistryError, match="has another digest"):
        asked(server)


def test_redirected_elsewhere_only_what_is_signed_counts_and_no_login_goes_along() -> None:
    good, foreign = payload(), payload(OTHER)
    at = f"/v2/team/x/blobs/{digest_of(good)}"
    found = answers([layer(good, by(OWN, good))])
    challenge = Reply(401, {}, {"WWW-Authenticate": 'Basic realm="lab"'})
    with Replay({at: [Reply(200, good), Reply(200, foreign)]}) as elsewhere:
        away = Reply(307, b"", {"Location": f"http://localhost:{elsewhere.address.partition(':')[2]}{at}"})
        tag = f"/v2/team/x/manifests/{cosign.signature_tag(DIGEST)}"
        with Replay({**found, at: away, tag: [challenge, found[tag]]}) as server:  # type: ignore[list-item]
            access = RegistryAccess(server.address, plain_http=True, username="bai", password="sesame")
            reference = parse_reference(f"{server.address}/team/x@{DIGEST}")
            with RegistryClient(access) as client:
                assert len(client.signatures(reference, [KEY])[0]) == 1
                with pytest.raises(RegistryError, match="has another digest"):
                    client.signatures(reference, [KEY])
        assert server.asked[-1][1].startswith("Basic ")
        assert {authorization for _, authorization in elsewhere.asked} == {""}


# Too much of everything


def test_more_signatures_than_anybody_makes_are_not_looked_at() -> None:
    good = payload()
    many = [layer(good, by(FOREIGN, good))] * (cosign.MOST_SIGNATURES + 1)
    with Replay(answers(many, good)) as server:
        with pytest.raises(RegistryError, match="65 signatures, at most 64"):
            asked(server)
        assert len(server.asked) == 1


def test_lists_of_lists_end() -> None:
    """64 bundles, each of which is a manifest with 64 layers more."""
    good = payload()
    found = answers([], good)
    listed = [{"digest": f"sha256:{n:064x}", "artifactType": cosign.BUNDLE} for n in range(64)]
    found[f"/v2/team/x/referrers/{DIGEST}"] = Reply(200, {"manifests": listed})
    inner = {"layers": [layer(good, by(FOREIGN, good))] * cosign.MOST_SIGNATURES}
    found |= {f"/v2/team/x/manifests/{each['digest']}": Reply(200, inner) for each in listed}
    with Replay(found) as server:
        assert asked(server)[0] == ()
        assert len(server.asked) < 3 * cosign.MOST_SIGNATURES


@pytest.mark.parametrize("size", [None, -1, "5", True, cosign.LARGEST_PAYLOAD + 1, 1 << 70])
def test_sizes_that_no_signature_has_are_passed_over(size: object) -> None:
    good = payload()
    with Replay(answers([layer(good, by(OWN, good), size=size)], good)) as server:
        assert asked(server) == ((), ())


def test_a_payload_larger_than_it_says_is_not_read_to_its_end() -> None:
    good = payload()
    found = answers([layer(good, by(OWN, good))])
    found[f"/v2/team/x/blobs/{digest_of(good)}"] = Reply(200, b" " * (cosign.LARGEST_PAYLOAD + 1))
    with Replay(found) as server, pytest.raises(RegistryError, match="more than 65536 bytes"):
        asked(server)


@pytest.fixture
def dripping() -> Iterator[str]:
    """A registry that sends a byte now and then, and never comes to an end."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        talk, _ = listener.accept()
        with talk:
            talk.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not over.wait(0.05):
                try:
                    talk.sendall(b"x")
                except OSError:
                    return

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    over.set()
    thread.join()
    listener.close()


def _be_patient_with(inquiry: RegistryLookups, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This one may take as long as a loaded machine does, whatever time there is for all."""
    wait = inquiry._wait

    def patient(domains: Iterable[str]) -> None:
        inquiry._threads[address].join()
        wait(domains)

    monkeypatch.setattr(inquiry, "_wait", patient)
    monkeypatch.setattr(image_lookup, "_TIMEOUT", 120.0)


def test_a_registry_that_never_ends_holds_up_nobody(
    dripping: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given up; while it still talks it is not asked again, and other registries are."""
    head = "apiVersion: bai/v1\nkind: Registry\nmetadata: {{name: r{n}}}\n"
    document = head + "spec: {{address: '{at}', plainHttp: true}}\n"
    good = {"schemaVersion": 2, "config": {"digest": digest_of(b"{}")}, "layers": []}
    with Replay(
        {
            "/v2/x/manifests/1": Reply(200, good),
            f"/v2/x/blobs/{digest_of(b'{}')}": Reply(200, b"{}"),
        }
    ) as server:
        both = [document.format(n=n, at=at) for n, at in enumerate((dripping, server.address))]
        (tmp_path / "all.yaml").write_text("---\n".join(both))
        slow, quick = (parse_reference(f"{at}/x:1") for at in (dripping, server.address))
        inquiry = RegistryLookups(lambda: 1000.0, timeout=1.0)
        _be_patient_with(inquiry, server.address, monkeypatch)
        repository = load_directory(tmp_path)
        for _ in range(2):
            found = inquiry.look_up([ImageLookup(slow), ImageLookup(quick)], repository, str)
            assert found.why == {str(slow): f"{dripping} did not answer within 1 seconds"}
            assert [facts.reference for facts in found.facts] == [str(quick)]
        assert sum(thread.name == f"ask {dripping}" for thread in threading.enumerate()) == 1


# Keys


@pytest.mark.parametrize("sign", ["ed25519", "rsa"])
def test_other_kinds_of_keys_verify_their_own_alone(sign: str) -> None:
    message = payload()
    if sign == "rsa":
        own: Any = rsa.generate_private_key(65537, 2048)
        other: Any = rsa.generate_private_key(65537, 2048)
        signature = own.sign(message, padding.PKCS1v15(), hashes.SHA256())
    else:
        own, other = ed25519.Ed25519PrivateKey.generate(), ed25519.Ed25519PrivateKey.generate()
        signature = own.sign(message)
    mine, theirs = parse_public_key(pem(own)), parse_public_key(pem(other))
    found = cosign.verify_layer(cosign.SignatureLayer("", signature), message, DIGEST, [KEY, theirs, mine])
    assert [one.key for one in found] == [mine]


def private(key: Any) -> str:
    form, nothing = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, nothing).decode()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: "", "no public key in PEM"),
        (lambda: "ssh-ed25519 AAAA", "no public key in PEM"),
        (lambda: private(OWN), "private key"),
        (lambda: pem(OWN) + pem(FOREIGN), "more than one key"),
        (lambda: pem(rsa.generate_private_key(65537, 1024)), "1024 bits is too short"),
        (lambda: pem(ec.generate_private_key(ec.SECP384R1())), "neither ECDSA P-256 nor RSA nor Ed25519"),
    ],
    ids=["empty", "ssh", "private", "two", "short", "curve"],
)
def test_keys_that_are_none(make: Callable[[], str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_public_key(make())


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda s: (
        st.lists(s, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("critical", "type", "image", "layers", "digest", "size", "mediaType", "annotations"),
                    *("manifests", "artifactType", "dsseEnvelope", "payload", "signatures", "sig", "subject"),
                    NOTE,
                ]
            ),
            s,
        )
    ),
)


@given(_JSON, st.binary(max_size=80))
def test_any_json_is_refused_in_words(value: object, signature: bytes) -> None:
    content = json.dumps(value).encode()
    for read in (cosign.signature_layers, cosign.bundle_digests):
        with contextlib.suppress(ValueError):
            list(read(content))
    for one in (
        cosign.SignatureLayer(""),
        cosign.SignatureLayer("", signature or b"x"),
        cosign.SignatureLayer("", by(OWN, content)),
    ):
        with pytest.raises(ValueError):
            cosign.verify_layer(one, content, DIGEST, [KEY])
