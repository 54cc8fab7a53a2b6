"""What a plan asks registries, with a real registry, signatures of the real cosign, and the loop."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from reconciler.values.plan import Plan
from reconciler.workspace import image_lookup
from reconciler.workspace.image_lookup import RegistryLookups
from schemas.problems.errors.plan import GuardRefused
from tests.lab.cosign import Cosign
from tests.lab.registry import LabRegistry, StartRegistry
from tests.lab.spaces import PATIENCE
from tests.reconciler.lab import session
from tests.reconciler.pulls import PullingProvider, Shelf
from tests.reconciler.test_images import image
from tests.reconciler.test_loop import House


class ImageHouse(House):
    """A repository and a loop over nodes that fetch images, and a registry that is named in it."""

    def __init__(self, folder: Path, lab: LabRegistry) -> None:
        self.shelf = Shelf()
        self.sent: list[str] = []
        super().__init__(folder, lambda world: PullingProvider(world, self.shelf))
        self.lab = lab
        base = self.folder / "base.yaml"
        base.write_text(base.read_text().replace("provider: fake", "provider: docker"))
        registry = f"{{address: '{lab.address}', plainHttp: true}}"
        self.write(
            "registry", f"apiVersion: bai/v1\nkind: Registry\nmetadata: {{name: lab}}\nspec: {registry}\n"
        )
        workspace = self.loop.workspace.reloaded()
        workspace.provider = self.provider
        # On a busy machine the registry is slow, not away.
        workspace.registry_lookups = RegistryLookups(self.world.clock.now, timeout=PATIENCE)
        self.loop.workspace = workspace

    def start(self, name: str, reference: str = "tool:1") -> None:
        self.write(name, session(name, f"image: '{self.lab.address}/{reference}', resources: {{cpu: 1}}"))

    def plan(self) -> Plan:
        self.loop.workspace = self.loop.workspace.reloaded()
        return self.loop.workspace.plan()

    def images(self) -> dict[str, str]:
        """Of what runs: session → what it was started from."""
        found = {}
        for kernel in self.world.kernels.values():
            found[kernel.spec.labels.resource.rpartition("/")[2]] = kernel.spec.image
        return found

    def requests(self) -> int:
        """That were sent to the registry so far, but for those of this test. (Its log is written after its
        answer.)"""
        return len(self.sent)


def policy(rules: str) -> str:
    return f"""
apiVersion: bai/v1
kind: Policy
metadata: {{name: origin}}
spec:
  guards:
    images:
{textwrap.indent(textwrap.dedent(rules).strip(), " " * 6)}
"""


def signed_by(*keys: str, images: str = "'*'") -> str:
    pems = "".join(f"- |\n{textwrap.indent(key, '        ')}\n" for key in keys)
    return policy(f"signatures:\n- images: [{images}]\n  keys:\n{textwrap.indent(pems, '  ')}")


@pytest.fixture
def house(tmp_path: Path, registry: StartRegistry, monkeypatch: pytest.MonkeyPatch) -> Iterator[ImageHouse]:
    made = ImageHouse(tmp_path, registry())
    send = requests.Session.send

    def noted(self: requests.Session, request: requests.PreparedRequest, **how: Any) -> requests.Response:
        if request.headers["User-Agent"] == "bai":
            made.sent.append(str(request.url))
        return send(self, request, **how)

    monkeypatch.setattr(requests.Session, "send", noted)
    monkeypatch.setattr(image_lookup, "_TIMEOUT", PATIENCE)
    yield made
    made.close()


def refusals(plan: Plan) -> str:
    return "; ".join(one.why for one in plan.violations)


def test_a_plan_asks_no_registry_where_nobody_wants_to_know(house: ImageHouse) -> None:
    house.lab.push("tool:1")
    house.start("a")
    house.once()
    assert house.images() == {"a": f"{house.lab.address}/tool:1"}
    assert house.requests() == 0


def test_what_is_planned_is_what_is_started_though_the_tag_moves(house: ImageHouse) -> None:
    first = house.lab.push("tool:1")
    house.write("policy", policy("digest: true"))
    house.start("a")
    plan = house.plan()
    assert plan.violations == ()
    second = house.lab.push("tool:1", labels={"new": "1"})
    assert house.loop.workspace.apply(plan, holder="tester").ok
    assert house.images() == {"a": f"{house.lab.address}/tool@{first}"}
    asked = house.requests()
    assert asked > 0 and house.once() == [] and house.requests() == asked
    facts = house.loop.workspace.store.images()[f"{house.lab.address}/tool:1"][0]
    assert facts.digest == first != second


def test_a_tag_that_moved_is_told_and_what_runs_stays(house: ImageHouse) -> None:
    from reconciler.observe.images import known_images, scan_registries

    first = house.lab.push("tool:1")
    house.write("policy", policy("digest: true"))
    house.start("a")
    house.once()
    second = house.lab.push("tool:1", labels={"new": "1"})
    workspace = house.loop.workspace
    known = known_images(workspace.repository, workspace.desired().sessions())
    found = [
        facts
        for _, facts in scan_registries(workspace.repository, known, workspace.secrets.for_infrastructure)
    ]
    workspace.store.save_images(found, 1.0)  # type: ignore[arg-type]
    plan = house.plan()
    assert plan.changes == ()
    (drift,) = plan.drifts
    assert f"runs {house.lab.address}/tool@{first}; " in drift.what
    assert f"/tool:1 means {second} now: `--replace`" in drift.what
    house.start("b")
    house.once()
    assert house.images() == {
        "a": f"{house.lab.address}/tool@{first}",
        "b": f"{house.lab.address}/tool@{second}",
    }


def test_always_is_the_newest_at_each_start(house: ImageHouse) -> None:
    document = image(f"reference: '{house.lab.address}/tool:1', pullPolicy: always")
    house.write("image", document)
    house.write("policy", policy("digest: true"))
    for number, name in enumerate("ab"):
        digest = house.lab.push("tool:1", labels={"number": str(number)})
        house.write(name, session(name, "image: tool, resources: {cpu: 1}"))
        house.once(61)
        assert house.images()[name] == f"{house.lab.address}/tool@{digest}"
    assert house.plan().changes == () and house.plan().drifts == ()


def test_a_registry_that_is_away_refuses_what_needs_it_and_holds_up_nobody(house: ImageHouse) -> None:
    house.write("policy", policy("digest: true"))
    house.start("a", "tool:none")
    house.write("b", session("b"))
    said = house.once()
    assert house.running() == {"b"}
    assert any("which is not named by its digest" in line for line in said)
    house.lab.push("tool:none")
    house.once(61)
    assert house.running() == {"a", "b"}


def test_what_is_not_signed_is_not_started_until_it_is(house: ImageHouse, cosign: Cosign) -> None:
    digest = house.lab.push("tool:1", architectures=("amd64", "arm64"))
    cosign.key("own")
    cosign.key("foreign")
    house.write("policy", signed_by(cosign.public("own")))
    house.start("a")
    house.once()
    plan = house.plan()
    assert house.running() == set()
    assert "not known to be signed by who has to sign it: its registry has no signature of it" in refusals(
        plan
    )
    asked = house.requests()
    house.once(10)
    assert house.requests() == asked, "not in each pass"
    cosign.sign("foreign", f"{house.lab.address}/tool@{digest}")
    house.once(61)
    assert "it was made with another key" in refusals(house.plan())
    cosign.sign("own", f"{house.lab.address}/tool@{digest}", bundle=True)
    house.once(61)
    assert house.images() == {"a": f"{house.lab.address}/tool@{digest}"}
    asked = house.requests()
    house.start("b")
    house.once(120)
    assert house.running() == {"a", "b"}
    assert house.requests() == asked, "what was verified once stays so"


def test_each_rule_counts_for_its_images(house: ImageHouse, cosign: Cosign) -> None:
    cosign.key("own")
    house.lab.push("free/tool:1")
    house.write("policy", signed_by(cosign.public("own"), images=f"'{house.lab.address}/team/*'"))
    house.start("a", "free/tool:1")
    house.once()
    assert house.running() == {"a"} and house.requests() == 0


def test_without_asking_nothing_is_signed(house: ImageHouse, cosign: Cosign) -> None:
    digest = house.lab.push("tool:1")
    cosign.key("own")
    cosign.sign("own", f"{house.lab.address}/tool@{digest}")
    house.write("policy", signed_by(cosign.public("own")))
    house.start("a", f"tool@{digest}")
    workspace = house.loop.workspace = house.loop.workspace.reloaded()
    offline = workspace.plan(offline=True, actual=workspace.actual())
    assert "its registry was not asked" in refusals(offline)
    assert workspace.plan().violations == ()


def test_another_key_is_asked_for_anew(house: ImageHouse, cosign: Cosign) -> None:
    """A key that is taken out of a policy counts no more, whatever is remembered."""
    digest = house.lab.push("tool:1")
    for name in ("old", "new"):
        cosign.key(name)
    cosign.sign("old", f"{house.lab.address}/tool@{digest}")
    house.write("policy", signed_by(cosign.public("old")))
    house.start("a")
    house.once()
    assert house.running() == {"a"}
    house.write("policy", signed_by(cosign.public("new")))
    house.once()
    house.start("b")
    house.once(61)
    assert house.running() == {"a"}
    assert "Session/p/b" in refusals(house.plan())


def test_apply_goes_by_what_the_store_remembers(house: ImageHouse, cosign: Cosign) -> None:
    """A saved plan says of itself that nothing stands against it; who changes its digest changes nothing."""
    from dataclasses import replace

    from reconciler.values.encoding.plan_json import with_digest

    digest = house.lab.push("tool:1")
    bad = house.lab.push("tool:bad", labels={"bad": "1"})
    cosign.key("own")
    cosign.sign("own", f"{house.lab.address}/tool@{digest}")
    house.write("policy", signed_by(cosign.public("own")))
    house.start("a")
    plan = house.plan()
    assert plan.violations == ()
    (action,) = (each for each in plan.changes if each.id == "Session/p/a")
    assert action.after is not None
    specs = tuple(replace(spec, image=spec.image.replace(digest, bad)) for spec in action.after.specs)
    changed = replace(action, after=replace(action.after, specs=specs))
    forged = with_digest(
        replace(plan, actions=tuple(changed if each.id == action.id else each for each in plan.actions))
    )
    with pytest.raises(GuardRefused, match="not known to be signed"):
        house.loop.workspace.apply(forged, holder="tester")
    assert house.loop.workspace.apply(plan, holder="tester").ok
