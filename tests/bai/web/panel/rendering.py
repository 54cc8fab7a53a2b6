"""Pages without their frame, and a world with two projects of which a viewer may see one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from bai.web.auth.roles import Principal
from bai.web.cluster_loops import ClusterLoops
from bai.web.panel.pages import Panel
from bai.web.pass_view import PassView
from benchmarks.loop import Bench
from tests.bai.web.lab import WHO, Lab
from tests.reconciler.lab import BASE, NODE, session

SECRET = "zebra"
"""In every name and text of the other project."""
HOSTILE = "<img src=x onerror=alert(1)>\"'\x1b[2J\u202e{{ 7777 * 7777 }}"
_PROJECT = f"""
apiVersion: bai/v1
kind: Project
metadata: {{name: {SECRET}, annotations: {{note: {SECRET}-note}}}}
spec: {{}}
"""
LABELLED_NODE = NODE.replace("spec:\n", f"spec:\n  labels: {{{{rack: {SECRET}-{{name}}}}}}\n")
_GROUP = f"{{preemption: {{mode: priority}}, allowedProjects: [p, {SECRET}]}}"


OURS = frozenset({"use", "at", "since", "latest", "enqueued", "started", "finished"})
"""Fields that are one of a few words, or a time that was put into words."""
PANEL = Panel(ClusterLoops())


def render(template: str, **values: object) -> str:
    """A page's own part."""
    made = PANEL.fragment(template, values, "here")
    return "\n".join((made.title, made.heading, made.main))


def view_of(lab: Lab, who: str = "viewer") -> PassView:
    return PassView(lab.hub.clusters["here"], Principal(who, WHO[who]))


def hostile(value: Any) -> Any:
    """The same value with every text in it replaced by one that breaks out of HTML where it can."""
    if isinstance(value, str):
        return HOSTILE
    if is_dataclass(value) and not isinstance(value, type):
        names = {each.name for each in fields(value)} - OURS
        return replace(value, **{name: hostile(getattr(value, name)) for name in names})
    if isinstance(value, dict):
        return {hostile(key): hostile(item) for key, item in value.items()}
    if isinstance(value, tuple) and len(value) == 2 and is_dataclass(value[1]):
        return value[0], hostile(value[1])  # The kind of a block.
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
