"""What roles grant, as the API server has heard of it: it answers before it goes by a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.lab.kubernetes.api import Api
from tests.waiting import until

_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
Rule = Mapping[str, Any]


def until_granted(api: Api, manifest: Path) -> None:
    """Until all that the roles and bindings of a manifest give is given."""
    documents = [each for each in yaml.safe_load_all(manifest.read_text()) if each is not None]
    rules = {_role_of(each): each["rules"] for each in documents if each["kind"] in ("Role", "ClusterRole")}
    for each in documents:
        if each["kind"].endswith("RoleBinding"):
            for subject in each["subjects"]:
                until_heeded(api, user_of(subject), each, rules[_role_named(each)])


def until_heeded(api: Api, user: str, binding: Mapping[str, Any], rules: Sequence[Rule]) -> None:
    """Until a user may do the first thing that a role gives by this binding: of one role, the server hears
    of all rules together."""
    for rule in rules[:1]:
        asked = {
            "group": rule["apiGroups"][0],
            "verb": rule["verbs"][0],
            **dict(zip(("resource", "subresource"), rule["resources"][0].split("/"), strict=False)),
            "name": next(iter(rule.get("resourceNames", ())), ""),
            "namespace": binding["metadata"].get("namespace", ""),
        }
        review = {"spec": {"user": user, "resourceAttributes": asked}}
        until(lambda: api.create(_REVIEWS, review)["status"]["allowed"], f"{user} may {asked}")  # noqa: B023


def user_of(subject: Mapping[str, Any]) -> str:
    """Of a ServiceAccount."""
    return f"system:serviceaccount:{subject['namespace']}:{subject['name']}"


def _role_of(document: Mapping[str, Any]) -> tuple[str, str, str]:
    about = document["metadata"]
    return document["kind"], about.get("namespace", ""), about["name"]


def _role_named(binding: Mapping[str, Any]) -> tuple[str, str, str]:
    role = binding["roleRef"]
    namespace = binding["metadata"].get("namespace", "") if role["kind"] == "Role" else ""
    return role["kind"], namespace, role["name"]
