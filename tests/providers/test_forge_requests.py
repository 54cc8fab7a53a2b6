"""Pull requests that are opened at forges, by what they send; and which forge a remote belongs to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from providers.forge import forge_of_remote
from schemas.problems.errors.forge import ForgeRefused, ForgeUnknown
from tests.providers.forge_stand_in import REFUSALS, Forge, forge_server


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


def test_what_an_attempt_has_opened_whose_answer_was_lost_is_found(server: Forge) -> None:
    """Of Gitea and GitHub (409, 422), and of nobody else's fork that has a branch of this name."""
    forge = forge_of_remote("https://f.example/o/n", "t0ken", f"{server.url}/api/v1")

    def listed(number: int, owner: str, base: str = "main") -> dict[str, object]:
        head = {"ref": "bai/ada/x", "repo": {"full_name": f"{owner}/n"}}
        return {
            "number": number,
            "head": head,
            "base": {"ref": base},
            "html_url": f"https://f.example/{number}",
        }

    for status in (409, 422):
        server.answer = status, {"message": REFUSALS[409]}
        server.listed = [{"number": 1}, listed(2, "bob"), listed(3, "o", "other")]
        with pytest.raises(ForgeRefused, match="already exists"):
            forge.create_request("bai/ada/x", "main", "T", "B")
        server.listed.append(listed(4, "O"))
        assert forge.create_request("bai/ada/x", "main", "T", "B") == "https://f.example/4"


def test_the_same_of_gitlab(server: Forge) -> None:
    forge = forge_of_remote("https://f.example/o/n", "t0ken", f"{server.url}/api/v4")
    server.answer = 409, {"message": ["Another open merge request already exists for this source branch: !4"]}
    server.listed = [{"source_project_id": 8, "target_project_id": 7, "web_url": "https://f.example/3"}]
    with pytest.raises(ForgeRefused, match="already exists"):
        forge.create_request("b", "main", "T", "B")
    server.listed.append({"source_project_id": 7, "target_project_id": 7, "web_url": "https://f.example/4"})
    assert forge.create_request("b", "main", "T", "B") == "https://f.example/4"


def test_a_refusal_has_no_token(server: Forge) -> None:
    server.answer = 403, {"message": "no"}
    with pytest.raises(ForgeRefused) as refused:
        forge_of_remote("https://f.example/o/n", "t0ken", server.url).create_request("b", "main", "T", "B")
    assert "t0ken" not in str(refused.value) and "403 no" in str(refused.value)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            {
                "message": "Validation Failed",
                "errors": [{"code": "custom", "message": "No commits between main and b"}],
            },
            "422 Validation Failed: No commits between main and b",
        ),
        (
            {"message": "Validation Failed", "errors": [{"field": "head", "code": "invalid"}]},
            "422 Validation Failed: head is invalid",
        ),
        ({"message": "Validation Failed", "errors": ["odd", 3, None, {}]}, "422 Validation Failed: odd"),
        ({"message": "no", "errors": {"head": "odd"}}, "422 no"),
        ({"message": ["one", "another"]}, "422 one: another"),
        ({"message": "x" * 5000}, "422 " + "x" * 300),
        ({}, "422"),
    ],
)
def test_a_refusal_says_why(server: Forge, said: dict[str, object], told: str) -> None:
    """Shapes of GitHub's and GitLab's answers, and what is neither."""
    server.answer = 422, said
    with pytest.raises(ForgeRefused) as refused:
        forge_of_remote("https://f.example/o/n", "t0ken", server.url).create_request("b", "main", "T", "B")
    assert refused.value.fields["why"] == told


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
