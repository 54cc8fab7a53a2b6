"""Image references by the grammar that engines and registries share."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.values.image_reference import REFERENCE_PATTERN, ImageReference, parse_reference

HEX = "0123456789abcdef"
parts = st.from_regex(r"[a-z0-9]{1,6}((\.|_|__|-{1,3})[a-z0-9]{1,6}){0,2}", fullmatch=True)
paths = st.lists(parts, min_size=1, max_size=4).map("/".join)
tags = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}", fullmatch=True)
digests = st.text(HEX, min_size=64, max_size=64).map("sha256:{}".format)
hosts = st.from_regex(
    r"[a-z0-9]{1,8}(\.[a-z0-9]([a-z0-9-]{0,4}[a-z0-9])?){1,3}(:[0-9]{1,5})?", fullmatch=True
)


@st.composite
def references(draw: st.DrawFn) -> ImageReference:
    tag, digest = draw(tags | st.just("")), draw(digests | st.just(""))
    return ImageReference(draw(hosts), draw(paths), tag or ("" if digest else "latest"), digest)


@given(references())
def test_a_full_reference_is_read_as_it_is_written(reference: ImageReference) -> None:
    assert parse_reference(str(reference)) == reference
    assert parse_reference(reference.short) == reference
    assert re.match(REFERENCE_PATTERN, str(reference))


@given(paths, tags)
def test_what_is_left_out_is_filled_in_as_docker_does(path: str, tag: str) -> None:
    found = parse_reference(f"{path}:{tag}")
    first = path.split("/", maxsplit=1)[0]
    if "/" in path and ("." in first or first == "localhost"):
        assert (found.domain, found.path) == (first, path.partition("/")[2])
    else:
        assert found.domain == "docker.io"
        assert found.path == (path if "/" in path else f"library/{path}")
    assert parse_reference(found.short) == found


@given(st.text(max_size=80))
def test_anything_is_read_or_refused_and_the_schema_agrees(text: str) -> None:
    try:
        parse_reference(text)
    except ValueError:
        return
    assert re.match(REFERENCE_PATTERN.removesuffix("$") + r"\Z", text)


@given(st.text("ab01/:.@_-ABsha256", max_size=40))
def test_reading_what_was_written_changes_nothing(text: str) -> None:
    try:
        found = parse_reference(text)
    except ValueError:
        return
    assert parse_reference(str(found)) == found


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("index.docker.io/busybox", "docker.io/library/busybox:latest"),
        ("docker.io/a/b:1", "docker.io/a/b:1"),
        ("localhost/x", "localhost/x:latest"),
        ("local/x", "docker.io/local/x:latest"),
        ("Local/x", "Local/x:latest"),
        ("reg:5000/x", "reg:5000/x:latest"),
        ("[::1]:5000/x/y:v1", "[::1]:5000/x/y:v1"),
        ("a__b/c-d.e_f", "docker.io/a__b/c-d.e_f:latest"),
        (f"r.io/x:1@sha256:{'a' * 64}", f"r.io/x:1@sha256:{'a' * 64}"),
    ],
)
def test_examples(text: str, full: str) -> None:
    assert str(parse_reference(text)) == full


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("https://reg.example/x:1", "did you mean 'reg.example/x:1'?"),
        ("PyTorch:2.4", "did you mean 'pytorch:2.4'?"),
        ("", "write it as"),
        ("a//b", "write it as"),
        ("x:" + "t" * 129, "write it as"),
        ("x@sha256:abc", "write it as"),
        ("a" * 64, "an image id"),
        ("a/" * 200 + "b", "longer than 255"),
        ("a" * 100_000 + "!", "longer than 600"),
        ("x\n", "did you mean 'x'?"),
    ],
)
def test_mistakes_say_what_would_be_right(text: str, hint: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_reference(text)
    assert hint in str(caught.value)


def test_a_digest_replaces_the_tag() -> None:
    digest = "sha256:" + "b" * 64
    assert str(parse_reference("reg.io/x:1").at(digest)) == f"reg.io/x@{digest}"
