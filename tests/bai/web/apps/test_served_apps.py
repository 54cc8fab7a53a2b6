"""What a server says of apps to which nobody can come."""

from __future__ import annotations

from typing import Any

import pytest

from bai.web.apps.served_apps import way_in_doubt
from schemas.kinds.app_proxy import AppProxySpec

NAMES = {"url": "https://*.apps.example"}
PLAIN_NAMES = {"url": "http://*.apps.example"}
TCP = {"ports": {"host": "gpu.example", "tcp": "31000-31009"}}
PLAIN_HTTP = {"ports": {"host": "gpu.example", "http": "30000-30009", "tls": False}}


@pytest.mark.parametrize(
    ("spec", "listens", "encrypted", "by_node", "said"),
    [
        (None, True, True, False, "no AppProxy says at which URLs they are"),
        (NAMES, True, True, False, ""),
        (NAMES, False, True, True, ""),
        (NAMES, False, True, False, "no AppProxy names a node"),
        (PLAIN_NAMES, True, True, False, "http://*.apps.example is without TLS"),
        (PLAIN_NAMES, True, False, False, ""),
        (TCP, True, True, False, ""),
        (TCP, False, True, False, "ports of gpu.example are mapped where --apps-listen is given an address"),
        (PLAIN_HTTP, True, True, False, "http://gpu.example is without TLS"),
        (PLAIN_HTTP, True, False, False, ""),
    ],
)
def test_only_what_keeps_somebody_away_is_said(
    spec: dict[str, Any] | None, listens: bool, encrypted: bool, by_node: bool, said: str
) -> None:
    proxies = [] if spec is None else [AppProxySpec.model_validate(spec)]
    found = way_in_doubt(proxies, listens=listens, encrypted=encrypted, by_node=by_node)
    assert found.startswith(said) and bool(found) == bool(said)
