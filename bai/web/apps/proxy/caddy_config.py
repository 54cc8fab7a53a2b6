"""Caddy's configuration, which never changes while it runs: one route for all apps.

Whatever a client says under the names of headers that bai and the proxy use is gone before anybody is asked;
the gate says who may pass, where to, and with which `Cookie` and `Authorization`; an app's answer loses what
would reach other apps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bai.web.apps.proxy.certificates import Certificates, tls_app
from bai.web.apps.proxy.ports.sites import (
    ARRIVED_AT,
    OF_THE_HOST,
    PORT_COOKIE_RULES,
    PORT_HEADER,
    PortSite,
    stranger_routes,
)

Json = dict[str, Any]

OWN_COOKIES = "bai-"
"""What names of bai's own cookies begin with, by HTTPS after `__Host-`."""
LARGEST_HEAD = 64 * 1024
"""Bytes of a request's head."""
_LARGEST_ANSWER_HEAD = 256 * 1024
_NOT_FROM_CLIENTS = ("Bai-*", "X-Forwarded-*", "Forwarded", "X-Real-Ip", "*_*")
"""`_`: programs take `X_Forwarded_For` for `X-Forwarded-For`."""
_NOT_FOR_THE_GATE = ("Connection", "Upgrade", "Expect", "Te", "Trailer", "Content-Length")
_BLANKS = "[\\x00-\\x20]*"
_COOKIE_RULES = (
    # Browsers of some years ago store `=__Host-x=y` without a name, and send `__Host-x=y`.
    {"search_regexp": f"(?i)^[\\x00-\\x20=]*(__(host|secure)-)?{OWN_COOKIES}.*$", "replace": ""},
    # Without a value the attribute says nothing.
    {"search_regexp": f"(?i);{_BLANKS}domain{_BLANKS}=[^;]*", "replace": ""},
)
_SAID = {
    "Cookie": ("cookie", "{http.request.header.Cookie}"),
    "Authorization": ("authorization", "{http.request.header.Authorization}"),
}
"""What is other for an app than for the gate, with the variables that keep what the client said."""
_OF_A_BODY = ("Content-Length", "Transfer-Encoding")
PERMISSION_HOST, PERMISSION_PATH = "permission.bai.internal", "/certificate"
"""Where a node's proxy asks whether there is an app: no address of one."""
_RETRIES = 3
_ALLOWED = "{http.reverse_proxy.header.Bai-%s}"
_TRY_AGAIN = "The server that knows this app does not answer. Please try again in a moment.\n"
_NO_DOMAIN = "This server knows of no AppProxy yet. Please try again in a moment.\n"


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    """`listen`: Caddy's network address (`fd/7`), empty where browsers come in by nodes alone, whose proxies
    ask at `entry`, empty where there are none. `urls`: of apps, as browsers know them
    (`https://*.apps.example`); `certificates` None: somebody in front ends TLS, or nobody. `gate`: its unix
    socket. `storage`: for certificates and keys."""

    listen: str
    urls: tuple[str, ...]
    certificates: Certificates | None
    gate: Path
    storage: Path
    entry: str = ""
    grace: float = 5.0
    """Seconds in which requests come to their end when it is told to stop."""
    ports: tuple[PortSite, ...] = ()
    """Hosts of which apps are reached by ports."""


def caddy_config(config: ProxyConfig) -> Json:
    """What `caddy run --config` reads."""
    servers: Json = {}
    if config.listen:
        servers["apps"] = _server(config, [config.listen], _name_routes(config))
    if config.entry:
        servers["nodes"] = _nodes_server(config)
    sites = (site for site in config.ports if site.listen)
    servers |= {f"ports{number}": _port_server(config, site) for number, site in enumerate(sites)}
    apps: Json = {"http": {"grace_period": _seconds(config.grace), "servers": servers}}
    if config.certificates is not None:
        hosts = [*map(_host, config.urls), *(site.host for site in config.ports)]
        apps["tls"] = tls_app(config.certificates, list(dict.fromkeys(hosts)))
        apps["pki"] = {"certificate_authorities": {"local": {"install_trust": False}}}
    return {
        "admin": {"disabled": True, "config": {"persist": False}},
        "logging": {"logs": {"default": _log()}},
        "storage": {"module": "file_system", "root": str(config.storage)},
        "apps": apps,
    }


def _log() -> Json:
    # Each request that an app does not answer would be a line, and 'http.log.error' tells whole requests.
    return {
        "level": "INFO",
        "writer": {"output": "stderr"},
        "encoder": {"format": "json"},
        "exclude": ["http.log", "http.stdlib", "http.handlers.reverse_proxy"],
    }


def _host(url: str) -> str:
    return urlsplit(url).netloc.partition(":")[0]


def _server(config: ProxyConfig, listen: Sequence[str], routes: list[Json]) -> Json:
    server: Json = {
        "listen": list(listen),
        "protocols": ["h1", "h2"] if config.certificates is not None else ["h1", "h2c"],
        "automatic_https": {"disable": True},
        "read_header_timeout": _seconds(10),
        "idle_timeout": _seconds(120),
        "max_header_bytes": LARGEST_HEAD,
        "routes": routes,
        "errors": {"routes": _error_routes(config)},
    }
    if config.certificates is not None:
        server["tls_connection_policies"] = [{"alpn": ["h2", "http/1.1"]}]
    return server


def _name_routes(config: ProxyConfig) -> list[Json]:
    return [*(_app_route(config, url) for url in config.urls), {"handle": [_no_app(config)]}]


def _nodes_server(config: ProxyConfig) -> Json:
    """For the proxies of nodes, which end TLS and say in a header of the connection who has come to them."""
    question = _question(config, f"{PERMISSION_PATH}?{{http.request.uri.query}}")
    asked: Json = {"match": [{"host": [PERMISSION_HOST]}], "handle": [question], "terminal": True}
    plain = replace(config, certificates=None)
    server = _server(plain, [config.entry], [asked, *_name_routes(plain)])
    return {**server, "listener_wrappers": [{"wrapper": "proxy_protocol"}]}


def _app_route(config: ProxyConfig, url: str) -> Json:
    handlers = _app_handlers(config, urlsplit(url).scheme)
    return {"match": [_is_apps(url)], "handle": handlers, "terminal": True}


def _port_server(config: ProxyConfig, site: PortSite) -> Json:
    """Which app is asked follows from the port at which the connection has arrived. Whose address is a number
    is asked for without a name, and has that one's certificate."""
    elsewhere = _answer(421, "No app has this address.\n")
    handlers = _app_handlers(config, site.scheme, by_port=True)
    routes: list[Json] = [*stranger_routes(site, elsewhere), {"handle": handlers}]
    server = _server(config, site.listen, routes)
    for policy in server.get("tls_connection_policies", ()):
        policy["default_sni"] = site.host
    return server


def _no_app(config: ProxyConfig) -> Json:
    """Before the documents are known, every address may be one of an app."""
    if not config.urls:
        return _answer(503, _NO_DOMAIN, {"Retry-After": ["2"]})
    return _answer(421, "No app has this address.\n")


def _is_apps(url: str) -> Json:
    """The pattern's `*` is nothing as well, for Caddy."""
    host = _host(url)
    return {"host": [host], "not": [{"host": [host.removeprefix("*")]}]}


def _app_handlers(config: ProxyConfig, scheme: str, *, by_port: bool = False) -> list[Json]:
    arrived = {"port": ARRIVED_AT} if by_port else {}
    routes: list[Json] = [
        {
            "match": [{"method": ["CONNECT"]}],
            "handle": [_answer(405, "This method is not for apps.\n")],
            "terminal": True,
        },
        {"handle": [_request_headers({}, _NOT_FROM_CLIENTS)]},
        *_upgrade_routes(),
        {"handle": [{"handler": "vars", "scheme": scheme, **arrived, **dict(_SAID.values())}]},
        {"handle": [_question(config, "/check", _grpc_refusal(), *_allowed_responses())]},
        {"handle": [_answer_headers(by_port=by_port)]},
        *_proxy_routes(scheme),
    ]
    return [{"handler": "subroute", "routes": routes}]


def _upgrade_routes() -> list[Json]:
    """WebSockets alone: after any other upgrade a client would go on where nobody asks any more. And nobody
    says which headers are for one hop only."""
    asked: Json = {
        "header_regexp": {
            "Upgrade": {"pattern": "(?i)^websocket$"},
            "Connection": {"pattern": "(?i)(^|[, \\t])upgrade($|[, \\t])"},
        }
    }
    upgraded = {"Connection": ["Upgrade"], "Upgrade": ["websocket"]}
    return [
        {
            "match": [asked],
            "handle": [{"handler": "vars", "upgrade": "websocket"}, _request_headers(upgraded, ())],
        },
        {
            "match": [{"not": [asked]}],
            "handle": [_request_headers({}, ("Connection", "Upgrade", "Http2-Settings"))],
        },
    ]


def _question(config: ProxyConfig, path: str, *answered: Json) -> Json:
    """What fits none of `answered` is for the client. A gate that answers a moment later than it should is
    asked again: a restart of it is not seen."""
    said = {
        "X-Forwarded-Method": ["{http.request.method}"],
        "X-Forwarded-Uri": ["{http.request.uri}"],
        "X-Forwarded-Host": ["{http.request.hostport}"],
        "X-Forwarded-Proto": ["{http.vars.scheme}"],
        "Bai-Upgrade": ["{http.vars.upgrade}"],
        PORT_HEADER: ["{http.vars.port}"],
    }
    return {
        "handler": "reverse_proxy",
        "rewrite": {"method": "GET", "uri": path},
        "handle_response": list(answered),
        "upstreams": [{"dial": f"unix/{config.gate}"}],
        "load_balancing": {"try_duration": _seconds(5), "try_interval": _seconds(0.1)},
        "transport": _transport({"dial_timeout": _seconds(2), "response_header_timeout": _seconds(10)}),
        "headers": {"request": {"set": said, "delete": list(_NOT_FOR_THE_GATE)}},
    }


def _grpc_refusal() -> Json:
    """Who calls by gRPC takes an answer for one of gRPC only where HTTP's status is 200."""
    said = {"handler": "copy_response", "status_code": 200}
    return {"match": {"headers": {"Grpc-Status": ["*"]}}, "routes": [{"handle": [said]}]}


def _allowed_responses() -> Iterator[Json]:
    """The first that fits counts, so those that ask for more come first."""
    for present in product((True, False), repeat=2):
        named = dict(zip(("Cookie", "Authorization"), present, strict=True))
        given = [name for name, there in named.items() if there]
        taken = [name for name, there in named.items() if not there]
        told = {each: _ALLOWED % each.capitalize() for each in ("upstream", "protocol", "balanced")}
        remembered = {**told, "passed": "yes"}
        yield {
            "match": {"status_code": [200], "headers": {f"Bai-{name}": ["*"] for name in given}},
            "routes": [
                {
                    "handle": [
                        {"handler": "vars", **remembered},
                        _request_headers({name: [_ALLOWED % name] for name in given}, taken),
                    ]
                }
            ],
        }


def _answer_headers(*, by_port: bool) -> Json:
    """Deferred: so they hold for what is said before the answer, and for a WebSocket's, too."""
    return {
        "handler": "headers",
        "response": {
            "deferred": True,
            "delete": ["Clear-Site-Data", "Alt-Svc", "Bai-*", *(OF_THE_HOST if by_port else ())],
            "replace": {"Set-Cookie": [*_COOKIE_RULES, *(PORT_COOKIE_RULES if by_port else ())]},
        },
    }


def _proxy_routes(scheme: str) -> list[Json]:
    """To what the gate named. An app's own certificate is nobody's: it is asked over ways that are bai's."""
    balanced = {"handler": "subroute", "routes": _protocol_routes(partial(_to_service, scheme))}
    return [
        {"match": [{"vars": {"balanced": ["yes"]}}], "handle": [balanced], "terminal": True},
        *_protocol_routes(partial(_to_app, scheme)),
    ]


def _protocol_routes(to: Callable[[Json], Json]) -> list[Json]:
    tls = {"tls": {"insecure_skip_verify": True, "server_name": "{http.request.host}"}}
    h2c = {"versions": ["h2c"]}
    # What has an end that is not known is sent on at once in any case. An answer without a body is not to be
    # sent before its end: clients of gRPC take no status that comes with its beginning for its end.
    grpc = to(h2c) | {"flush_interval": 0}
    return [
        {"match": [{"vars": {"protocol": ["grpc"]}}], "handle": [grpc], "terminal": True},
        {"match": [{"vars": {"protocol": ["https"]}}], "handle": [to(tls)], "terminal": True},
        {"handle": [to({})]},
    ]


def _to_service(scheme: str, transport: Json) -> Json:
    """A connection for each request, so that each goes to the replica that has the fewest, and none to one
    that has just closed it. Where a replica ends without an answer, what only reads is asked of another."""
    again: Json = {
        "retries": _RETRIES,
        "try_interval": _seconds(0.05),
        "retry_match": [
            {"method": ["GET", "HEAD", "OPTIONS"], "header": dict.fromkeys(_OF_A_BODY)},
        ],
    }
    once = {**transport, "keep_alive": {"enabled": False}}
    # With -1, a request would go on, and wait for a replica, when whoever asked has gone.
    return _to_app(scheme, once) | {"load_balancing": again, "flush_interval": _seconds(0.001)}


def _to_app(scheme: str, transport: Json) -> Json:
    # With TLS, Caddy would name what it dials as the host.
    said = {"X-Forwarded-Proto": [scheme], "Host": ["{http.request.hostport}"]}
    return {
        "handler": "reverse_proxy",
        "upstreams": [{"dial": "{http.vars.upstream}"}],
        "flush_interval": -1,
        "transport": _transport({"dial_timeout": _seconds(10), **transport}),
        "headers": {"request": {"set": said}},
    }


def _transport(options: Json) -> Json:
    return {
        "protocol": "http",
        "versions": ["1.1"],
        "compression": False,
        "network_proxy": {"from": "none"},
        "max_response_header_size": _LARGEST_ANSWER_HEAD,
        "keep_alive": {"idle_timeout": _seconds(60), "max_idle_conns_per_host": 64},
        **options,
    }


def _error_routes(config: ProxyConfig) -> list[Json]:
    """What does not answer: an app, of which the gate knows more; or the gate itself."""
    unknown: Json = _answer(503, _TRY_AGAIN, {"Retry-After": ["2"]})
    page: Json = {
        "handler": "subroute",
        "routes": [*_said_again(), {"handle": [_question(config, "/unanswered", _grpc_refusal())]}],
        "errors": {"routes": [{"handle": [unknown]}]},
    }
    return [
        {"match": [{"vars": {"passed": ["yes"]}}], "handle": [page], "terminal": True},
        {"match": [{"expression": "{http.error.status_code} >= 500"}], "handle": [unknown], "terminal": True},
        {"handle": [_answer("{http.error.status_code}", "This is no request.\n")]},
    ]


def _said_again() -> Iterator[Json]:
    """The gate is asked about an app as it was before."""
    for header, (name, _) in _SAID.items():
        unsaid = {"vars": {name: [""]}}
        yield {"match": [unsaid], "handle": [_request_headers({}, [header])]}
        said = _request_headers({header: [f"{{http.vars.{name}}}"]}, [])
        yield {"match": [{"not": [unsaid]}], "handle": [said]}


def _request_headers(given: dict[str, list[str]], taken: tuple[str, ...] | list[str]) -> Json:
    return {"handler": "headers", "request": {"set": given, "delete": list(taken)}}


def _answer(status: int | str, text: str, headers: dict[str, list[str]] | None = None) -> Json:
    said = {"Content-Type": ["text/plain; charset=utf-8"], "Cache-Control": ["no-store"], **(headers or {})}
    return {"handler": "static_response", "status_code": status, "body": text, "headers": said}


def _seconds(seconds: float) -> int:
    """As Caddy takes durations: nanoseconds."""
    return round(seconds * 1_000_000_000)
