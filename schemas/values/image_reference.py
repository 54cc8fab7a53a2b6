"""Names of container images, by the reference grammar of Docker and OCI registries."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from schemas.problems.issues import value_error
from schemas.problems.text import format_value

DOCKER_HUB = "docker.io"
LONGEST_NAME = 255
_LONGEST = 600
"""More than any name, tag and digest together."""
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]{{1,5}})?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = rf"{_PART}(?:/{_PART})*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128})"
ADDRESS_PATTERN = rf"^{_DOMAIN}$"
PATH_PATTERN = rf"^{_PATH}$"
REFERENCE_PATTERN = rf"^(?![A-Za-z0-9._/-]{{256}})(?:{_DOMAIN}/)?{_PATH}(?::{_TAG})?(?:@{_DIGEST})?$"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_PATH})(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?\Z"
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}\Z")


@dataclass(frozen=True, slots=True, order=True)
class ImageReference:
    """One image of one registry, complete: what is left out of a text is filled in as Docker does."""

    domain: str
    """Host and port of the registry; `docker.io` for Docker Hub."""
    path: str
    """Repository below it: `library/busybox`."""
    tag: str = ""
    digest: str = ""
    """`sha256:…`; where it is given, it decides and the tag is only a note."""

    @property
    def name(self) -> str:
        """Without tag and digest."""
        return f"{self.domain}/{self.path}"

    @property
    def selector(self) -> str:
        """What a registry is asked for: the digest, else the tag."""
        return self.digest or self.tag

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return self.name + tag + (f"@{self.digest}" if self.digest else "")

    @property
    def short(self) -> str:
        """As people write it: Docker Hub is not named."""
        text = str(self)
        for prefix in (f"{DOCKER_HUB}/library/", f"{DOCKER_HUB}/"):
            rest = text.removeprefix(prefix)
            if rest != text and parse_reference(rest) == self:
                return rest
        return text

    def at(self, digest: str) -> ImageReference:
        """The very image behind a digest; the tag, which may move, is dropped."""
        return replace(self, tag="", digest=digest)


@lru_cache(4096)
def parse_reference(text: str) -> ImageReference:
    """What `text` means. Raises ValueError, whose message may end in `; ` and a hint."""
    found = _REFERENCE.match(text) if len(text) <= _LONGEST else None
    if not found:
        raise ValueError(f"{format_value(text)} is not an image reference{_reference_hint(text)}")
    domain, path = _split_domain(found["name"])
    if len(found["name"]) > LONGEST_NAME:
        raise ValueError(f"{format_value(text)} is longer than {LONGEST_NAME} characters before its tag")
    if _IDENTIFIER.match(text):
        raise ValueError(
            f"{format_value(text)} is an image id, not a name; write the name it has in a registry"
        )
    digest = found["digest"] or ""
    return ImageReference(domain, path, found["tag"] or ("" if digest else "latest"), digest)


def _split_domain(name: str) -> tuple[str, str]:
    """Registry and repository; a first part without dot, colon or capital is part of the repository."""
    first, slash, rest = name.partition("/")
    named = any(mark in first for mark in ".:") or first == "localhost" or first != first.lower()
    domain, path = (first, rest) if slash and named else (DOCKER_HUB, name)
    if domain == "index.docker.io":
        domain = DOCKER_HUB
    if domain == DOCKER_HUB and "/" not in path:
        path = f"library/{path}"
    return domain, path


def _reference_hint(text: str) -> str:
    if len(text) > _LONGEST:
        return f"; it is longer than {_LONGEST} characters"
    bare = re.sub(r"^(https?|docker|oci)://", "", text).strip()
    lower = bare.lower()
    for meant in (bare, lower):
        if meant != text and _REFERENCE.match(meant):
            return f"; did you mean {format_value(meant)}?"
    return "; write it as registry.example:5000/team/name:tag"


def _validate_reference(text: str) -> str:
    try:
        parse_reference(text)
    except ValueError as error:
        message, _, hint = str(error).partition("; ")
        raise value_error(message, hint, "BAI-V033") from None
    return text


def _validate_address(text: str) -> str:
    if re.match(ADDRESS_PATTERN.removesuffix("$") + r"\Z", text):
        return text
    bare = re.sub(r"^https?://", "", text).rstrip("/")
    near = re.match(ADDRESS_PATTERN.removesuffix("$") + r"\Z", bare)
    hint = (
        f"did you mean {format_value(bare)}?" if near else "write registry.example or registry.example:5000"
    )
    raise value_error(f"{format_value(text)} is not a registry's host[:port]", hint, "BAI-V033")


def _validate_path(text: str) -> str:
    if re.match(PATH_PATTERN.removesuffix("$") + r"\Z", text):
        return text
    raise value_error(f"{format_value(text)} is not the name of a project", code="BAI-V033")


Reference = Annotated[
    str, AfterValidator(_validate_reference), WithJsonSchema({"type": "string", "pattern": REFERENCE_PATTERN})
]
RegistryAddress = Annotated[
    str, AfterValidator(_validate_address), WithJsonSchema({"type": "string", "pattern": ADDRESS_PATTERN})
]
RegistryPath = Annotated[
    str, AfterValidator(_validate_path), WithJsonSchema({"type": "string", "pattern": PATH_PATTERN})
]
