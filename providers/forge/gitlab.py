"""GitLab's REST API, version 4."""

from __future__ import annotations

from itertools import islice
from urllib.parse import quote

from providers.forge.base import (
    MOST_REQUESTS,
    CommitState,
    ForgeApi,
    OpenRequest,
    is_already_there,
    read_request,
    shorten_description,
    text_at,
)
from schemas.problems.errors.forge import ForgeRefused

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
        try:
            return str(self._api.call("POST", f"{self._at}/merge_requests", asked)["web_url"])
        except ForgeRefused as error:
            if is_already_there(error) and (page := self._open_request_of(branch, base)):
                return page
            raise

    def _open_request_of(self, branch: str, base: str) -> str:
        """Its address; empty where none is open from this very project."""
        asked = {"state": "opened", "source_branch": branch, "target_branch": base}
        for each in islice(self._api.pages(f"{self._at}/merge_requests", "per_page", asked), MOST_REQUESTS):
            if text_at(each, "source_project_id") == text_at(each, "target_project_id"):
                return text_at(each, "web_url")
        return ""

    def open_requests(self) -> list[OpenRequest]:
        found = self._api.pages(f"{self._at}/merge_requests", "per_page", {"state": "opened"})
        read = (read_request(each, _FIELDS) for each in islice(found, MOST_REQUESTS))
        return [each for each in read if each is not None]
