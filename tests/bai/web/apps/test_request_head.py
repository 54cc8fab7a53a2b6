"""What is believed of a request, and which paths are the gate's own."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bai.web.apps.request_head import BadRequest, is_reserved, onward_path, read_head

SAID = (
    (b"x-forwarded-method", b"GET"), (b"x-forwarded-uri", b"/a?b=c"),
    (b"x-forwarded-host", b"A.Example:8443"),
    (b"x-forwarded-for", b"192.0.2.1"), (b"bai-upgrade", b""),
)  # fmt: skip


def test_a_request_is_read_as_caddy_says_it() -> None:
    more = ((b"accept", b"text/html"), (b"origin", b"https://a.example:8443"), (b"cookie", b"a=1"))
    head = read_head((*SAID, *more, (b"cookie", b"b=2"), (b"authorization", b"token x")))
    assert (head.request.method, head.request.host, head.request.uri) == ("GET", "a.example:8443", "/a?b=c")
    assert (
        head.request.form == "html"
        and head.request.navigates
        and head.request.origin == "https://a.example:8443"
    )
    assert (head.cookies, head.authorization, head.peer) == ([b"a=1", b"b=2"], b"token x", "192.0.2.1")


@pytest.mark.parametrize(
    ("method", "content_type", "form"),
    [
        ("POST", "application/grpc", "grpc"),
        ("POST", "Application/GRPC+proto", "grpc"),
        ("POST", "application/grpc; x=y", "grpc"),
        ("POST", "application/grpc-web", "json"),
        ("POST", "text/application/grpc", "json"),
        ("GET", "application/grpc", "html"),
    ],
)
def test_in_which_form_an_answer_is_understood(method: str, content_type: str, form: str) -> None:
    said = {**dict(SAID), b"x-forwarded-method": method.encode()}
    more = [(b"accept", b"text/html"), (b"content-type", content_type.encode())]
    assert read_head([*said.items(), *more]).request.form == form


@pytest.mark.parametrize(
    "name",
    ["x-forwarded-method", "x-forwarded-uri", "x-forwarded-host", "x-forwarded-for", "bai-upgrade", "origin",
     "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "authorization"],
)  # fmt: skip
def test_what_comes_twice_is_not_believed(name: str) -> None:
    with pytest.raises(BadRequest):
        read_head((*SAID, (name.encode(), b"x"), (name.encode(), b"x")))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-forwarded-method", ""),
        ("x-forwarded-method", "CONNECT"),
        ("x-forwarded-method", "TRACE"),
        ("x-forwarded-method", "get"),
        ("x-forwarded-method", "GET /"),
        ("x-forwarded-uri", ""),
        ("x-forwarded-uri", "*"),
        ("x-forwarded-uri", "http://evil.test/"),
        ("x-forwarded-host", ""),
        ("x-forwarded-host", "a@b.example"),
        ("x-forwarded-host", "a b.example"),
        ("x-forwarded-host", "a.example:"),
        ("x-forwarded-host", "a" * 300),
        ("x-forwarded-host", "a.example/b"),
    ],
)
def test_what_no_app_can_be_asked(name: str, value: str) -> None:
    said = dict(SAID) | {name.encode(): value.encode()}
    with pytest.raises(BadRequest):
        read_head(said.items())


RESERVED = [
    "/.bai/open", "/.bai", "/.bai/", "/.bai?x", "/.bai/../x", "/.bai/..%2fx", "/%2ebai/open", "/%2Ebai/",
    "/%252ebai/", "/.b%61i/", "//.bai/open", "/./.bai/", "/x/../.bai/open", "/x/%2e%2e/.bai/open",
    "/x%2f..%2f.bai", "/x/..%5c.bai/", "\\.bai/open", "/\\.bai/", "/.BAI/open", "/.bai;a=b/open",
    "/x/..;/.bai/", "/a/b/../../.bai/link", "/../.bai/", "/%2f.bai/", "/.bai%00/", "/.bai%20/",
]  # fmt: skip


@pytest.mark.parametrize("uri", RESERVED)
def test_paths_of_the_gate_however_they_are_written(uri: str) -> None:
    assert is_reserved(uri)
    assert onward_path(uri) == "/"


@pytest.mark.parametrize(
    "uri", ["/", "/a/.bai/x", "/.baix/", "/x.bai", "/bai/", "/?.bai/", "/a%2fb", "/%", "/..", "/a?x=/.bai/"]
)
def test_paths_of_apps(uri: str) -> None:
    assert not is_reserved(uri)


def resolved(path: str) -> str:
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            kept = kept[:-1]
        elif part not in ("", "."):
            kept.append(part)
    return "/".join(kept)


@given(st.lists(st.sampled_from([".bai", "..", ".", "", "a", "open"]), min_size=1), st.integers(0, 3))
def test_whatever_leads_to_the_gate_is_the_gates(parts: list[str], times: int) -> None:
    path, plain = "/".join(parts), resolved("/".join(parts))
    for _ in range(times):
        path = quote(path, safe="")
    if plain == ".bai" or plain.startswith(".bai/"):
        assert is_reserved(f"/{path}")


@pytest.mark.parametrize(
    "uri",
    ["//evil.test", "/\\evil.test", "\\\\evil.test", "https://evil.test/", "/a\r\nX: y", "/a b", "", "a",
     "/\x7f", "/é", "javascript:alert(1)"],
)  # fmt: skip
def test_what_would_lead_elsewhere_leads_to_the_first_page(uri: str) -> None:
    assert onward_path(uri) == "/"


@given(st.text(st.characters(codec="latin-1"), max_size=40))
def test_onward_is_always_a_path_of_the_same_host(text: str) -> None:
    for uri in (text, f"/{text}", f"//{text}"):
        path = onward_path(uri)
        assert path.startswith("/") and not path.startswith(("//", "/\\"))
        assert path.isascii() and path.isprintable() and " " not in path and not is_reserved(path)
