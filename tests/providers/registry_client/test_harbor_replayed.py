"""Harbor's API against a replaying server: no Harbor can be had here, so these are its answers as its
published API description (v2.0) gives them. They prove what is sent and how it is read, no more."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from providers.registry_client.access import RegistryAccess
from providers.registry_client.harbor import Artifact, Harbor, Project, Robot
from schemas.problems.errors.registry import NoSuchImage, RegistryError, RegistryRefused
from tests.lab.http_replay import Replay, Reply

PROJECTS = "/api/v2.0/projects?page=1&page_size=100"
SECOND = "/api/v2.0/projects?page=2&page_size=100"
ARTIFACTS = (
    "/api/v2.0/projects/vision/repositories/team%252Ftorch/artifacts?with_tag=true&page=1&page_size=100"
)
REPOSITORIES = "/api/v2.0/projects/vision/repositories?page=1&page_size=100"
ROBOTS = "/api/v2.0/robots?q=Level%3Dproject%2CProjectID%3D7&page=1&page_size=100"
PROJECT = {"name": "vision", "project_id": 7, "repo_count": 2, "metadata": {"public": "false"}}
DIGEST = "sha256:" + "a" * 64


def harbor(server: Replay) -> Harbor:
    login = {"username": "robot$bai", "password": "secret"}
    return Harbor(RegistryAccess(server.address, plain_http=True, timeout=60, **login))


def test_projects_over_pages_with_the_login() -> None:
    link = f'<{SECOND}>; rel="next", <{PROJECTS}>; rel="prev"'
    public = {"name": "library", "project_id": 1, "repo_count": 0, "metadata": {"public": "true"}}
    with Replay({PROJECTS: Reply(200, [PROJECT], {"Link": link}), SECOND: Reply(200, [public])}) as server:
        found = list(harbor(server).projects())
    assert found == [Project("vision", 7, False, 2), Project("library", 1, True, 0)]
    assert {login for _, login in server.asked} == {"Basic cm9ib3QkYmFpOnNlY3JldA=="}


def test_artifacts_of_a_repository_with_a_slash() -> None:
    items = [
        {
            "type": "IMAGE",
            "digest": DIGEST,
            "size": 1000,
            "tags": [{"name": "2.4"}, {"name": "latest"}],
            "references": [
                {"child_digest": DIGEST, "platform": {"architecture": "amd64", "os": "linux"}},
                {"child_digest": DIGEST, "platform": {"architecture": "arm64", "os": "linux"}},
                {"child_digest": DIGEST, "platform": {"architecture": "unknown", "os": "unknown"}},
            ],
        },
        {"type": "IMAGE", "digest": DIGEST, "tags": None, "extra_attrs": {"architecture": "amd64"}},
        {"type": "SIGNATURE", "digest": DIGEST},
    ]
    repositories = [{"name": "vision/team/torch", "artifact_count": 2}]
    with Replay({ARTIFACTS: Reply(200, items), REPOSITORIES: Reply(200, repositories)}) as server:
        asked = harbor(server)
        assert list(asked.repositories("vision")) == ["vision/team/torch"]
        assert list(asked.artifacts("vision/team/torch")) == [
            Artifact(DIGEST, ("2.4", "latest"), 1000, ("amd64", "arm64")),
            Artifact(DIGEST, (), 0, ("amd64",)),
        ]


def test_robots() -> None:
    items = [
        {"name": "robot$vision+bai", "expires_at": 1_800_000_000, "disable": False},
        {"name": "robot$vision+old", "expires_at": -1, "disable": True},
    ]
    with Replay({"/api/v2.0/projects/vision": Reply(200, PROJECT), ROBOTS: Reply(200, items)}) as server:
        assert list(harbor(server).robots("vision")) == [
            Robot("robot$vision+bai", False, datetime.fromtimestamp(1_800_000_000, UTC)),
            Robot("robot$vision+old", True, None),
        ]


def test_refusals_say_who_and_why() -> None:
    told = {"errors": [{"code": "UNAUTHORIZED", "message": "unauthorized: project access"}]}
    with Replay({PROJECTS: Reply(401, told)}) as server, pytest.raises(RegistryRefused) as caught:
        list(harbor(server).projects())
    assert "robot$bai: unauthorized: project access" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_what_is_not_harbor_is_said() -> None:
    for body in (b"<html>", {"a": 1}, [{"nothing": "useful"}]):
        with Replay({PROJECTS: Reply(200, body)}) as server, pytest.raises(RegistryError):
            list(harbor(server).projects())
    with Replay({}) as server, pytest.raises(NoSuchImage):
        list(harbor(server).repositories("vision"))
