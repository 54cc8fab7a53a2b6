"""The panel's templates with stand-ins for its frame and filters, and a world with two projects of which a
viewer may see one."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import ChoiceLoader, DictLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from pydantic import TypeAdapter

from bai.render.humanize import clean
from bai.render.printout import Printout
from bai.web.auth.roles import Principal
from bai.web.cluster_loops import ClusterLoops
from bai.web.pass_view import PassView
from benchmarks.loop import Bench
from tests.bai.web.lab import WHO, Lab
from tests.reconciler.lab import BASE, NODE, session

SECRET = "zebra"
"""In every name and text of the other project."""
HOSTILE = "<img src=x onerror=alert(1)>\"'\x1b[2J\u202e{{ 7777 * 7777 }}"
_BASE = """
<title>{% block title %}{% endblock %}</title>{% block heading %}{% endblock %}
<main>{% block main %}{% endblock %}</main>
"""
_BLOCKS = """
{% macro badge(word, kind="") %}<span class="badge is-{{ kind }}">{{ word | clean }}</span>{% endmacro %}
{% macro printout(blocks, caption="") %}<div>{{ blocks | clean }}</div>{% endmacro %}
"""
_PROJECT = f"""
apiVersion: bai/v1
kind: Project
metadata: {{name: {SECRET}, annotations: {{note: {SECRET}-note}}}}
spec: {{}}
"""
LABELLED_NODE = NODE.replace("spec:\n", f"spec:\n  labels: {{{{rack: {SECRET}-{{name}}}}}}\n")
_GROUP = f"{{preemption: {{mode: priority}}, allowedProjects: [p, {SECRET}]}}"


def _path(*parts: str, **query: object) -> str:
    asked = urlencode({name: str(value) for name, value in query.items()})
    return "/" + "/".join(quote(part, safe="") for part in parts) + (f"?{asked}" if asked else "")


def _texts(printout: Printout) -> str:
    return json.dumps(TypeAdapter(Printout).dump_python(printout, mode="json"))


def _environment() -> Environment:
    loader = ChoiceLoader(
        [DictLoader({"base.html": _BASE, "blocks.html": _BLOCKS}), PackageLoader("bai.web.panel")]
    )
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    made.globals |= {"path": _path, "asset": lambda name: f"/assets/{name}"}
    made.filters |= {
        "clean": clean,
        "linked": lambda text: escape(clean(text)),
        "ago": lambda at: Markup("<time>{}</time>").format(clean(at)),
        "project_class": lambda project: f"p{sum(project.encode()) % 12}",
        "blocks": _texts,
    }
    return made


ENVIRONMENT = _environment()


def render(template: str, **values: object) -> str:
    return ENVIRONMENT.get_template(template).render(cluster="here", **values)


def view_of(lab: Lab, who: str = "viewer") -> PassView:
    return PassView(lab.hub.clusters["here"], Principal(who, WHO[who]))


def hostile(value: Any) -> Any:
    """The same value with every text in it replaced by one that breaks out of HTML where it can."""
    if isinstance(value, str):
        return HOSTILE
    if is_dataclass(value) and not isinstance(value, type):
        names = {each.name for each in fields(value)} - {"use"}  # One of a few words.
        return replace(value, **{name: hostile(getattr(value, name)) for name in names})
    if isinstance(value, dict):
        return {hostile(key): hostile(item) for key, item in value.items()}
    if isinstance(value, tuple):
        made = [hostile(each) for each in value]
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    return value


def assert_harmless(page: str) -> None:
    """What is hostile in it is text."""
    assert "&lt;img src=x" in page
    assert "<img" not in page and "\x1b" not in page and "\u202e" not in page and "60481729" not in page
    assert "style=" not in page and "<script" not in page


def theirs(name: str, spec: str) -> str:
    text = session(name, spec, meta=f"labels: {{team: {SECRET}-team}}")
    return text.replace("project: p", f"project: {SECRET}").replace("[sleep, inf]", f"[sleep, {SECRET}-inf]")


def two_projects(lab: Lab) -> None:
    """Each runs something on the same nodes, each waits, and one of theirs has failed."""
    lab.write("zebra-project", _PROJECT)
    lab.write("base", BASE.replace("name: default}\nspec: {}", f"name: default}}\nspec: {_GROUP}"))
    lab.write("own", session("own", "resources: {cpu: 2, memory: 1GiB, cuda.device: 1}"))
    lab.write("theirs", theirs(f"{SECRET}-run", "resources: {cpu: 1, memory: 1GiB, cuda.device: 1}"))
    lab.write("theirs-too", theirs(f"{SECRET}-too", "resources: {cpu: 1, memory: 1GiB, cuda.device: 1}"))
    assert lab.once(), lab.lines
    lab.write("waiting", session("waiting", "resources: {cuda.device: 2}"))
    lab.write("wanting", theirs(f"{SECRET}-waits", "resources: {cuda.device: 2}, priority: 20"))
    assert lab.once(), lab.lines
    lab.once()


def texts_of(value: Any) -> Iterator[str]:
    """Every text of a value."""
    if isinstance(value, str):
        yield value
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield from texts_of(getattr(value, each.name))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts_of(key)
            yield from texts_of(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            yield from texts_of(each)


@contextmanager
def bench_view(nodes: int, sessions: int) -> Iterator[PassView]:
    """What somebody who sees all sees of a cluster of so many, after some passes."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), nodes, sessions, gpus=(4,))
        loops = ClusterLoops()
        loops.add(bench.loop)
        for _ in range(2):
            bench.once()
        yield PassView(loops.clusters["here"], Principal("viewer", WHO["viewer"]))
        bench.loop.workspace.close()
