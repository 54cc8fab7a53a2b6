"""Policy: what a plan must fulfil before it is carried out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from schemas.values.envelope import Count, Flag, Model, Resource
from schemas.values.names import Glob, LabelKey, LabelValue, Name, Text
from schemas.values.public_keys import PublicKeyText
from schemas.values.quantities import Percent

RULE_VARIABLES = ("action", "before", "after", "plan")
"""What expressions of `validations` know."""
KindName = Literal[
    "Cluster", "Node", "NodePool", "NodeProfile", "ResourceGroup", "Domain", "Project", "User", "Quota",
    "StorageHost", "Volume", "SecretStore", "Registry", "Image", "Session", "SessionTemplate", "Sweep",
    "Service", "AppProxy", "Notification", "Policy",
]  # fmt: skip
Forbidden = Literal["root", "host-network", "capabilities"]


class PolicyMatch(Model):
    """Which resources it is about: those that have all of it, as they are or as they are to be."""

    kinds: tuple[KindName, ...] = ()
    """Only these kinds; all when empty."""
    projects: tuple[Name, ...] = ()
    """Only what belongs to these projects; everything when empty."""
    labels: Mapping[LabelKey, LabelValue] = {}
    """Only what has all these labels."""


class MaxDeletions(Model):
    """Most deletions in one plan: either bound counts. Sessions that have ended do not."""

    count: Count | None = None
    percent: Percent | None = None
    """Of all that the policy matches and is recorded."""


class Signatures(Model):
    """Whose signatures images have, as `cosign sign --key` makes them."""

    images: tuple[Glob, ...] = ()
    """Which images, by patterns of registry and repository; all when empty."""
    keys: Annotated[tuple[PublicKeyText, ...], Field(min_length=1, max_length=16)]
    """Public keys in PEM; one of them has signed."""


class ImageRules(Model):
    """Which images sessions may start."""

    allowed: tuple[Glob, ...] = ()
    """Patterns of registry and repository, with * and ?, such as `registry.example/team/*`; those of Docker
    Hub begin with `docker.io/`. Any when empty."""
    digest: Flag = False
    """Only what is named by digest: in the document, or found out when it was planned."""
    signatures: Annotated[tuple[Signatures, ...], Field(max_length=100)] = ()
    """Only what is signed; an image that several of these are about fulfils all of them."""


class MountRules(Model):
    """Which volumes sessions may mount, by patterns of their names with * and ?."""

    allowed: tuple[Glob, ...] = ()
    """Any when empty."""
    read_only: tuple[Glob, ...] = ()
    """Only to be read."""


class Guards(Model):
    """Built-in rules; those that are left out ask for nothing."""

    max_deletions: MaxDeletions | None = None
    prevent_destroy: Flag = False
    """Nothing is deleted or replaced, which stops what runs."""
    max_provisioned: Count | None = None
    """Most nodes that one plan provisions."""
    require_owner: Flag = False
    """Sessions name their `owner`."""
    images: ImageRules | None = None
    mounts: MountRules | None = None
    forbid: tuple[Forbidden, ...] = ()
    """What sessions may not have: `root` inside of containers, their nodes' own network, `capabilities` of
    Linux."""
    quota_headroom: Percent | None = None
    """So much of each quota stays unused by what a plan starts."""


class Validation(Model):
    """A rule of one's own, for each change that the policy matches."""

    expression: Text
    """In CEL; true where the change may be made. It knows `action`, `before`, `after` and `plan`."""
    message: Text
    """What is wrong, and what would be right."""


class PolicySpec(Model):
    cluster: Name | None = None
    """Only of this cluster; of all when left out."""
    match: PolicyMatch = PolicyMatch()
    enforcement: Literal["deny", "warn"] = "deny"
    """`deny`: a plan that breaks it is not carried out; `warn`: its plan says so."""
    overridable: Flag = False
    """Whether a resource's annotation `override.bai/<name of the policy>: "2026-12-31 why"` puts it aside for
    that resource until the end of that day (UTC)."""
    guards: Guards = Guards()
    validations: Annotated[tuple[Validation, ...], Field(max_length=100)] = ()


class Policy(Resource):
    """What a plan must fulfil before it is carried out."""

    singular = "policy"
    kind: Literal["Policy"]
    spec: PolicySpec
