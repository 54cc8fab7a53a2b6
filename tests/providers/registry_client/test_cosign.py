"""Signatures that the real cosign left in a real registry."""

from __future__ import annotations

import pytest

from providers.registry_client.access import RegistryAccess
from providers.registry_client.client import RegistryClient
from providers.registry_client.cosign import VerifiedSignature
from schemas.values.image_reference import ImageReference, parse_reference
from schemas.values.public_keys import PublicKey, parse_public_key
from tests.lab.cosign import Cosign, KeyKind
from tests.lab.registry import LabRegistry, StartRegistry


def asked(
    lab: LabRegistry, image: str, digest: str, *keys: PublicKey
) -> tuple[tuple[VerifiedSignature, ...], tuple[str, ...]]:
    with RegistryClient(RegistryAccess(lab.address, plain_http=True, timeout=60)) as client:
        return client.signatures(reference(lab, image).at(digest), keys)


def reference(lab: LabRegistry, image: str) -> ImageReference:
    return parse_reference(f"{lab.address}/{image}")


@pytest.mark.parametrize("bundle", [False, True], ids=["layers", "bundle"])
@pytest.mark.parametrize("kind", [None, "ecdsa", "rsa"])
def test_what_cosign_signs_is_signed(
    registry: StartRegistry, cosign: Cosign, kind: KeyKind | None, bundle: bool
) -> None:
    lab = registry()
    digest = lab.push("team/tool:1", architectures=("amd64", "arm64"))
    other = lab.push("team/tool:2", labels={"other": "1"})
    cosign.key("own", kind)
    cosign.key("foreign")
    own, foreign = (parse_public_key(cosign.public(name)) for name in ("own", "foreign"))
    assert asked(lab, "team/tool", digest, own) == ((), ())
    cosign.sign("own", f"{lab.address}/team/tool@{digest}", bundle=bundle)
    (signed,), refused = asked(lab, "team/tool", digest, foreign, own)
    assert (signed.digest, signed.key, refused) == (digest, own, ())
    assert signed.named == ("" if bundle else f"{lab.address}/team/tool")
    assert asked(lab, "team/tool", digest, foreign) == ((), ("it was made with another key",))
    assert asked(lab, "team/tool", other, own) == ((), ())


def test_several_sign_and_each_is_found(registry: StartRegistry, cosign: Cosign) -> None:
    lab = registry(password="secret", tls=True)
    open_lab = registry()
    digest = open_lab.push("tool:1")
    for name in ("a", "b", "c"):
        cosign.key(name)
    cosign.sign("a", f"{open_lab.address}/tool@{digest}")
    cosign.sign("b", f"{open_lab.address}/tool@{digest}")
    cosign.sign("c", f"{open_lab.address}/tool@{digest}", bundle=True)
    keys = [parse_public_key(cosign.public(name)) for name in ("c", "b", "a")]
    found, _ = asked(open_lab, "tool", digest, *keys)
    assert {one.key for one in found} == set(keys)
    assert lab.push("tool:1") == digest
    access = RegistryAccess(
        lab.address, ca=(lab.folder / "ca.pem").read_text(), username="bai", password="secret", timeout=60
    )
    with RegistryClient(access) as client:
        assert client.signatures(reference(lab, "tool").at(digest), keys) == ((), ())


def test_a_signature_of_a_member_is_none_of_the_index(registry: StartRegistry, cosign: Cosign) -> None:
    """What is started is named by the index's digest; who signs one member has not signed the others."""
    lab = registry()
    digest = lab.push("tool:1", architectures=("amd64", "arm64"))
    with RegistryClient(RegistryAccess(lab.address, plain_http=True, timeout=60)) as client:
        member = client.facts(reference(lab, "tool:1")).platforms["amd64"].digest
    cosign.key("own")
    own = parse_public_key(cosign.public("own"))
    cosign.sign("own", f"{lab.address}/tool@{member}")
    assert asked(lab, "tool", digest, own) == ((), ())
    assert [one.key for one in asked(lab, "tool", member, own)[0]] == [own]
