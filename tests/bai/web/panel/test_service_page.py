"""The page of a service: its URL, what each replica is at, its generations, and what is held and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bai.web.auth.roles import Principal, Role, RoleBinding
from bai.web.panel.views.service_page import ServicePage, service_page
from bai.web.pass_view import PassView
from schemas.problems.errors.command import NoSuchResource
from tests.bai.services import CHAT, NEW, OLD, STATUS, publish, run_replicas
from tests.bai.web.apps.test_services import pattern
from tests.bai.web.lab import Lab
from tests.bai.web.panel.logins import logged_in
from tests.bai.web.panel.rendering import assert_harmless, hostile, render, view_of

SCALE = "4 held: 15 requests in flight, 4 for each replica"
PROXY = """
apiVersion: bai/v1
kind: AppProxy
metadata: {name: apps}
spec: {url: "https://*.apps.example"}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("lab"))
    made.write("proxy", PROXY)
    run_replicas(made)
    publish(made, replace(STATUS, scale=SCALE))
    (cluster,) = made.hub.clusters.values()
    done = cluster.good
    assert done is not None and done.desired is not None
    cluster.publish(replace(done, desired=replace(done.desired, services={CHAT: pattern("chat")})))
    yield made
    made.close()


@pytest.fixture
def page(lab: Lab) -> ServicePage:
    return service_page(view_of(lab), "p", "chat")


def test_each_replica_with_its_node_and_what_it_is_at(page: ServicePage) -> None:
    ready, leaving, starting, waiting = page.replicas
    assert (ready.phase, ready.nodes, ready.generation, ready.share) == ("ready", ("n1",), OLD, "100 %")
    assert (leaving.phase, leaving.share, leaving.why) == ("leaving", "", "makes way")
    assert (starting.generation, starting.why) == (NEW, "not ready: HTTP status 503")
    assert (waiting.phase, waiting.nodes, waiting.devices) == ("waiting", (), "")


def test_what_is_held_and_which_generations_there_are(page: ServicePage) -> None:
    assert (page.phase, page.ready, page.scale) == ("progressing", "1/2", SCALE)
    newest, stable, failed = page.generations
    assert (newest.name, newest.share, newest.notes) == (NEW, "", "what its document says")
    assert (stable.name, stable.share, stable.notes) == (OLD, "100 %", "stable")
    assert (failed.name, failed.failed) == ("0badcafe", "no replica got ready in 10m")
    [app] = page.apps
    assert (app.url, app.state) == ("https://http--chat--p.apps.example", "ready")


def test_it_leads_to_replicas_nodes_and_the_app(lab: Lab, page: ServicePage) -> None:
    answer = logged_in(lab, "ours").get(f"/clusters/here/resources/{CHAT}")
    assert answer.status_code == 200
    for target in (
        f"/clusters/here/sessions/p/chat-{OLD}-1", "/clusters/here/nodes/n1",
        "https://http--chat--p.apps.example",
    ):  # fmt: skip
        assert f'href="{target}"' in answer.text, target
    assert "is-progressing" in answer.text and SCALE in answer.text


def test_nothing_that_is_said_becomes_markup(page: ServicePage) -> None:
    assert_harmless(render("service.html", page=hostile(page)))


def test_it_is_not_there_for_who_does_not_see_the_project(lab: Lab) -> None:
    stranger = Principal("eve", (RoleBinding(Role.admin, frozenset({"q"})),))
    for view, name in (
        (PassView(lab.hub.clusters["here"], stranger), "chat"), (view_of(lab), "none"), (view_of(lab), ""),
    ):  # fmt: skip
        with pytest.raises(NoSuchResource):
            service_page(view, "p", name)
    assert logged_in(lab).get("/clusters/here/resources/Service/p/none").status_code == 404
