"""Images in words: what documents say of them, what is known, and which nodes have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import (
    clean,
    duration,
    iso_time,
    join_limited,
    plural,
    short_name,
    size,
    slot_amounts,
)

if TYPE_CHECKING:
    from providers.images import NodeImage, PullProgress
    from reconciler.observe.images import KnownImage
    from reconciler.values.sides import Pull
    from schemas.images.facts import ImageFacts
    from schemas.images.requirements import ImageRequirements

COLUMNS = ("image", "reference", "digest", "runs on", "size", "known for", "used by")
_DIGEST_LENGTH = 12


@dataclass(frozen=True, slots=True)
class ImageView:
    """One image with all that is known; `at` is when its facts were learned."""

    known: KnownImage
    facts: ImageFacts | None = None
    at: float | None = None
    nodes: tuple[str, ...] | None = None
    """The nodes that have it; None where nobody was asked."""

    @property
    def needs(self) -> ImageRequirements:
        from schemas.images.requirements import image_requirements

        return image_requirements(self.known.name, self.known.image, self.facts)


def image_row(view: ImageView, now: float) -> list[str]:
    """Cells for `COLUMNS`."""
    facts = view.facts
    users = [short_name(session) for session in view.known.sessions]
    return [
        view.known.name,
        view.known.reference.short,
        short_digest(facts.digest) if facts else "",
        ", ".join(_architectures(view)),
        size(facts.size()) if facts else "",
        duration(now - view.at) if view.at is not None else "not scanned",
        join_limited(users, 3),
    ]


def _architectures(view: ImageView) -> list[str]:
    """As its document says, else as is known."""
    own = view.known.image.spec.architectures if view.known.image else ()
    return sorted(own or (view.facts.platforms if view.facts else ()))


def short_digest(digest: str) -> str:
    """`sha256:0123456789ab`."""
    algorithm, _, rest = digest.partition(":")
    return f"{algorithm}:{rest[:_DIGEST_LENGTH]}" if rest else ""


def image_lines(view: ImageView) -> Iterator[str]:
    """Everything, one thing to a line."""
    known, facts = view.known, view.facts
    yield f"Image {clean(known.name)}: {clean(known.reference.short)}"
    if facts is None:
        yield "  nothing is known of it: run `bai images scan`"
    else:
        yield f"  digest {facts.digest or 'none, it was never pushed'}, as of {iso_time(view.at)}"
        for name, platform in sorted(facts.platforms.items()):
            digest = f", {platform.digest}" if platform.digest else ""
            yield f"  {clean(name)}: {size(platform.size)} in {plural(platform.layers, 'layer')}{digest}"
    yield from _needs_lines(view.needs)
    if known.image is not None:
        spec = known.image.spec
        by = spec.pin or ("digest where it is known" if spec.pull_policy == "missing" else "tag")
        yield f"  pinned by {by}, pulled {_PULL_TIMES[spec.pull_policy]}"
    if view.nodes is not None:
        yield f"  on {join_limited(map(clean, view.nodes)) or 'none of the nodes'}"
    if known.sessions:
        yield f"  used by {join_limited(map(short_name, known.sessions))}"
    for key, value in sorted((facts.labels if facts else {}).items()):
        yield f"  label {clean(key)}: {clean(value, 200)}"


_PULL_TIMES = {"missing": "when a node has none", "always": "before every start", "never": "by nobody"}


def _needs_lines(requirements: ImageRequirements) -> Iterator[str]:
    if requirements.minimum:
        yield f"  needs at least {slot_amounts(requirements.minimum) or 'nothing'}"
    if requirements.maximum:
        yield f"  takes at most {slot_amounts(requirements.maximum) or 'nothing'}"
    if requirements.accelerators is not None:
        yield f"  can use {', '.join(map(clean, requirements.accelerators)) or 'no accelerator'}"


def image_json(view: ImageView) -> dict[str, object]:
    """For programs: amounts by slot, `cpu` in thousandths of a core, `mem` in bytes."""
    requirements = view.needs
    return {
        "image": view.known.name,
        "described": view.known.image is not None,
        "reference": str(view.known.reference),
        "facts": view.facts.model_dump() if view.facts else None,
        "at": iso_time(view.at) or None,
        "minimum": dict(requirements.minimum),
        "maximum": dict(requirements.maximum),
        "accelerators": None if requirements.accelerators is None else list(requirements.accelerators),
        "nodes": None if view.nodes is None else list(view.nodes),
        "sessions": list(view.known.sessions),
    }


def nodes_having_image(
    held: Mapping[str, tuple[NodeImage, ...]], known: KnownImage, facts: ImageFacts | None
) -> tuple[str, ...]:
    """The nodes that have an image: the newest that is known of, where a digest is."""
    wanted = {str(known.reference.at(facts.digest)) if facts and facts.digest else str(known.reference)}
    return tuple(
        node for node, images in sorted(held.items()) if any(wanted & {*i.names, *i.digests} for i in images)
    )


def pull_line(pull: Pull) -> str:
    """`pull 3.2GiB to gpu-1`."""
    return f"pull {size(pull.size)} to {clean(pull.node)}" if pull.size else f"pull to {clean(pull.node)}"


def pull_progress_line(news: PullProgress) -> str:
    """`gpu-1 fetches team/tool:1: 3 of 7 layers, 1.2GiB of 3.2GiB`."""
    text = f"{clean(news.node)} fetches {clean(news.image)}"
    if news.over:
        return f"{clean(news.node)} has {clean(news.image)}"
    if news.layers:
        text += f": {news.layers_done} of {news.layers} layers"
    if news.bytes:
        text += f", {size(news.bytes_done)} of {size(news.bytes)}"
    return text
