"""Images and registries, as `bai images` has them."""

from __future__ import annotations

from dataclasses import replace

from bai.queries.facts.images import image_views
from bai.render.plan.images import image_row
from bai.web.panel.administration.images import images_page
from providers.images import NodeImage
from reconciler.values.sides import ImageSide, Pull
from tests.bai.web.lab import Lab
from tests.bai.web.panel.administration.world import DIGEST
from tests.bai.web.panel.rendering import SECRET, assert_harmless, hostile, render, texts_of, view_of


def test_rows_have_the_words_of_the_command(world: Lab) -> None:
    view = view_of(world)
    page = images_page(view)
    told = [image_row(each, view.now)[:6] for each in image_views(view.desired, view.store)]
    shown = [[r.name, r.reference, r.digest, r.runs_on, r.size, r.known] for r in page.rows]
    assert shown == told and len(told) == 2
    tool = page.rows[0]
    assert (tool.name, tool.digest, tool.size) == ("tool", "sha256:0123456789ab", "3GiB")
    assert (tool.whole_digest, tool.sessions, tool.users) == (DIGEST, ("Session/p/adas",), 1)
    assert (tool.signers, page.rows[1].signers) == (("SHA256:key-of-ada",), ())
    assert (tool.nodes, page.rows[1].known) == ("", "not scanned")


def test_nodes_that_have_it_are_named(world: Lab) -> None:
    view = view_of(world)
    held = {"n1": (NodeImage((), (f"docker.io/team/tool@{DIGEST}",), 1),), "n2": ()}
    view.actual = replace(view.actual, held=held)
    tool, other = images_page(view).rows
    assert (tool.nodes, other.nodes) == ("n1", "none")


def test_registries_are_named_and_their_secrets_are_not(world: Lab) -> None:
    page = images_page(view_of(world))
    (hub,) = page.registries
    assert (hub.name, hub.address, hub.login) == (f"{SECRET}-hub", f"hub.{SECRET}.example", "(secret)")
    assert "HUB_" not in render("administration/images.html", page=page)


def test_pulls_of_the_plan_are_told(world: Lab) -> None:
    view = view_of(world)
    action = replace(
        view.plan.actions[0], id="Image/tool", before=None,
        after=ImageSide(1, "d", pulls=(Pull("n2", f"docker.io/team/tool@{DIGEST}", size=3 << 30),)),
    )  # fmt: skip
    view.plan = replace(view.plan, actions=(action,))
    page = images_page(view)
    (pull,) = page.pulls
    assert (pull.node, pull.size, pull.resource, page.pull_count) == ("n2", "3GiB", "Image/tool", 1)
    theirs = view_of(world, "ours")
    theirs.plan = view.plan
    assert images_page(theirs).pulls == ()


def test_a_viewer_of_one_project_sees_what_its_sessions_use(world: Lab) -> None:
    page = images_page(view_of(world, "ours"))
    assert [row.name for row in page.rows] == ["tool"]
    assert page.registries == () and page.rows[0].document == ""
    assert SECRET not in "".join(texts_of(page))


def test_they_are_chosen_by_name(world: Lab) -> None:
    view = view_of(world)
    assert [row.name for row in images_page(view, "TEAM/").rows] == ["tool"]
    assert images_page(view, "nothing").rows == ()


def test_what_is_hostile_stays_text(world: Lab) -> None:
    assert_harmless(render("administration/images.html", page=hostile(images_page(view_of(world)))))
