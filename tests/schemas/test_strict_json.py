"""JSON that somebody else wrote is read, or a ValueError says why not."""

from __future__ import annotations

import pytest

from providers.registry_client.manifests import parse_config, parse_manifest
from schemas.files.strict_json import parse_json

WRONG = [
    b"", b"{", b"[" * 200_000, b'{"a":' * 200_000, b"NaN", b"[Infinity]", b"-Infinity", b"\xff",
    b'"\xed\xa0\x80"', b'"\\ud800"', b'{"\\uDC00": 1}', b"9" * 5000, "[]".encode("utf-16"), b"[1] 2", b"'a'",
]  # fmt: skip


@pytest.mark.parametrize("content", WRONG, ids=lambda content: repr(content[:12]))
def test_what_is_no_json(content: bytes) -> None:
    for reads in (parse_json, parse_config, lambda content: parse_manifest(content, "")):
        with pytest.raises(ValueError, match=r"."):
            reads(content)


def test_what_is() -> None:
    wanted = {"a": [1, None, "😀", "\\ud800"]}
    assert parse_json(b'\xef\xbb\xbf{"a": [1, null, "\\ud83d\\ude00", "\\\\ud800"]}') == wanted
    assert parse_json('"ü"') == "ü"
