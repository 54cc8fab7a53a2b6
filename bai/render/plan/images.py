"""Images in words: what documents say of them, what is known, and which nodes have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bai.render.humanize import clean, duration, listed, moment, plural, short, size, slots
from providers.images import NodeImage, PullProgress
from reconciler.observe.images import Known
from reconciler.values.plan import Pull
from schemas.images.facts import ImageFacts
from schemas.images.resolution import Needs, needs

COLUMNS = ("image", "reference", "digest", "runs on", "size", "known for", "used by")
_DIGEST = 12


@dataclass(frozen=True, slots=True)
class ImageView:
    """One image with all that is known; `at` is when its facts were learned."""

    known: Known
    facts: ImageFacts | None = None
    at: float | None = None
    nodes: tuple[str, ...] | None = None
    """The nodes that have it; None where nobody was asked."""

    @property
    def needs(self) -> Needs:
        return needs(self.known.name, self.known.image, self.facts)


def row(view: ImageView, now: float) -> list[str]:
    """Cells for `COLUMNS`."""
    facts = view.facts
    users = [short(session) for session in view.known.sessions]
    return [
        view.known.name,
        view.known.reference.short,
        short_digest(facts.digest) if facts else "",
        ", ".join(_architectures(view)),
        size(facts.size()) if facts else "",
        duration(now - view.at) if view.at is not None else "not scanned",
        listed(users, 3),
    ]


def _architectures(view: ImageView) -> list[str]:
    """As its document says, else as is known."""
    own = view.known.image.spec.architectures if view.known.image else ()
    return sorted(own or (view.facts.platforms if view.facts else ()))


def short_digest(digest: str) -> str:
    """`sha256:0123456789ab`."""
    algorithm, _, rest = digest.partition(":")
    return f"{algorithm}:{rest[:_DIGEST]}" if rest else ""


def lines(view: ImageView) -> Iterator[str]:
    """Everything, one thing to a line."""
    known, facts = view.known, view.facts
    yield f"Image {clean(known.name)}: {clean(known.reference.short)}"
    if facts is None:
        yield "  nothing is known of it: run `bai images scan`"
    else:
        yield f"  digest {facts.digest or 'none, it was never pushed'}, as of {moment(view.at)}"
        for name, platform in sorted(facts.platforms.items()):
            digest = f", {platform.digest}" if platform.digest else ""
            yield f"  {clean(name)}: {size(platform.size)} in {plural(platform.layers, 'layer')}{digest}"
    yield from _asked(view.needs)
    if known.image is not None:
        spec = known.image.spec
        by = spec.pin or ("digest where it is known" if spec.pull_policy == "missing" else "tag")
        yield f"  pinned by {by}, pulled {_WHEN[spec.pull_policy]}"
    if view.nodes is not None:
        yield f"  on {listed(map(clean, view.nodes)) or 'none of the nodes'}"
    if known.sessions:
        yield f"  used by {listed(map(short, known.sessions))}"
    for key, value in sorted((facts.labels if facts else {}).items()):
        yield f"  label {clean(key)}: {clean(value, 200)}"


_WHEN = {"missing": "when a node has none", "always": "before every start", "never": "by nobody"}


def _asked(asked: Needs) -> Iterator[str]:
    if asked.minimum:
        yield f"  needs at least {slots(asked.minimum) or 'nothing'}"
    if asked.maximum:
        yield f"  takes at most {slots(asked.maximum) or 'nothing'}"
    if asked.accelerators is not None:
        yield f"  can use {', '.join(map(clean, asked.accelerators)) or 'no accelerator'}"


def image_json(view: ImageView) -> dict[str, object]:
    """For programs: amounts by slot, `cpu` in thousandths of a core, `mem` in bytes."""
    asked = view.needs
    return {
        "image": view.known.name,
        "described": view.known.image is not None,
        "reference": str(view.known.reference),
        "facts": view.facts.model_dump() if view.facts else None,
        "at": moment(view.at) or None,
        "minimum": dict(asked.minimum),
        "maximum": dict(asked.maximum),
        "accelerators": None if asked.accelerators is None else list(asked.accelerators),
        "nodes": None if view.nodes is None else list(view.nodes),
        "sessions": list(view.known.sessions),
    }


def having(
    held: Mapping[str, tuple[NodeImage, ...]], known: Known, facts: ImageFacts | None
) -> tuple[str, ...]:
    """The nodes that have an image: the newest that is known of, where a digest is."""
    wanted = {str(known.reference.at(facts.digest)) if facts and facts.digest else str(known.reference)}
    return tuple(
        node for node, images in sorted(held.items()) if any(wanted & {*i.names, *i.digests} for i in images)
    )


def pull_line(pull: Pull) -> str:
    """`pull 3.2GiB to gpu-1`."""
    return f"pull {size(pull.size)} to {clean(pull.node)}" if pull.size else f"pull to {clean(pull.node)}"


def progress_line(news: PullProgress) -> str:
    """`gpu-1 fetches team/tool:1: 3 of 7 layers, 1.2GiB of 3.2GiB`."""
    text = f"{clean(news.node)} fetches {clean(news.image)}"
    if news.over:
        return f"{clean(news.node)} has {clean(news.image)}"
    if news.layers:
        text += f": {news.layers_done} of {news.layers} layers"
    if news.bytes:
        text += f", {size(news.bytes_done)} of {size(news.bytes)}"
    return text
