"""How a page is made: its own part from values, once for all who see the same, and around it a frame, which
says who looks. News replaces only the page's own part.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from bai.render.humanize import clean
from bai.web.cluster_loops import ClusterLoops
from bai.web.etag_cache import EtagCache, VersionedCache, matches_tag
from bai.web.panel.access.cookies import CookieSealer
from bai.web.panel.assets import shared_assets
from bai.web.panel.blocks import block_kinds
from bai.web.panel.links import linked_text, path
from bai.web.panel.navigation import NavGroup
from bai.web.panel.news import ClusterNews

PROJECT_CLASSES = 12
"""Colours that tell projects apart."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {"Content-Security-Policy": POLICY, "Vary": "Cookie, HX-Request, Accept-Encoding"}
_SEPARATOR = "<!--part-->"
"""Between title, heading, main part and scripts. No text has it: its `<` would be escaped."""
_FORM_TOKEN = "<!--form-token-->"
"""Where forms of a kept page have the token of whoever looks. No text has it, either."""
_SMALL = 1000
"""Bytes that are not worth compressing."""


@dataclass(frozen=True, slots=True)
class SimulatedTime:
    """The time of a cluster that is simulated: milliseconds since the epoch, and how many pass in one of
    ours."""

    now: int
    pace: float


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around a page. `guest`: who looks is nobody in particular, and may log in. `live`: address
    of its news, empty for none."""

    cluster: str = ""
    clusters: tuple[str, ...] = ()
    user: str = ""
    role: str = ""
    guest: bool = False
    nav: tuple[NavGroup, ...] = ()
    live: str = ""
    simulation: SimulatedTime | None = None
    form_token: str = ""
    notes: tuple[str, ...] = ()
    commit: str = ""
    last_pass: str = ""


@dataclass(frozen=True, slots=True)
class Fragment:
    """A page's own part, as HTML. `scripts`: elements for its head, of what it needs beside `panel.js`."""

    title: Markup
    heading: Markup
    main: Markup
    scripts: Markup


@dataclass(frozen=True)
class KeptPage:
    """A page of a cluster without what is of who looks. `news`: what a page that is open is answered with."""

    fragment: Fragment
    news: bytes

    @cached_property
    def tag(self) -> str:
        return f'"{hashlib.sha256(self.news).hexdigest()[:32]}"'

    @cached_property
    def has_forms(self) -> bool:
        return _FORM_TOKEN.encode() in self.news

    @cached_property
    def compressed_news(self) -> bytes:
        return gzip.compress(self.news, 5, mtime=0)


class Panel:
    """What all pages of a server share. `secret` seals cookies, the same for all replicas."""

    def __init__(self, loops: ClusterLoops, secret: str = "") -> None:
        self.sealer, self.assets = CookieSealer(secret), shared_assets()
        self.news = {name: ClusterNews(cluster) for name, cluster in loops.clusters.items()}
        self.figures = {name: EtagCache() for name in loops.clusters}
        """What plots of a cluster are drawn from."""
        self._environment = _environment()
        self._kept: dict[str, VersionedCache[KeptPage]] = {
            name: VersionedCache(lambda page: 2 * len(page.news)) for name in loops.clusters
        }

    def fragment(self, template: str, values: Mapping[str, Any], cluster: str = "") -> Fragment:
        """`values` for the template, which extends `base.html`; its links lead into `cluster`."""
        text = self._environment.get_template(template).render({"cluster": cluster, **values})
        title, heading, main, scripts = map(Markup, text.split(_SEPARATOR))
        return Fragment(title.strip(), heading, main, scripts.strip())

    def kept_page(
        self, frame: Frame, key: Hashable, version: Hashable, make: Callable[[], Fragment]
    ) -> KeptPage:
        """Made once for each version of the cluster. Of the frame, only what is the same for all who have
        this key is used."""

        def page() -> KeptPage:
            fragment = make()
            template = self._environment.get_template("news.html")
            text = template.render(frame=frame, fragment=fragment, cluster=frame.cluster)
            return KeptPage(fragment, text.encode())

        return self._kept[frame.cluster].get(key, version, page)

    def respond(
        self, request: Request, fragment: Fragment, frame: Frame, status: int = 200, *, policy: str = POLICY
    ) -> Response:
        """A whole page, made for who asks. `policy`: what it may load and do."""
        template = self._environment.get_template("frame.html" if frame.user else "bare.html")
        text = template.render(
            frame=frame, cluster=frame.cluster, title=fragment.title, heading=fragment.heading,
            main=fragment.main, scripts=fragment.scripts,
        )  # fmt: skip
        data = text.replace(_FORM_TOKEN, frame.form_token).encode()
        return _compressed(request, data, {**HEADERS, "Content-Security-Policy": policy}, status)

    def respond_kept(
        self, request: Request, page: KeptPage, frame: Frame, *, policy: str = POLICY
    ) -> Response:
        """What is new, to a page that is open; else a whole page."""
        if request.headers.get("hx-request") != "true":
            return self.respond(request, page.fragment, frame, policy=policy)
        # Forms of another login are another page, although all else is the same.
        tag = f'{page.tag[:-1]}{frame.form_token[:16]}"' if page.has_forms else page.tag
        headers = {**HEADERS, "Content-Security-Policy": policy, "Cache-Control": "private, no-cache"}
        headers["ETag"] = tag
        if matches_tag(request.headers.get("if-none-match", ""), tag):
            return Response(status_code=304, headers=headers)
        if page.has_forms:
            data = page.news.replace(_FORM_TOKEN.encode(), frame.form_token.encode())
            return _compressed(request, data, headers)
        if _takes_gzip(request):
            return HTMLResponse(page.compressed_news, headers={**headers, "Content-Encoding": "gzip"})
        return HTMLResponse(page.news, headers=headers)


def _compressed(request: Request, data: bytes, headers: Mapping[str, str], status: int = 200) -> HTMLResponse:
    """What is made for one who asks, where that is worth it."""
    if not _takes_gzip(request) or len(data) <= _SMALL:
        return HTMLResponse(data, status, headers)
    packed = gzip.compress(data, 5, mtime=0)
    return HTMLResponse(packed, status, {**headers, "Content-Encoding": "gzip"})


def _takes_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


@functools.cache
def _environment() -> Environment:
    """One for all servers of a process: each template is read and compiled once, and never looked for
    again."""
    made = Environment(
        loader=PackageLoader("bai.web.panel"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    made.globals |= {"asset": shared_assets().address, "path": path}
    made.filters |= {
        "clean": clean, "linked": _linked, "ago": time_element, "project_class": project_class,
        "blocks": block_kinds,
    }  # fmt: skip
    return made


@pass_context
def _linked(context: Context, text: str) -> Markup:
    return linked_text(text, context["cluster"])


def time_element(time: str) -> Markup:
    """A moment (ISO 8601), which the browser turns into how long ago it was; nothing for none."""
    return Markup('<time datetime="{0}">{0}</time>').format(time) if time else Markup()


def project_class(project: str) -> str:
    """Its colour: the same on every page."""
    return f"p{int.from_bytes(hashlib.sha256(project.encode()).digest()[:4], 'big') % PROJECT_CLASSES}"
