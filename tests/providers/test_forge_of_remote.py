"""Which forge a git remote lies on, and what waits there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from providers.forge.base import read_request
from providers.forge.github import GitHub
from providers.forge.gitlab import GitLab
from providers.forge.of_remote import forge_of_remote
from schemas.problems.errors.forge import ForgeUnknown

TOKEN = {"BAI_FORGE_TOKEN": "t"}


def place(url: str, **more: str) -> tuple[type, str, str]:
    found = forge_of_remote(url, {**TOKEN, **more})
    assert isinstance(found, GitHub | GitLab)
    return type(found), found._api.url, found._at


@pytest.mark.parametrize(
    ("url", "more", "expected"),
    [
        ("https://github.com/a/b.git", {}, (GitHub, "https://api.github.com", "/repos/a/b")),
        ("git@github.com:a/b.git", {}, (GitHub, "https://api.github.com", "/repos/a/b")),
        ("https://gitlab.com/g/s/b", {}, (GitLab, "https://gitlab.com/api/v4", "/projects/g%2Fs%2Fb")),
        ("https://codeberg.org/a/b", {}, (GitHub, "https://codeberg.org/api/v1", "/repos/a/b")),
        (
            "ssh://git@git.example:2222/a/b.git",
            {"BAI_FORGE": "gitea"},
            (GitHub, "https://git.example/api/v1", "/repos/a/b"),
        ),
        (
            "https://user:password@ghe.example/a/b",
            {"BAI_FORGE": "github"},
            (GitHub, "https://ghe.example/api/v3", "/repos/a/b"),
        ),
        (
            "/srv/a/b.git",
            {"BAI_FORGE": "gitea", "BAI_FORGE_URL": "https://git.example/api/v1"},
            (GitHub, "https://git.example/api/v1", "/repos/srv/a/b"),
        ),
    ],
)
def test_it_follows_from_the_remotes_address(
    url: str, more: Mapping[str, str], expected: tuple[type, str, str]
) -> None:
    assert place(url, **more) == expected


@pytest.mark.parametrize("url", ["https://git.example/a/b", "/srv/b.git", "https://github.com/"])
def test_where_it_does_not_follow_that_is_said(url: str) -> None:
    with pytest.raises(ForgeUnknown):
        forge_of_remote(url, TOKEN)
    assert forge_of_remote(url, {}) is None


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
