"""Pages taken apart, and what has to be true of all of them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
VOID |= {"path", "circle", "line", "rect", "use"}


@dataclass
class Seen(HTMLParser):
    """Elements of a page in their order, each with its attributes; what is open at the end."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    inside: list[tuple[str, ...]] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute twice: <{tag} {attrs}>"
        self.elements.append((tag, dict(attrs)))
        self.inside.append(tuple(self.open))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.inside.append(tuple(self.open))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}>"

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def parsed(text: str) -> Seen:
    """A page of which every element is closed."""
    seen = Seen()
    seen.feed(text)
    seen.close()
    assert seen.open == []
    return seen


def check_policy(seen: Seen) -> None:
    """No inline script, style or handler; no address but of this server; ids are unique."""
    ids = Counter(attributes["id"] for _, attributes in seen.elements if "id" in attributes)
    assert [each for each, count in ids.items() if count > 1] == []
    assert seen.named("style") == []
    for tag, attributes in seen.elements:
        acting = [each for each in attributes if each.startswith(("on", "hx-on", "hx-vals", "hx-vars"))]
        assert acting == [], tag
        assert not {"style", "srcdoc"} & set(attributes), tag
        for each in ("href", "src", "action", "formaction", "data-live", "xlink:href"):
            assert re.match(r"/(?!/)|#", attributes.get(each) or "/"), (tag, attributes)
    for script in seen.named("script"):
        assert (script["src"] or "").startswith("/assets/")
    assert "".join(text for tag, text in seen.texts if tag == "script") == ""


def check_names(seen: Seen) -> None:
    """One h1 and one main; names for fields, tables and what is drawn; references that lead somewhere."""
    assert len(seen.named("main")) == len(seen.named("h1")) == len(seen.named("title")) == 1
    assert seen.named("html")[0]["lang"] == "en"
    labelled = {each.get("for") for each in seen.named("label")} - {None}
    for (tag, attributes), inside in zip(seen.elements, seen.inside, strict=True):
        if tag in {"input", "select", "textarea"} and attributes.get("type") != "hidden":
            assert "label" in inside or attributes.get("id") in labelled, attributes
    for each in seen.named("th"):
        assert each["scope"] in {"col", "row"}
    for each in seen.named("svg"):
        assert each["aria-hidden"] == "true"
    assert len(seen.named("caption")) == len(seen.named("table"))
    ids = {attributes.get("id") for _, attributes in seen.elements}
    for tag, attributes in seen.elements:
        for name_ in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(name_) in {None, *ids}, tag
        if tag == "use":
            assert (attributes["href"] or "")[1:] in ids
        if tag == "a" and (attributes["href"] or "").startswith("#"):
            assert (attributes["href"] or "")[1:] in ids
