"""Who sees some projects sees nothing of the others, wherever they look."""

from __future__ import annotations

import functools
import itertools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from bai.web.app import create_app
from bai.web.auth.roles import Principal, Role, RoleBinding, StaticAccess
from bai.web.cluster_loops import ClusterLoops
from bai.web.project_view import ProjectView
from providers.fake import SimulatedLoad
from reconciler.gitops.directives import Directive, issue_directive
from tests.bai.web.lab import Lab, bearer, serving
from tests.reconciler.lab import BASE, session

HERE = "/api/v1/clusters/here"
SECRET = "zebra"
"""In every name and text of the other project."""
PROJECT = f"""
apiVersion: bai/v1
kind: Project
metadata: {{name: {SECRET}, annotations: {{note: {SECRET}-note}}}}
spec: {{}}
---
apiVersion: bai/v1
kind: Quota
metadata: {{name: {SECRET}-quota}}
spec: {{subject: {{project: {SECRET}}}, total: {{cpu: 100}}}}
"""


GROUP = f"{{preemption: {{mode: priority}}, allowedProjects: [p, {SECRET}]}}"


def theirs(name: str, spec: str) -> str:
    text = session(name, spec, meta=f"labels: {{team: {SECRET}-team}}")
    return text.replace("project: p", f"project: {SECRET}").replace("[sleep, inf]", f"[sleep, {SECRET}-inf]")


SIZES = st.sampled_from(("cuda.device: 1", "cuda.device: 2", "cpu: 1, memory: 1GiB", "cuda.device: 9"))
WORLDS = st.lists(
    st.tuples(st.booleans(), SIZES, st.sampled_from((1, 5, 20)), st.booleans()), min_size=2, max_size=7
)


def build(lab: Lab, world: list[tuple[bool, str, int, bool]]) -> None:
    """Sessions of both projects that stand in each other's way, fail, end, and are gone."""
    lab.write("zebra-project", PROJECT)
    lab.write("base", BASE.replace("name: default}\nspec: {}", f"name: default}}\nspec: {GROUP}"))
    for number, (ours, size, priority, preemptible) in enumerate(world):
        name = f"own{number}" if ours else f"{SECRET}{number}"
        spec = f"resources: {{{size}}}, priority: {priority}, preemptible: {str(preemptible).lower()}"
        lab.write(name, session(name, spec) if ours else theirs(name, spec))
        if number == len(world) // 2:
            assert lab.once(), lab.lines
    lab.once()
    for number, kernel in enumerate(list(lab.world.kernels)):
        lab.world.kernels[kernel].log.append(
            f"{lab.world.kernels[kernel].spec.labels.resource} says\n".encode()
        )
        lab.world.use(kernel, SimulatedLoad(cores=1.0))
        if number == 0:
            lab.world.die(kernel)
    gone = next((number for number, (ours, *_) in enumerate(world) if not ours), None)
    if gone is not None:
        lab.drop(f"{SECRET}{gone}")
    lab.write(
        f"{SECRET}-broken",
        theirs("broken", "resources: {cuda.device: 1}").replace("kind: Session", "kind: Sessio"),
    )
    lab.once()
    lab.drop(f"{SECRET}-broken")
    issue_directive(lab.workspace.store, "here", "suspend", Directive("ada", 1.0, "a note"))
    lab.once()


@functools.cache
def described() -> dict[str, Any]:
    """The operations by path; they are the same for each server."""
    paths: dict[str, Any] = create_app(ClusterLoops(), StaticAccess([])).openapi()["paths"]
    return paths


def questions(lab: Lab) -> Iterator[str]:
    """Every route that can be asked, with everything that there is put into it."""
    known = [*lab.workspace.store.recorded("here"), *lab.loop.workspace.desired().digests]
    known += [f"Session/{SECRET}/{SECRET}{number}" for number in range(7)]
    identities = sorted(set(known))
    names = [each.split("/") for each in identities if each.startswith("Session/")]
    for path, operations in described().items():
        if "get" not in operations or path in ("/metrics", "/openapi.json", "/healthz", "/readyz"):
            continue
        if path.endswith("/stream"):
            continue  # Below, over a real connection.
        filled = path.replace("{cluster}", "here")
        if "{identity}" in filled:
            yield from (filled.replace("{identity}", each) for each in identities)
        elif "{session}" in filled:
            for (_, project, name), query in itertools.product(names, ("", "?tail=5", "?follow=true")):
                yield filled.replace("{project}", project).replace("{session}", name) + query
        else:
            yield filled
            for parameter in operations["get"].get("parameters", ()):
                if parameter["in"] == "query" and parameter["name"] in ("resource", "project", "kind"):
                    yield from (
                        f"{filled}?{parameter['name']}={each}" for each in (*identities, SECRET, "Session")
                    )


IN_THE_WAY = [
    (False, "cuda.device: 2", 20, False),
    (True, "cuda.device: 1", 5, True),
    (False, "cuda.device: 2", 20, False),
]


def test_nothing_of_another_project_in_the_way_is_answered() -> None:
    answers_nothing_of_another_project(IN_THE_WAY)


@pytest.mark.slow
@settings(max_examples=4, phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck))
@example(IN_THE_WAY)
@given(WORLDS)
def test_nothing_of_another_project_is_ever_answered(world: list[tuple[bool, str, int, bool]]) -> None:
    answers_nothing_of_another_project(world)


def answers_nothing_of_another_project(world: list[tuple[bool, str, int, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        build(lab, world)
        told = 0
        for question in questions(lab):
            answer = lab.client.get(question, headers=bearer("ours"))
            said = answer.text + json.dumps(dict(answer.headers))
            # What they wrote themselves may come back to them.
            said = said.replace(question.removeprefix(f"{HERE}/resources/").partition("?")[0], "")
            if SECRET in question:
                assert answer.status_code == 404 or SECRET not in answer.text, (question, answer.text)
            else:
                assert SECRET not in said, (question, answer.text)
            told += answer.status_code == 200
        assert told > 5
        for order in ("suspend", "resume", "reconcile"):
            assert lab.status(f"{HERE}/{order}", "ours", "POST") == 403
        everything = lab.client.get(f"{HERE}/resources", headers=bearer("viewer")).text
        assert SECRET in everything
        lab.close()


def test_nor_is_it_streamed(lab: Lab) -> None:
    lab.write("zebra-project", PROJECT)
    assert lab.once(), lab.lines
    with serving(lab.app) as address:
        said = {who: read(lab, address, who) for who in ("ours", "viewer")}
    assert SECRET in said["viewer"] and SECRET not in said["ours"]
    assert "Session/p/own-viewer" in said["viewer"] and "Session/p/own-ours" in said["ours"]


def read(lab: Lab, address: str, who: str) -> str:
    """What somebody's stream says, from the beginning of time to news of a session of theirs."""
    lab.write(f"{SECRET}-{who}", theirs(f"{SECRET}-{who}", "resources: {cuda.device: 4}"))
    lab.write(f"own-{who}", session(f"own-{who}"))
    headers = {**bearer(who), "Last-Event-ID": "0"}
    said = []
    with httpx.stream("GET", f"{address}{HERE}/stream", headers=headers, timeout=60) as answer:
        lines = answer.iter_lines()
        said.append(next(lines))
        lab.once()
        for line in lines:
            said.append(line)
            if f"own-{who}" in line:
                return "\n".join(said)
    raise AssertionError("the stream ended")


def test_metrics_name_no_project(lab: Lab) -> None:
    """They are for viewers of everything, and tell of projects, users and sessions not even to them."""
    build(
        lab,
        [
            (True, "cuda.device: 2", 1, True),
            (False, "cuda.device: 2", 5, False),
            (False, "cuda.device: 9", 1, True),
        ],
    )
    text = lab.client.get("/metrics", headers=bearer("viewer")).text
    assert "bai_queue_length" in text and SECRET not in text and "own0" not in text


OURS = ProjectView(
    Principal("a", (RoleBinding(Role.viewer, frozenset({"p"})),)), ["p", "zebra", "zebra-two"], ["theirs"]
)


@pytest.mark.parametrize(
    ("text", "cleared"),
    [
        ("Session/p/a waits for Session/zebra/b", "Session/p/a waits for another project's Session"),
        ("kept for project zebra and p", "kept for project another project and p"),
        ("zebra-two (reservation r)", "another project (reservation r)"),
        (
            "over nodes: zebra/a.b, p/c and zebra/d-.",
            "over nodes: another project, p/c and another project-.",
        ),
        ("zebras and a-zebra are animals", "zebras and a-zebra are animals"),
        ("Node/n1 is down", "Node/n1 is down"),
        ("Session/p/zebra and p/zebra are ours", "Session/p/zebra and p/zebra are ours"),
        ("no node has rack=zebra or zebra=1", "no node has rack=zebra or zebra=1"),
        ("quota theirs holds 2 GPUs of it", "another project's quota holds 2 GPUs of it"),
        ("see Quota/theirs, quota theirs-too", "see another project's quota, quota theirs-too"),
    ],
)
def test_texts_lose_the_names_of_others(text: str, cleared: str) -> None:
    assert OURS.redact(text) == cleared
    assert OURS.redact({"a": [text, {text: 1}]}) == {"a": [cleared, {cleared: 1}]}


def test_what_is_whose() -> None:
    sees = ["Session/p/a", "Volume/p/v", "Project/p"]
    lists = ["Cluster/here", "Node/n1", "ResourceGroup/default"]
    neither = [
        "Session/zebra/a",
        "Project/zebra",
        "Quota/q",
        "User/u",
        "Session/p",
        "Session/p/a/b",
        "",
        "Domain/p",
    ]
    assert [each for each in (*sees, *lists, *neither) if OURS.sees(each)] == sees
    assert [each for each in (*sees, *lists, *neither) if OURS.lists(each)] == sees + lists
