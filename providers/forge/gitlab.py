"""GitLab's REST API, version 4."""

from __future__ import annotations

from itertools import islice
from urllib.parse import quote

from providers.forge.base import (
    MOST_REQUESTS,
    CommitState,
    ForgeApi,
    OpenRequest,
    read_request,
    shorten_description,
)

_STATES: dict[CommitState, str] = {"success": "success", "failure": "failed", "error": "failed"}

_FIELDS = {
    "number": "iid", "title": "title", "author": "author.username", "commit": "sha", "base": "target_branch",
    "page": "web_url",
}  # fmt: skip


class GitLab:
    """A `Forge`. `repository` is a project's id or path; `url` the API's, `https://gitlab.example/api/v4`."""

    def __init__(self, url: str, repository: str, token: str) -> None:
        self._api = ForgeApi(url, {"PRIVATE-TOKEN": token})
        self._at = f"/projects/{quote(repository, safe='')}"

    def comment(self, number: int, marker: str, body: str) -> str:
        notes = f"{self._at}/merge_requests/{number}/notes"
        mine = (each for each in self._api.pages(notes, "per_page") if str(each["body"]).startswith(marker))
        note = next(mine, None)
        if note is None:
            note = self._api.call("POST", notes, {"body": body})
        else:
            self._api.call("PUT", f"{notes}/{note['id']}", {"body": body})
        request = self._api.call("GET", f"{self._at}/merge_requests/{number}")
        return f"{request['web_url']}#note_{note['id']}"

    def status(self, commit: str, state: CommitState, context: str, description: str, url: str = "") -> None:
        body = {"state": _STATES[state], "name": context, "description": shorten_description(description)}
        self._api.call("POST", f"{self._at}/statuses/{commit}", body | ({"target_url": url} if url else {}))

    def create_request(self, branch: str, base: str, title: str, body: str) -> str:
        asked = {
            "source_branch": branch,
            "target_branch": base,
            "title": title,
            "description": body,
            "remove_source_branch": True,
        }
        return str(self._api.call("POST", f"{self._at}/merge_requests", asked)["web_url"])

    def open_requests(self) -> list[OpenRequest]:
        found = self._api.pages(f"{self._at}/merge_requests", "per_page", {"state": "opened"})
        read = (read_request(each, _FIELDS) for each in islice(found, MOST_REQUESTS))
        return [each for each in read if each is not None]
