"""GitHub's REST API, which Gitea and Forgejo speak as well where it is used here."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

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

_FIELDS = {
    "number": "number", "title": "title", "author": "user.login", "commit": "head.sha", "base": "base.ref",
    "page": "html_url",
}  # fmt: skip


class GitHub:
    """A `Forge`. `repository` is `owner/name`; `url` the API's, `https://api.github.com` or
    `https://forge.example/api/v1`."""

    def __init__(self, url: str, repository: str, token: str) -> None:
        headers: Mapping[str, str] = {"Authorization": f"token {token}"}
        self._api = ForgeApi(url, headers)
        self._at = f"/repos/{repository}"
        # Gitea and Forgejo call the size of a page `limit`; GitHub ignores that.
        self._size = "per_page" if "api.github" in url or url.endswith("/api/v3") else "limit"

    def comment(self, number: int, marker: str, body: str) -> str:
        issue = f"{self._at}/issues/{number}/comments"
        for each in self._api.pages(issue, self._size):
            if str(each.get("body") or "").startswith(marker):
                found = self._api.call("PATCH", f"{self._at}/issues/comments/{each['id']}", {"body": body})
                return str(found["html_url"])
        return str(self._api.call("POST", issue, {"body": body})["html_url"])

    def status(self, commit: str, state: CommitState, context: str, description: str, url: str = "") -> None:
        body = {
            "state": state,
            "context": context,
            "description": shorten_description(description),
            "target_url": url,
        }
        self._api.call("POST", f"{self._at}/statuses/{commit}", body)

    def create_request(self, branch: str, base: str, title: str, body: str) -> str:
        asked = {"head": branch, "base": base, "title": title, "body": body}
        try:
            return str(self._api.call("POST", f"{self._at}/pulls", asked)["html_url"])
        except ForgeRefused as error:
            if is_already_there(error) and (page := self._open_request_of(branch, base)):
                return page
            raise

    def _open_request_of(self, branch: str, base: str) -> str:
        """Its address; empty where none is open from this very repository."""
        own = self._at.removeprefix("/repos/").lower()
        found = self._api.pages(f"{self._at}/pulls", self._size, {"state": "open"})
        for each in islice(found, MOST_REQUESTS):
            ends = (text_at(each, "head.ref"), text_at(each, "base.ref"))
            if ends == (branch, base) and text_at(each, "head.repo.full_name").lower() == own:
                return text_at(each, "html_url")
        return ""

    def open_requests(self) -> list[OpenRequest]:
        found = self._api.pages(f"{self._at}/pulls", self._size, {"state": "open"})
        read = (read_request(each, _FIELDS) for each in islice(found, MOST_REQUESTS))
        return [each for each in read if each is not None]
