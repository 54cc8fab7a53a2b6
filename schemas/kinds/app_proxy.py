"""AppProxy: under which URLs the apps of a cluster's sessions are opened."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, WithJsonSchema

from schemas.kinds.parts.apps import AppAccess
from schemas.problems.issues import value_error
from schemas.problems.text import format_value
from schemas.values.envelope import Model, Resource
from schemas.values.names import Name
from schemas.values.quantities import Duration

_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
APP_URL_PATTERN = rf"^https?://\*(\.{_LABEL}){{2,8}}(:[1-9][0-9]{{0,4}})?$"
"""At least two labels: browsers take no cookies for one."""
_APP_URL = re.compile(APP_URL_PATTERN.removesuffix("$") + r"\Z")
_LONGEST_DOMAIN = 253 - 64
"""Letters, beside an app's own label and the dot after it (RFC 1035)."""
_LAST_PORT = 65_535


def _validate_app_url(value: str) -> str:
    port = value.rpartition(":")[2] if value.count(":") > 1 else "0"
    if _APP_URL.match(value) and int(port) <= _LAST_PORT and len(_domain(value)) <= _LONGEST_DOMAIN:
        return value
    message = f"{format_value(value)} is no URL with an asterisk for each app's own name"
    raise value_error(message, "such as https://*.apps.example or https://*.apps.example:8443", "BAI-V033")


def _domain(url: str) -> str:
    return urlsplit(url).netloc.partition(":")[0].removeprefix("*.")


AppUrl = Annotated[
    str,
    AfterValidator(_validate_app_url),
    WithJsonSchema({"type": "string", "pattern": APP_URL_PATTERN}),
]


class AppProxySpec(Model):
    cluster: Name | None = None
    """May be left out when the repository has exactly one Cluster."""
    url: AppUrl
    """Where apps are, with `*` for the name of each: `https://*.apps.example:8443`. All names below that
    domain lead to where `bai serve --apps-listen` listens. Of a domain of its own, not that of other
    services: pages of one app are of the same site as all others below it."""
    widest: AppAccess = "project"
    """The widest `access` that sessions may give their apps."""
    longest_link: Annotated[Duration, Field(le=30 * 86_400)] = 86_400
    """So long a link that is shared may open an app; 0: nobody makes any."""

    @property
    def domain(self) -> str:
        """Below which apps are."""
        return _domain(self.url)

    def url_of(self, label: str) -> str:
        """Of the app with this label, without a path."""
        return self.url.replace("*", label, 1)


class AppProxy(Resource):
    """URLs of apps."""

    singular = "app proxy"
    kind: Literal["AppProxy"]
    spec: AppProxySpec
