"""The fake world with images: nodes have some, fetch others, and fail to."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from providers.base import Capabilities, Fence, ImageState, KernelSpec, Observation, Observed, unfenced
from providers.fake import FakeProvider, World
from providers.images import NodeImage, OnPullProgress, PullProgress, PullRequest
from reconciler.apply.apply import apply
from reconciler.apply.targets import ApplyTargets
from reconciler.observe.images import images_on_nodes
from reconciler.values.plan import Plan
from reconciler.values.results import ApplyEvent, ApplyResult
from reconciler.values.state import Actual
from schemas.images.facts import ImageFacts, ImagePlatform
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.node import ImageMissing
from schemas.values.image_reference import parse_reference
from tests.lab.stores import environment, reader
from tests.reconciler.lab import Lab


@dataclass
class Shelf:
    """Which images nodes have, and what was asked of them."""

    has: dict[str, set[str]] = field(default_factory=dict)
    asked: list[PullRequest] = field(default_factory=list)
    fails: dict[str, list[BaseException]] = field(default_factory=dict)
    """Node → what its next pulls raise."""
    looked: list[frozenset[str]] = field(default_factory=list)
    means: dict[str, ImageState] = field(default_factory=dict)
    """Image → what nodes have come to mean by the name since its kernels started."""
    most: int = 0
    running: int = 0


class PullingProvider(FakeProvider):
    """A fake that has images."""

    def __init__(self, world: World, shelf: Shelf) -> None:
        super().__init__(world)
        self.shelf = shelf
        self.lock = threading.Lock()

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), pulls=True)

    def create(self, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        if spec.image and full(spec.image) not in self.shelf.has.get(spec.labels.node, set()):
            raise ImageMissing(provider="fake", node=spec.labels.node, image=spec.image)
        return super().create(spec, fence)

    def observe(self) -> Observation:
        found = super().observe()
        return replace(found, kernels=tuple(map(self._named, found.kernels)))

    def _named(self, kernel: Observed) -> Observed:
        name = self.world.kernels[kernel.id].spec.image
        return replace(kernel, image=name, image_now=self.shelf.means.get(name, "same"))

    def pull(self, request: PullRequest, tell: OnPullProgress) -> bool:
        shelf = self.shelf
        with self.lock:
            shelf.running += 1
            shelf.most = max(shelf.most, shelf.running)
        try:
            self.world.boundary("create", request.image, "before")
            shelf.asked.append(request)
            tell(PullProgress(request.node, request.image, 0, 2))
            if shelf.fails.get(request.node):
                raise shelf.fails[request.node].pop(0)
            there = shelf.has.setdefault(request.node, set())
            fetched = full(request.image) not in there
            there.add(full(request.image))
            tell(PullProgress(request.node, request.image, 2, 2, 10, 10, over=True))
        finally:
            with self.lock:
                shelf.running -= 1
        return fetched

    def images(self, nodes: frozenset[str]) -> tuple[Mapping[str, tuple[NodeImage, ...]], Mapping[str, str]]:
        self.shelf.looked.append(nodes)
        missing = {node: "down" for node in nodes if node in self.world.down}
        return {node: self._on(node) for node in sorted(nodes - missing.keys())}, missing

    def _on(self, node: str) -> tuple[NodeImage, ...]:
        names = sorted(self.shelf.has.get(node, ()))
        return tuple(
            NodeImage((), (name,), 10) if "@" in name else NodeImage((name,), (), 10) for name in names
        )

    def image_facts(self, node: str, image: str) -> tuple[str, ImagePlatform, str] | None:
        return None


def full(text: str) -> str:
    return str(parse_reference(text))


class ImageLab(Lab):
    """`Lab` with a provider that pulls, and facts by hand."""

    def __init__(self, folder: Path, *, nodes: int = 2) -> None:
        super().__init__(folder, nodes=nodes)
        self.shelf = Shelf()
        self.provider: PullingProvider = PullingProvider(self.world, self.shelf)
        self.events: list[ApplyEvent] = []
        cluster = self.folder / "base.yaml"
        # The documents' own rules for images hold where containers run.
        cluster.write_text(cluster.read_text().replace("provider: fake", "provider: docker"))

    def actual(self) -> Actual:
        found = super().actual()
        known = {reference: facts for reference, (facts, _) in self.store.images().items()}
        return replace(found, images=known, held=images_on_nodes(self.desired(), self.provider, found))

    def learn(
        self, reference: str, digest: str, labels: Mapping[str, str] | None = None, **sizes: int
    ) -> None:
        platforms = {
            name: ImagePlatform(digest=digest, size=size, labels=labels or {}) for name, size in sizes.items()
        }
        facts = ImageFacts(reference=full(reference), digest=digest, platforms=platforms)
        self.store.save_images([facts], self.world.clock.now())

    def apply(self, plan: Plan | None = None, *, parallel: int = 8) -> ApplyResult:
        return apply(
            plan or self.plan(),
            ApplyTargets(
                self.store, self.provider, self.world.clock, secrets=reader(environment("R_PASSWORD"))
            ),
            holder="tester",
            parallel=parallel,
            on_event=self.events.append,
        )

    def steps(self) -> list[tuple[str, str]]:
        return [(event.step, event.state) for event in self.events if event.kind == "step"]


def failures(result: ApplyResult) -> dict[str, BaiError | str]:
    return {each.action: each.error or each.because for each in result.results if each.outcome != "done"}
