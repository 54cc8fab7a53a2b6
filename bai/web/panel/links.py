"""Addresses of pages, and texts with links to them."""

from __future__ import annotations

import re
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

from bai.render.humanize import clean
from schemas.kinds.kind_registry import KINDS
from schemas.values.resource_ref import ref_of

_IDENTITY = re.compile(r"\b[A-Z][A-Za-z]+/[A-Za-z0-9](?:[\w.-]*\w)?(?:/[A-Za-z0-9](?:[\w.-]*\w)?)?")

_PAGES = {"Node": "nodes", "Project": "projects", "ResourceGroup": "groups", "User": "users"}
"""Kinds that have pages of their own."""


def path(*parts: str, **query: object) -> str:
    """`/parts/in/order?query`, each part and value quoted; empty values are left out."""
    shown = {name: str(value) for name, value in query.items() if value not in ("", None, False)}
    where = "/".join(quote(part, safe="") for part in parts)
    return f"/{where}?{urlencode(shown)}" if shown else f"/{where}"


def identity_path(cluster: str, identity: str) -> str:
    """The page of a resource."""
    ref = ref_of(identity)
    if ref.kind == "Session" and ref.project:
        return path("clusters", cluster, "sessions", ref.project, ref.name)
    if ref.kind in _PAGES:
        return path("clusters", cluster, _PAGES[ref.kind], ref.name)
    if ref.kind == "Cluster":
        return path("clusters", cluster)
    return path("clusters", cluster, "resources", *filter(None, ref))


def linked_text(text: str, cluster: str) -> Markup:
    """A text in which identities of resources are links; everything else is escaped."""
    shown, found, at = clean(text), Markup(), 0
    if "/" not in shown:
        return escape(shown)
    for match in _IDENTITY.finditer(shown):
        if ref_of(match[0]).kind not in KINDS:
            continue
        found += escape(shown[at : match.start()])
        found += Markup('<a href="{}">{}</a>').format(identity_path(cluster, match[0]), match[0])
        at = match.end()
    return found + escape(shown[at:])
