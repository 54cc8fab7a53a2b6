"""A client of the tests' own for the API server: verbs, paths and JSON, and nothing that decides anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests
import yaml

from tests.waiting import until

CORE, RESOURCE, RBAC = "/api/v1", "/apis/resource.k8s.io/v1", "/apis/rbac.authorization.k8s.io/v1"
MERGE = "application/merge-patch+json"


class ApiError(AssertionError):
    """The API server refused; `status` is its HTTP status code, `reason` its word."""

    def __init__(self, method: str, path: str, answer: requests.Response) -> None:
        super().__init__(f"{method} {path}: {answer.status_code} {answer.text}")
        self.status = answer.status_code
        try:
            self.reason = str(answer.json().get("reason", ""))
        except ValueError:
            self.reason = ""


class Api:
    """Speaks as whoever a kubeconfig with a token says."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self.url = cluster["server"]
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = cluster["certificate-authority"]
        self._session.headers["Authorization"] = f"Bearer {config['users'][0]['user']['token']}"

    def call(self, method: str, path: str, body: Any = None, *, content: str = "", text: bool = False) -> Any:
        """What it answers; `content` is the body's media type when that is not JSON. Raises ApiError."""
        headers = {"Content-Type": content} if content else {}
        answer = self._session.request(method, f"{self.url}{path}", json=body, headers=headers, timeout=60)
        if not answer.ok:
            raise ApiError(method, path, answer)
        return answer.text if text else answer.json()

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def find(self, path: str) -> Any:
        """The same; None when there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def create(self, path: str, body: dict[str, Any]) -> Any:
        return self.call("POST", path, body)

    def replace(self, path: str, body: dict[str, Any]) -> Any:
        return self.call("PUT", path, body)

    def patch(self, path: str, body: dict[str, Any]) -> Any:
        """Merge it in."""
        return self.call("PATCH", path, body, content=MERGE)

    def delete(self, path: str) -> Any:
        return self.call("DELETE", path)

    def ready(self) -> bool:
        """Whether the API server answers, and all it rests on."""
        try:
            return bool(self._session.get(f"{self.url}/readyz", timeout=5).ok)
        except requests.RequestException:
            return False

    def until(self, path: str, condition: Callable[[Any], object], what: str) -> Any:
        """The object once it is as wanted; fails with what it is like when it never is."""
        seen: dict[str, Any] = {}

        def look() -> Any:
            seen["now"] = found = self.find(path)
            return found if found is not None and condition(found) else None

        return until(look, lambda: f"{what}: {path} is {seen.get('now')}", seconds=180, pause=0.2)

    def clear(self, path: str) -> None:
        """Delete all of a collection, which `path` may narrow by a query, and wait until they are gone."""
        self.delete(path)
        until(lambda: not self.get(path)["items"], f"all of {path} are gone", pause=0.2)

    def gone(self, path: str, what: str) -> None:
        until(lambda: self.find(path) is None, f"{what} is gone", pause=0.2)


def kubeconfig(
    path: Path, server: str, authority: Path, user: dict[str, str], namespace: str = "default"
) -> Path:
    """Write one that only its owner may read; `user` has a token, or a certificate's path and its key's."""
    entry = {"cluster": "lab", "user": "lab", "namespace": namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "lab", "user": user}],
        "contexts": [{"name": "lab", "context": entry}],
        "current-context": "lab",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path
