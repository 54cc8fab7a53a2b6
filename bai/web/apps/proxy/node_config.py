"""The configuration of the Caddy of a node where browsers come in: it ends TLS, and has one way in.

What it says of itself is `caddy_config`'s. All it does with a request is to pass it on: who may, and where
to, is asked where bai is. `scripts/gen_roles.py` writes it into the role `app_proxy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bai.web.apps.answers import Notice, notice
from bai.web.apps.decision import Form
from bai.web.apps.proxy.caddy_config import PERMISSION_HOST, PERMISSION_PATH, ProxyConfig, caddy_config
from bai.web.apps.proxy.certificates import Certificates
from bai.web.apps.request_head import GRPC

Json = dict[str, Any]

SOCKETS = "/run/bai-apps"
"""Where a node has bai's sockets."""
APPS_SOCKET = "apps"
_AGAIN = 5
_AWAY = Notice("Apps are not reached just now", ["The server that knows them does not answer."], _AGAIN)
_NANOSECONDS = 1_000_000_000
_GRPC_CALLS: Json = {"protocol": "http/2", "header_regexp": {"Content-Type": {"pattern": f"(?i)^{GRPC}"}}}
_LARGEST_ANSWER_HEAD = 512 * 1024
"""Bytes; more than one that an app may send, with what is added to it."""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """`listen`: Caddy's network address; `url` of apps (`https://*.apps.example`); `storage`: for
    certificates and keys. `permission`: host and port of the loopback where Caddy asks itself about
    certificates; `socket`: where bai's way in is."""

    listen: str
    url: str
    certificates: Certificates | None
    storage: Path
    permission: str = ""
    socket: str = f"{SOCKETS}/{APPS_SOCKET}"


def node_caddy_config(config: NodeConfig) -> Json:
    """What `caddy run --config` reads there."""
    known = ProxyConfig(
        config.listen, (config.url,), config.certificates, Path(config.socket), config.storage
    )
    whole = caddy_config(known)
    servers: Json = whole["apps"]["http"]["servers"]
    [apps, no_app] = servers["apps"]["routes"]
    passed_on = {**apps, "handle": _handlers(config)}
    servers["apps"] |= {"routes": [passed_on, no_app], "errors": {"routes": _error_routes()}}
    if config.permission:
        servers["permission"] = _permission_server(config)
    return whole


def _handlers(config: NodeConfig) -> list[Json]:
    refused = {"handler": "static_response", "status_code": 405}
    routes = [
        {"match": [{"method": ["CONNECT"]}], "handle": [refused], "terminal": True},
        {"match": [_GRPC_CALLS], "handle": _grpc_way_in(config), "terminal": True},
        {"handle": [_way_in(config)]},
    ]
    return [{"handler": "subroute", "routes": routes}]


def _way_in(config: NodeConfig) -> Json:
    """One that is made again meanwhile is waited for."""
    return {
        "handler": "reverse_proxy",
        "upstreams": [{"dial": f"unix/{config.socket}"}],
        "load_balancing": {"try_duration": 3 * _NANOSECONDS, "try_interval": _NANOSECONDS // 10},
        # With -1, a request would go on when whoever asked has gone.
        "flush_interval": _NANOSECONDS // 1000,
        "transport": {
            "protocol": "http",
            "versions": ["1.1"],
            "compression": False,
            "network_proxy": {"from": "none"},
            "proxy_protocol": "v2",
            "dial_timeout": 5 * _NANOSECONDS,
            "max_response_header_size": _LARGEST_ANSWER_HEAD,
            "keep_alive": {"idle_timeout": 60 * _NANOSECONDS, "max_idle_conns_per_host": 64},
        },
        "headers": {"request": {"set": {"Host": ["{http.request.hostport}"]}}},
    }


def _grpc_way_in(config: NodeConfig) -> list[Json]:
    """By HTTP/2, with a connection for each one of a client. Caddy keeps connections apart by whom their
    header names, which is the client's address: people at one address would share one, and as what may be
    under way on a connection is bounded, an upload that an app does not take would stop all of them."""
    way_in = _way_in(config)
    transport = {
        **way_in["transport"],
        "versions": ["h2c"],
        "keep_alive": {"idle_timeout": 5 * _NANOSECONDS},
    }
    # As behind it: an answer without a body is not to be sent before its end.
    told = {"flush_interval": 0, "transport": transport}
    return [{"handler": "vars", "client_ip": "{http.request.remote}"}, way_in | told]


def _permission_server(config: NodeConfig) -> Json:
    """Caddy asks no unix socket about certificates: it asks itself, and that is passed on."""
    asked = _way_in(config) | {"headers": {"request": {"set": {"Host": [PERMISSION_HOST]}}}}
    return {
        "listen": [config.permission],
        "protocols": ["h1"],
        "automatic_https": {"disable": True},
        "routes": [{"match": [{"path": [PERMISSION_PATH]}], "handle": [asked], "terminal": True}],
        "errors": {"routes": [{"handle": [{"handler": "static_response", "status_code": 503}]}]},
    }


def _error_routes() -> list[Json]:
    """Where nobody is at the other end: a page that comes again for people, an error for programs. Who calls
    by gRPC takes an answer for one of gRPC only where HTTP's status is 200."""
    page = {"method": ["GET", "HEAD"], "header": {"Accept": ["*text/html*"]}}
    return [
        {"match": [_GRPC_CALLS], "handle": [_away("grpc") | {"status_code": 200}], "terminal": True},
        {"match": [page], "handle": [_away("html")], "terminal": True},
        {"handle": [_away("json")]},
    ]


def _away(form: Form) -> Json:
    answer = notice(503, _AWAY, form=form)
    headers = {name.decode().title(): [value.decode()] for name, value in answer.headers}
    text = answer.body.decode()
    return {"handler": "static_response", "status_code": answer.status, "body": text, "headers": headers}
