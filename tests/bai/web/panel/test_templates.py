"""The pages' foundation, rendered with texts that want to be more than texts. The filters are simple ones of
the same names as the panel's."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from bai.render.humanize import clean
from bai.render.printout import Entry, Lines, Overview, Printout, Report, Section, Span, Table
from bai.web.panel.blocks import block_kinds, style_classes, table_block
from tests.bai.web.panel.markup import Seen, check_names, check_policy, parsed

PANEL = Path(__file__).resolve().parents[4] / "bai" / "web" / "panel"
STATIC = PANEL / "static"
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(1)> javascript:alert(1) {{ 7*7 }}"
HOSTILE += " \x1b[31m\u202e\x00"


def path(*parts: str, **query: object) -> str:
    where = "/" + "/".join(quote(part, safe="") for part in parts)
    return f"{where}?{urlencode(query)}" if query else where


@pass_context
def linked(context: Context, text: str) -> Markup:
    assert context["cluster"]  # Links lead into it: macros that link are imported with context.
    return Markup("{}").format(clean(text))


def ago(iso: str) -> Markup:
    return Markup('<time datetime="{}">{}</time>').format(iso, iso)


def asset(name: str) -> str:
    assert (STATIC / name).is_file(), f"no asset {name}"
    return f"/assets/{name.replace('/', '-')}"


@functools.cache
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(PANEL / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"asset": asset, "path": path}
    made.filters |= {"clean": clean, "linked": linked, "ago": ago}
    return made


def frame(**changed: object) -> SimpleNamespace:
    nav = groups("/clusters/a")
    whole: dict[str, object] = {
        "cluster": "a", "clusters": ("a", "b"), "user": "ann", "role": "viewer", "guest": False, "nav": nav,
        "live": "/clusters/a/live", "simulation": None, "form_token": "t0k3n", "notes": ("one note",),
        "commit": "9aed3939033f", "last_pass": "2026-01-02T03:04:05Z",
    }  # fmt: skip
    return SimpleNamespace(**{**whole, **changed})


def groups(href: str) -> tuple[SimpleNamespace, ...]:
    first = SimpleNamespace(href=href, label="Cluster", key="c", active=True)
    second = SimpleNamespace(href=href, label="Usage", key="", active=False)
    return SimpleNamespace(label="", items=(first,)), SimpleNamespace(label="Numbers", items=(second,))


def hostile_frame() -> SimpleNamespace:
    nav = groups(path(HOSTILE))
    return frame(
        cluster=HOSTILE, clusters=(HOSTILE, "b"), user=HOSTILE, role=HOSTILE, nav=nav, live=path(HOSTILE),
        form_token=HOSTILE, notes=(HOSTILE,), commit=HOSTILE,
    )  # fmt: skip


ALL_BLOCKS = Printout(
    blocks=(
        Table(("name", "used"), (("Session/a/b", "3/8"), ("Node/n", "12/16"))),
        Table((), (("key", "value"),)),
        Table(("none",), (), empty="No rows."),
        Report((Section("First", ("words", Table(("x",), (("1",),)))), Section("Below", level=2))),
        Overview((Entry("state", ("good", "and more"), "bold green"),)),
        Lines(((Span("red", "bold red"), Span(" plain")), (Span("next"),))),
    )
)


def hostile_blocks() -> Printout:
    return Printout(
        blocks=(
            Table((HOSTILE, HOSTILE), ((HOSTILE, HOSTILE),)),
            Table((), ((HOSTILE, HOSTILE),)),
            Table((HOSTILE,), (), empty=HOSTILE),
            Report(
                (Section(HOSTILE, (HOSTILE, Table((HOSTILE,), ((HOSTILE,),)))), Section(HOSTILE, level=2))
            ),
            Overview((Entry(HOSTILE, (HOSTILE, HOSTILE), HOSTILE),)),
            Lines(((Span(HOSTILE, HOSTILE), Span(HOSTILE)), (Span(HOSTILE),))),
        )
    )


BLOCKS_PAGE = """{% extends "base.html" %}
{% from "blocks.html" import badge, printout with context %}
{% block title %}{{ name | clean }}{% endblock %}
{% block heading %}<h1>{{ name | clean }} {{ badge(name) }}</h1>{% endblock %}
{% block main %}{{ printout(blocks, name) }}{% endblock %}
"""


@dataclass(frozen=True)
class Page:
    """A template, with good values and with hostile ones."""

    template: str
    good: dict[str, Any]
    hostile: dict[str, Any]


LOGIN = {"next": "/", "error": "wrong token", "note": "logged out"}
AT = "/login/oidc/0"
PAGES = {
    "login": Page(
        "login.html",
        {**LOGIN, "providers": [("login.example", AT)]},
        {**dict.fromkeys(LOGIN, HOSTILE), "providers": [(HOSTILE, AT)]},
    ),
    "leave": Page("leave.html", {"label": "login.example", "onward": AT}, {"label": HOSTILE, "onward": AT}),
    "error": Page(
        "error.html",
        {"status": 404, "message": "no such session", "advice": "look at the list"},
        {"status": 404, "message": HOSTILE, "advice": HOSTILE},
    ),
    "clusters": Page("clusters.html", {"clusters": ("a", "b")}, {"clusters": (HOSTILE, HOSTILE)}),
    "no clusters": Page("clusters.html", {"clusters": ()}, {"clusters": ()}),
    "blocks": Page(
        "",
        {"name": "RUNNING", "blocks": block_kinds(ALL_BLOCKS)},
        {"name": HOSTILE, "blocks": block_kinds(hostile_blocks())},
    ),
}
FRAMES = {"frame": (frame(), hostile_frame()), "bare": (frame(user=""), frame(user=""))}
CASES = [(page, around) for page in PAGES for around in FRAMES]


def render(name: str, around: str, hostile: bool = False) -> Seen:
    page, made = PAGES[name], environment()
    template = made.get_template(page.template) if page.template else made.from_string(BLOCKS_PAGE)
    parts = template.render(cluster="a", **(page.hostile if hostile else page.good)).split("<!--part-->")
    title, heading, main, scripts = map(Markup, parts)
    kept = {"title": title, "heading": heading, "main": main, "scripts": scripts}
    return whole(f"{around}.html", FRAMES[around][hostile], **kept)


def whole(template: str, around: SimpleNamespace, **parts: str) -> Seen:
    """The parts of a page within what stands around them."""
    known = {"title": "", "heading": "", "main": "", "scripts": "", "cluster": around.cluster, **parts}
    return parsed(environment().get_template(template).render(frame=around, **known))


def shape(seen: Seen) -> list[tuple[str, frozenset[str]]]:
    """Elements and the names of their attributes, without values; classes of styles and states apart."""
    return [(tag, frozenset(attributes) - {"class"}) for tag, attributes in seen.elements]


@pytest.mark.parametrize(("name", "around"), CASES)
def test_no_text_becomes_an_element_or_an_attribute(name: str, around: str) -> None:
    """A page of hostile texts has the elements and attributes of one of good texts."""
    good, hostile = shape(render(name, around)), shape(render(name, around, hostile=True))
    if name == "blocks":  # Of fewer rows and lines; a style of unknown words is none, with no element for it.
        pieces = {("span", frozenset[str]())}
        good, hostile = [x for x in good if x not in pieces], [x for x in hostile if x not in pieces]
        assert set(good) == set(hostile)
    else:
        assert good == hostile


@pytest.mark.parametrize("hostile", [False, True])
@pytest.mark.parametrize(("name", "around"), CASES)
def test_a_page_keeps_its_own_policy(name: str, around: str, hostile: bool) -> None:
    """No inline script, style or handler; no address but of this server; ids are unique."""
    seen = render(name, around, hostile)
    check_policy(seen)


@pytest.mark.parametrize("hostile", [False, True])
@pytest.mark.parametrize(("name", "around"), CASES)
def test_control_characters_are_shown_and_never_sent(name: str, around: str, hostile: bool) -> None:
    seen = render(name, around, hostile)
    assert re.findall(r"[\x00-\x09\x0b-\x1f\u202e]", "".join(text for _, text in seen.texts)) == []


@pytest.mark.parametrize(("name", "around"), CASES)
def test_forms_of_who_is_logged_in_have_their_token(name: str, around: str) -> None:
    seen = render(name, around)
    tokens: list[list[str | None]] = []
    for tag, attributes in seen.elements:
        if tag == "form" and attributes.get("method") == "post":
            tokens.append([])
        elif tag == "input" and attributes["name"] == "token":
            tokens[-1].append(attributes["value"])
    assert tokens == [["t0k3n"]] * (around == "frame") + [[]] * (name == "login")


@pytest.mark.parametrize(("name", "around"), CASES)
def test_a_page_can_be_heard(name: str, around: str) -> None:
    """One h1 and one main, names for fields, buttons, tables, regions and pictures."""
    seen = render(name, around)
    check_names(seen)


def test_news_is_asked_for_only_where_there_is_some() -> None:
    def live(around: SimpleNamespace) -> list[dict[str, str | None]]:
        return [each for _, each in whole("frame.html", around).elements if "data-live" in each]

    assert live(frame(live="")) == []
    (one,) = live(frame())
    assert (one["hx-get"], one["hx-select"], one["hx-target"]) == ("", "#main", "#main")
    assert (
        one["hx-swap"] == "morph:outerHTML"
    )  # Others are evaluated by the extension, which the policy forbids.


def test_styles_are_known_words() -> None:
    css = (STATIC / "panel.css").read_text(encoding="utf-8")
    assert style_classes("bold bright_red") == "s-bold s-red"
    assert style_classes("bold red not bold") == "s-red"
    assert style_classes("default") == style_classes("") == ""
    assert style_classes("bold link javascript:alert(1)") == style_classes('"><script>') == ""
    for word in ("bold", "dim", "italic", "underline", "black", "red", "green", "yellow", "blue", "magenta"):
        assert f".{style_classes(word)} {{" in css
    assert ".s-cyan {" in css
    assert ".s-white {" in css


def test_amounts_are_read_by_their_last_digits() -> None:
    rows = (("dgx-1", "3/8", "64GiB", "0-3", "2026-01-02T03:04:05Z", "-"), ("2", "12/16", "", "4-7", "x", ""))
    table = table_block(Table(("node", "gpus", "mem", "cores", "time", "none"), rows))
    assert table.is_amount == (False, True, True, False, False, False)
    assert table_block(Table((), (("a", "1"),))).is_amount == (False, False)
    assert table_block(Table(("a",), (("1", "2"), ("1",)))).is_amount == (True, True)


def test_a_line_of_text_stays_a_line() -> None:
    lines = Printout(blocks=(Lines(((Span("a"), Span("b", "red")), (), (Span("  c"),))),))
    made = environment().get_template("blocks.html").make_module({"cluster": "a"})
    text = made.printout(block_kinds(lines))  # type: ignore[attr-defined]
    assert re.sub(r"<[^>]*>", "", text.partition("<pre")[2].partition(">")[2]).strip("\n") == "ab\n\n  c"


def test_scripts_and_sheets_stay_small_and_evaluate_nothing() -> None:
    script = (STATIC / "panel.js").read_text(encoding="utf-8")
    assert len(script.encode()) <= 16_384
    assert len((STATIC / "panel.css").read_bytes()) <= 24_576
    assert len((STATIC / "files.js").read_bytes()) <= 8_192
    own = script + "".join((STATIC / name).read_text(encoding="utf-8") for name in ("theme.js", "files.js"))
    forbidden = r"innerHTML|outerHTML\b(?!\")|insertAdjacentHTML|document\.write|\beval\b|new Function"
    assert re.findall(forbidden, own) == []
    assert "https:" not in own + (STATIC / "panel.css").read_text(encoding="utf-8")
    assert "url(" not in (STATIC / "panel.css").read_text(encoding="utf-8")
