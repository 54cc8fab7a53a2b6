"""At which URLs apps of sessions are: a name of its own for each, below one domain."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, WithJsonSchema

from schemas.problems.issues import value_error
from schemas.problems.text import format_value

_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
APP_URL_PATTERN = rf"^https?://\*(\.{_LABEL}){{2,8}}(:[1-9][0-9]{{0,4}})?$"
"""At least two labels: browsers take no cookies for one."""
_APP_URL = re.compile(APP_URL_PATTERN.removesuffix("$") + r"\Z")
_LONGEST_DOMAIN = 253 - 64
"""Letters, beside an app's own label and the dot after it (RFC 1035)."""
_LAST_PORT = 65_535


def app_domain(url: str) -> str:
    """Below which the apps of such a URL are."""
    return urlsplit(url).netloc.partition(":")[0].removeprefix("*.")


def _validate_app_url(value: str) -> str:
    port = value.rpartition(":")[2] if value.count(":") > 1 else "0"
    if _APP_URL.match(value) and int(port) <= _LAST_PORT and len(app_domain(value)) <= _LONGEST_DOMAIN:
        return value
    message = f"{format_value(value)} is no URL with an asterisk for each app's own name"
    raise value_error(message, "such as https://*.apps.example or https://*.apps.example:8443", "BAI-V033")


AppUrl = Annotated[
    str,
    AfterValidator(_validate_app_url),
    WithJsonSchema({"type": "string", "pattern": APP_URL_PATTERN}),
]
