"""A registry of the OCI distribution API, version 2 (https://github.com/opencontainers/distribution-spec)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from providers.registry_client import cosign, manifests
from providers.registry_client.access import RegistryAccess
from providers.registry_client.api import RegistryApi
from providers.registry_client.auth import RegistryAuthenticator, error_message
from providers.registry_client.transport import LARGEST, RegistryResponse, Transport
from schemas.images.facts import ImageFacts, ImagePlatform
from schemas.problems.errors.registry import NoSuchImage, RegistryError
from schemas.values.image_reference import ImageReference
from schemas.values.public_keys import PublicKey

T = TypeVar("T")
_PAGE = 200
_MOST_HINTED = 2000
"""Most names that are looked at for what was probably meant."""


class RegistryClient(RegistryApi):
    """Looks at images, and lists them."""

    def __init__(self, access: RegistryAccess, transport: Transport | None = None) -> None:
        super().__init__(access, transport)
        self._authenticator = RegistryAuthenticator(self._transport)

    def check(self) -> None:
        """That it answers, speaks the API and lets us in."""
        answer = self._authenticator.get("/v2/")
        if answer.status != 200:
            raise self._error(f"it does not speak the distribution API (status {answer.status} for /v2/)")

    def tags(self, path: str) -> Iterator[str]:
        """The tags of a repository, page by page. Raises NoSuchImage."""
        for page in self._pages(f"/v2/{quote(path)}/tags/list?n={_PAGE}", _pull_scope(path)):
            if page.status == 404:
                raise NoSuchImage(registry=self.access.address, image=f"repository {path}")
            yield from self._names(page, "tags")

    def repositories(self) -> Iterator[str]:
        """The names of all repositories, where the registry tells them."""
        for page in self._pages(f"/v2/_catalog?n={_PAGE}", "registry:catalog:*"):
            yield from self._names(page, "repositories")

    def facts(self, reference: ImageReference) -> ImageFacts:
        """Digest, and by architecture size and labels. Raises NoSuchImage with the nearest names."""
        path = reference.path
        found = self._manifest(path, reference.selector, reference)
        if isinstance(found, manifests.Index):
            platforms = dict(self._index_platforms(path, found))
        else:
            name, platform = self._platform(path, found)
            platforms = {name: platform}
        return ImageFacts(reference=str(reference), digest=found.digest, platforms=platforms)

    def signatures(
        self, reference: ImageReference, keys: Sequence[PublicKey]
    ) -> tuple[tuple[cosign.VerifiedSignature, ...], tuple[str, ...]]:
        """Which of the keys have signed the image with the reference's digest, and why other signatures that
        are there count for nothing. What is an index is one image: its members are not looked at."""
        found: dict[str, cosign.VerifiedSignature] = {}
        refused: list[str] = []
        for layer in islice(self._signatures(reference.path, reference.digest), cosign.MOST_SIGNATURES):
            try:
                content = self._blob(reference.path, layer.digest, cosign.LARGEST_PAYLOAD)
                for one in cosign.verify_layer(layer, content, reference.digest, keys):
                    found.setdefault(one.key.fingerprint, one)
            except ValueError as error:
                refused.append(str(error))
            if len(found) == len(keys):
                break
        return tuple(found.values()), tuple(dict.fromkeys(refused))

    def _signatures(self, path: str, digest: str) -> Iterator[cosign.SignatureLayer]:
        """As cosign 2 leaves them, at a tag, and as cosign 3 does, among the image's referrers; where a
        registry keeps no list of these, they are at a tag, too."""
        yield from self._signature_layers(path, cosign.signature_tag(digest))
        listed = self._authenticator.get(
            f"/v2/{quote(path)}/referrers/{quote(digest, safe=':')}", scope=_pull_scope(path)
        )
        if listed.status != 200:
            listed = self._get_optional_manifest(path, digest.replace(":", "-"))
        if listed.status == 200:
            for each in self._parse_signatures(path, cosign.bundle_digests, listed):
                yield from self._signature_layers(path, each)

    def _signature_layers(self, path: str, selector: str) -> Iterator[cosign.SignatureLayer]:
        answer = self._get_optional_manifest(path, selector)
        if answer.status == 200:
            yield from self._parse_signatures(path, cosign.signature_layers, answer)

    def _get_optional_manifest(self, path: str, selector: str) -> RegistryResponse:
        """A manifest that may not be there."""
        target = f"/v2/{quote(path)}/manifests/{quote(selector, safe=':')}"
        answer = self._authenticator.get(
            target, scope=_pull_scope(path), headers={"Accept": manifests.ACCEPT}
        )
        if answer.status != 404:
            self._require_ok(answer, f"the signatures of {path}")
        return answer

    def _parse_signatures(
        self, path: str, read: Callable[[bytes], Iterable[T]], answer: RegistryResponse
    ) -> list[T]:
        try:
            return list(read(answer.content))
        except ValueError as error:
            raise self._error(f"the signatures of {path}: {error}") from None

    def _index_platforms(self, path: str, index: manifests.Index) -> Iterator[tuple[str, ImagePlatform]]:
        for name, digest in sorted(index.manifests.items()):
            member = self._manifest(path, digest, None)
            if isinstance(member, manifests.Manifest):
                yield name, self._platform(path, member)[1]

    def _platform(self, path: str, manifest: manifests.Manifest) -> tuple[str, ImagePlatform]:
        content = self._blob(path, manifest.config)
        try:
            name, labels = manifests.parse_config(content)
        except ValueError as error:
            raise self._error(f"the configuration of {path} cannot be read: {error}") from None
        return name, ImagePlatform(
            digest=manifest.digest, size=manifest.size, layers=manifest.layers, labels=labels
        )

    def _manifest(
        self, path: str, selector: str, reference: ImageReference | None
    ) -> manifests.Manifest | manifests.Index:
        target = f"/v2/{quote(path)}/manifests/{quote(selector, safe=':')}"
        answer = self._authenticator.get(
            target, scope=_pull_scope(path), headers={"Accept": manifests.ACCEPT}
        )
        if answer.status == 404:
            raise self._missing(path, selector, reference)
        self._require_ok(answer, f"the manifest of {path}")
        try:
            if ":" in selector and manifests.digest_of(answer.content, selector) != selector:
                raise ValueError("its content does not have the digest asked for")
            return manifests.parse_manifest(answer.content, answer.headers.get("Content-Type", ""))
        except ValueError as error:
            raise self._error(f"the manifest of {path} at {selector}: {error}") from None

    def _blob(self, path: str, digest: str, most: int = LARGEST) -> bytes:
        target = f"/v2/{quote(path)}/blobs/{quote(digest, safe=':')}"
        answer = self._authenticator.get(target, scope=_pull_scope(path), most=most)
        self._require_ok(answer, f"{digest} of {path}")
        if manifests.digest_of(answer.content, digest) != digest:
            raise self._error(f"what it gives for {digest} of {path} has another digest")
        return answer.content

    def _pages(self, target: str, scope: str) -> Iterator[RegistryResponse]:
        while target:
            answer = self._authenticator.get(target, scope=scope)
            if answer.status != 404:
                self._require_ok(answer, "a list")
            yield answer
            following = answer.following
            if following and urlsplit(following).netloc != urlsplit(answer.url).netloc:
                raise self._error(f"its list goes on elsewhere, at {following}")
            target = following if following != target else ""

    def _names(self, page: RegistryResponse, field: str) -> Iterator[str]:
        try:
            value: Any = page.json()
            names = value.get(field) or ()
            yield from (name for name in names if isinstance(name, str))
        except (ValueError, AttributeError, TypeError):
            raise self._error("a list is not what it should be") from None

    def _missing(self, path: str, selector: str, reference: ImageReference | None) -> NoSuchImage:
        hint = self._suggest_names(path, selector) if reference is not None else ""
        image = f"{path}@{selector}" if ":" in selector else f"{path}:{selector}"
        return NoSuchImage(registry=self.access.address, image=image, hint=hint)

    def _suggest_names(self, path: str, selector: str) -> str:
        """What was probably meant: tags of the same repository, else repositories."""
        try:
            tags = list(islice(self.tags(path), _MOST_HINTED))
            if tags:
                return _suggestion("tags", selector, tags)
        except RegistryError:
            pass
        try:
            return _suggestion("repositories", path, list(islice(self.repositories(), _MOST_HINTED)))
        except RegistryError:
            return ""

    def _require_ok(self, answer: RegistryResponse, what: str) -> None:
        if answer.status != 200:
            told = error_message(answer)
            raise self._error(f"{what}: status {answer.status}" + (f", {told}" if told else ""))


def _pull_scope(path: str) -> str:
    return f"repository:{path}:pull"


def _suggestion(what: str, word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, 3, 0.4)
    if near:
        return "did you mean " + " or ".join(near) + "?"
    shown = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
    return f"{what} there: {shown}" if known else ""
