"""AppProxy: under which URLs the apps of a cluster's sessions are opened."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from schemas.kinds.parts.apps import AppAccess
from schemas.values.app_url import AppUrl, app_domain
from schemas.values.envelope import Model, Resource
from schemas.values.names import Name
from schemas.values.quantities import Duration


class AppProxySpec(Model):
    cluster: Name | None = None
    """May be left out when the repository has exactly one Cluster."""
    url: AppUrl
    """Where apps are, with `*` for the name of each: `https://*.apps.example:8443`. All names below that
    domain lead to where `bai serve --apps-listen` listens, or to `node`. Of a domain of its own, not that of
    other services: pages of one app are of the same site as all others below it."""
    node: Name | None = None
    """A node of the cluster where browsers come in: its profile's section `appProxy` has a proxy run there,
    which `bai serve` reaches over SSH. Where left out, `bai serve` listens itself."""
    widest: AppAccess = "project"
    """The widest `access` that sessions may give their apps."""
    longest_link: Annotated[Duration, Field(le=30 * 86_400)] = 86_400
    """So long a link that is shared may open an app; 0: nobody makes any."""

    @property
    def domain(self) -> str:
        """Below which apps are."""
        return app_domain(self.url)

    def url_of(self, label: str) -> str:
        """Of the app with this label, without a path."""
        return self.url.replace("*", label, 1)


class AppProxy(Resource):
    """URLs of apps."""

    singular = "app proxy"
    kind: Literal["AppProxy"]
    spec: AppProxySpec
