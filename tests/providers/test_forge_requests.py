"""Pull requests that are opened at forges, by what they send; and which forge a remote belongs to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from providers.forge import forge_of_remote
from schemas.problems.errors.forge import ForgeRefused, ForgeUnknown
from tests.providers.forge_stand_in import Forge, forge_server


@pytest.fixture
def server() -> Iterator[Forge]:
    with forge_server() as made:
        yield made


@pytest.mark.parametrize("api", ["/api/v1", "/api/v3", ""])
@pytest.mark.parametrize(
    "remote", ["https://f.example/o/n.git", "git@f.example:o/n.git", "ssh://git@f.example:22/o/n"]
)
def test_github_and_gitea(server: Forge, api: str, remote: str) -> None:
    server.answer = 201, {"html_url": "https://f.example/o/n/pulls/3"}
    forge = forge_of_remote(remote, "t0ken", f"{server.url}{api}")
    assert forge.create_request("bai/ada/x", "main", "Title", "Body") == "https://f.example/o/n/pulls/3"
    ((path, headers, body),) = server.asked
    assert path == f"{api}/repos/o/n/pulls" and headers["Authorization"] == "token t0ken"
    assert body == {"head": "bai/ada/x", "base": "main", "title": "Title", "body": "Body"}


def test_gitlab(server: Forge) -> None:
    server.answer = 201, {"web_url": "https://f.example/g/s/n/-/merge_requests/4"}
    forge = forge_of_remote("https://f.example/g/s/n.git", "t0ken", f"{server.url}/api/v4")
    assert forge.create_request("b", "main", "T", "B").endswith("/4")
    ((path, headers, body),) = server.asked
    assert path == "/api/v4/projects/g%2Fs%2Fn/merge_requests" and headers["PRIVATE-TOKEN"] == "t0ken"
    assert body["source_branch"] == "b" and body["target_branch"] == "main" and body["description"] == "B"


def test_a_refusal_has_no_token(server: Forge) -> None:
    server.answer = 403, {"message": "no"}
    with pytest.raises(ForgeRefused) as refused:
        forge_of_remote("https://f.example/o/n", "t0ken", server.url).create_request("b", "main", "T", "B")
    assert "t0ken" not in str(refused.value) and "403 no" in str(refused.value)


@pytest.mark.parametrize(
    ("remote", "token", "api"),
    [("https://f.example/o/n", "t", ""), ("https://f.example/o/n", "", "https://f.example/api/v1"),
     ("/srv/forge/x.git", "t", ""), ("/srv/forge/x.git", "t", "https://f.example/api/v1"),
     ("https://github.com/o/n", "t", "file:///etc"), ("https://github.com/o/n", "", "")],
)  # fmt: skip
def test_what_is_no_forge_is_said_so(remote: str, token: str, api: str) -> None:
    with pytest.raises(ForgeUnknown):
        forge_of_remote(remote, token, api)


def test_forges_that_everybody_knows() -> None:
    assert forge_of_remote("git@github.com:o/n.git", "t") is not None
    assert forge_of_remote("https://gitlab.com/g/s/n.git", "t") is not None
