"""AppProxy: under which URLs the apps of a cluster's sessions are opened."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from schemas.kinds.parts.app_ports import AppPorts
from schemas.kinds.parts.apps import AppAccess
from schemas.problems.issues import Issue, issues_error
from schemas.values.app_url import AppUrl, app_domain
from schemas.values.envelope import Model, Resource, at_least_one_schema, field_schema
from schemas.values.names import Name
from schemas.values.quantities import Duration


class AppProxySpec(Model):
    model_config = ConfigDict(
        json_schema_extra={
            **at_least_one_schema(url="string", ports="object"),
            "if": field_schema("node", "string"),
            "then": field_schema("url", "string"),
        }
    )

    cluster: Name | None = None
    """May be left out when the repository has exactly one Cluster."""
    url: AppUrl | None = None
    """Where apps are, with `*` for the name of each: `https://*.apps.example:8443`. All names below that
    domain lead to where `bai serve --apps-listen` listens, or to `node`. Of a domain of its own, not that of
    other services: pages of one app are of the same site as all others below it."""
    node: Name | None = None
    """A node of the cluster where browsers come in: its profile's section `appProxy` has a proxy run there,
    which `bai serve` reaches over SSH. Where left out, `bai serve` listens itself."""
    ports: AppPorts | None = None
    """Ports of one host by which apps are reached: those that ask for one, and, without a `url`, all. They
    are where `bai serve --apps-listen` listens."""
    widest: AppAccess = "project"
    """The widest `access` that sessions may give their apps."""
    longest_link: Annotated[Duration, Field(le=30 * 86_400)] = 86_400
    """So long a link that is shared may open an app; 0: nobody makes any."""

    @model_validator(mode="after")
    def _require_a_way(self) -> AppProxySpec:
        if self.url is None and self.ports is None:
            hint = "write url: https://*.apps.example, or ports: {host: gpu.example, http: 30000-30099}"
            raise issues_error([Issue((), "this says nowhere that apps are", hint, "BAI-V034")])
        if self.url is None and self.node is not None:
            hint = "write url: https://*.apps.example, of which all names lead to that node"
            raise issues_error([Issue(("node",), "only apps by name come in by a node", hint, "BAI-V034")])
        return self

    @property
    def domain(self) -> str:
        """Below which apps are; empty where none has a name of its own."""
        return app_domain(self.url) if self.url is not None else ""

    def url_of(self, label: str) -> str:
        """Of the app with this label, without a path; empty where none has a name of its own."""
        return self.url.replace("*", label, 1) if self.url is not None else ""


class AppProxy(Resource):
    """Where apps are reached."""

    singular = "app proxy"
    kind: Literal["AppProxy"]
    spec: AppProxySpec
