"""What a forge says of the requests that wait there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from providers.forge.base import read_request

FIELDS = {
    "number": "n", "title": "t.x", "author": "a", "commit": "c", "base": "b", "page": "p",
}  # fmt: skip


@pytest.mark.parametrize("found", [{}, {"n": "x"}, {"n": -1}, {"n": None}, {"n": {"x": 1}}, [], "x", None])
def test_what_is_no_request_is_none(found: Any) -> None:
    assert read_request(found if isinstance(found, Mapping) else {}, FIELDS) is None


def test_what_a_forge_says_is_cut_and_leads_only_to_pages() -> None:
    found = read_request({"n": 7, "t": {"x": "y" * 1000}, "a": ["z"], "p": "javascript:alert(1)"}, FIELDS)
    assert found is not None and (found.number, len(found.title), found.page) == (7, 300, "")
    assert found.author == "['z']" and found.commit == ""
