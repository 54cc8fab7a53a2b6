"""Images in a plan: what a session's images ask of it, which digest runs, what is pulled where. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from planner.model.types import NodeInfo, Reason
from providers.base import KernelSpec, Observed
from reconciler.plan.context import Case
from reconciler.values.plan import Action, Drift, Pull
from reconciler.values.records import HOLDING
from reconciler.values.session_phase import LIVE
from reconciler.values.state import Actual, Desired, Existing
from schemas.images.facts import ImageFacts
from schemas.images.resolution import image_of, needs, reference_of, registry_of, resolve
from schemas.kinds.image import MACHINES, Image, PullPolicy
from schemas.kinds.node import Node
from schemas.kinds.session import Session
from schemas.repository.repository import Repository
from schemas.values.image_reference import ImageReference, parse_reference

_SHOWN = 5


# What images ask of sessions


def image_refused(session: Session, desired: Desired, actual: Actual) -> Reason | None:
    """Why a session cannot have the amounts it asks for with its images; None when it can."""
    for container in session.spec.containers():
        asked = needs(container.image, *_known(container.image, desired.repository, actual))
        for why in asked.refusals(container.resources.slots) if container.image else ():
            return Reason("image", f"{container.name} {why}")
    return None


def machines(
    session: Session, desired: Desired, actual: Actual, nodes: Mapping[str, NodeInfo]
) -> frozenset[str]:
    """The architectures that all its images run on, as Linux names them; empty where that tells no node from
    another."""
    names = {container.image for container in session.spec.containers() if container.image}
    asked = [needs(name, *_known(name, desired.repository, actual)).machines for name in sorted(names)]
    known = [each for each in asked if each]
    common = frozenset.intersection(*known) if known else frozenset()
    there = {node.hardware.architecture for node in nodes.values()}
    return frozenset() if there <= common else common


def _known(text: str, repository: Repository, actual: Actual) -> tuple[Image | None, ImageFacts | None]:
    try:
        reference = resolve(repository, text)
    except ValueError:
        return None, None
    return image_of(repository, text), actual.images.get(str(reference))


# Which image runs


def pinned(
    case: Case, specs: tuple[KernelSpec, ...], beside: Iterable[Observed] = ()
) -> tuple[KernelSpec, ...]:
    """The specs with digests in place of tags, where they are known and the image's document says nothing
    else. `beside`: kernels of the same start that run; what joins them is made from what they are made from,
    though a tag has moved since."""
    running: dict[str, set[str]] = {}
    for kernel in beside:
        if kernel.image and kernel.state in LIVE:
            running.setdefault(_repository(kernel.image), set()).add(kernel.image)
    return tuple(replace(spec, image=_joining(case, spec.image, running)) for spec in specs)


def _joining(case: Case, text: str, running: Mapping[str, set[str]]) -> str:
    there = running.get(_repository(text), ()) if text else ()
    return next(iter(there)) if len(there) == 1 else _pinned(case, text)


def _repository(text: str) -> str:
    try:
        return parse_reference(text).name
    except ValueError:
        return text


def _pinned(case: Case, text: str) -> str:
    image, facts = _known(text, case.desired.repository, case.actual) if text else (None, None)
    if facts is None or not facts.digest or not _pins(image, facts, case.actual):
        return text
    return str(parse_reference(facts.reference).at(facts.digest))


def _pins(image: Image | None, facts: ImageFacts, actual: Actual) -> bool:
    """Whether containers are made from the digest that is known. What an older answer said is not the newest,
    which `always` asks for; what nobody fetches may have no digest on its node."""
    asked = image is None or image.spec.pull_policy != "always" or facts.reference in actual.asked
    return _may_pin(image) and (asked or (image is not None and image.spec.pin == "digest"))


def _may_pin(image: Image | None) -> bool:
    if image is None or image.spec.pin is not None:
        return image is None or image.spec.pin == "digest"
    return image.spec.pull_policy != "never"


def unpinned(case: Case, session: Session) -> tuple[str, ...]:
    """What is said where a digest is wanted and none is known."""
    said = {}
    for image in _unknown(session, case.desired.repository, case.actual):
        what = "is to be pinned, and what its tag means is not known"
        why = case.actual.unanswered.get(str(reference_of(case.desired.repository, image)), "")
        told = f" ({why})" if why else ""
        said[image.identity] = f"{image.identity} {what}{told}: run `bai images scan`"
    return tuple(said.values())


def to_be_pinned(session: Session, repository: Repository, actual: Actual) -> tuple[ImageReference, ...]:
    """The tags of a session whose documents want a digest that is not known."""
    return tuple(reference_of(repository, image) for image in _unknown(session, repository, actual))


def pinnable(repository: Repository, reference: ImageReference) -> bool:
    """Whether containers are made from the digest of a tag once it has just been asked for."""
    return _may_pin(image_of(repository, str(reference)))


def _unknown(session: Session, repository: Repository, actual: Actual) -> Iterator[Image]:
    for container in session.spec.containers():
        image, facts = _known(container.image, repository, actual)
        if image is None or image.spec.pin != "digest" or (facts is not None and facts.digest):
            continue
        if not parse_reference(image.spec.reference).digest:
            yield image


# What became of images that run


def image_drifts(case: Case, existing: Existing) -> Iterator[Drift]:
    """Live kernels whose image's name means something else by now, on their node or in its registry. Nothing
    is done about it: they run on as they are, and whoever wants the other image starts them anew."""
    if existing.phase not in HOLDING:
        return
    for kernel in existing.kernels:
        if kernel.state not in LIVE:
            continue
        image, node = _document(case, kernel.image), kernel.labels.node
        if kernel.image_now == "gone":
            what = f"runs on, and {node} no longer has its image {kernel.image}"
            yield Drift(existing.id, what, kernel.id)
        elif image is not None and image.spec.pull_policy == "always":
            continue  # Who pulls always moves the tag himself.
        elif kernel.image_now != "same":
            what = f"runs what {kernel.image} was when it started; on {node} the name means another image now"
            yield Drift(existing.id, f"{what}: `--replace` starts it from that", kernel.id)
        elif moved := _moved(case, existing, kernel.image):
            what = f"runs {kernel.image}; {moved.reference} means {moved.digest} now"
            yield Drift(existing.id, f"{what}: `--replace` starts it from that", kernel.id)


def _moved(case: Case, existing: Existing, text: str) -> ImageFacts | None:
    """What the tag means by now from which a kernel's digest came; None where that is the same, or several of
    the session's tags are of that repository."""
    session = case.desired.sessions().get(existing.id)
    if "@" not in text or session is None:
        return None
    try:
        ran = parse_reference(text)
    except ValueError:
        return None  # What a node calls it is no name of an image.
    found = set()
    for container in session.spec.containers():
        image, facts = _known(container.image, case.desired.repository, case.actual)
        if image is not None and image.spec.pull_policy == "always":
            continue
        if facts is not None and facts.digest and _pins(image, facts, case.actual):
            reference = parse_reference(facts.reference)
            if reference.name == ran.name and not reference.digest:
                found.add(facts.reference)
    facts = case.actual.images[found.pop()] if len(found) == 1 else None
    return facts if facts is not None and facts.digest != ran.digest else None


# What is pulled


def session_pulls(case: Case, specs: Iterable[KernelSpec]) -> tuple[Pull, ...]:
    """The images that these kernels are created from, each once per node; none where nobody pulls."""
    if case.actual.capabilities is None or not case.actual.capabilities.pulls:
        return ()
    wanted = {(spec.labels.node, spec.image) for spec in specs if spec.image}
    found = (_session_pull(case, node, image) for node, image in sorted(wanted))
    return tuple(pull for pull in found if pull is not None)


def _session_pull(case: Case, node: str, text: str) -> Pull | None:
    image = _document(case, text)
    policy: PullPolicy = image.spec.pull_policy if image else "missing"
    if policy == "never":
        return None
    return _pull(case, node, text, policy, machine=_machine(case.nodes.get(node)))


def _document(case: Case, text: str) -> Image | None:
    """The document of an image, also where its text has become a digest."""
    repository = case.desired.repository
    found = image_of(repository, text)
    if found is not None or "@" not in text:
        return found
    alike = repository.described_by_name.get(_repository(text), ())
    return next((i for i in alike if _pinned(case, str(reference_of(repository, i))) == text), None)


def _pull(case: Case, node: str, text: str, policy: PullPolicy, *, machine: str) -> Pull:
    reference = resolve(case.desired.repository, text)
    registry = registry_of(case.desired.repository, reference)
    login = registry.spec.credentials if registry else None
    return Pull(
        node=node,
        image=text,
        policy="always" if policy == "always" else "missing",
        size=_size(case, reference, machine),
        registry=reference.domain if login else "",
        username=login.username or "" if login else "",
        username_from=login.username_from or "" if login else "",
        password_from=login.password_from if login else "",
    )


def _size(case: Case, reference: ImageReference, machine: str) -> int:
    names = {linux: name for name, linux in MACHINES.items()}
    for facts in case.actual.images.values():
        known = parse_reference(facts.reference)
        if known == reference or (reference.digest and known.at(facts.digest) == reference):
            return facts.size(names.get(machine, machine))
    return 0


def _machine(node: NodeInfo | None) -> str:
    return node.hardware.architecture if node else ""


# What is pulled early


def with_pulls(case: Case, actions: Iterable[Action]) -> list[Action]:
    """The actions, those of images with the nodes that they are brought to."""
    return [_early(case, action) if action.id.startswith("Image/") else action for action in actions]


def _early(case: Case, action: Action) -> Action:
    image = case.desired.resources.get(action.id)
    if action.after is None or case.destroy or not isinstance(image, Image):
        return action
    if case.actual.held is None:
        return _nobody_pulls(case, action, image)
    pulls = tuple(_missing(case, image))
    if not pulls:
        return action
    nodes = [pull.node for pull in pulls]
    more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    why = action.why or f"not on {', '.join(nodes[:_SHOWN])}{more}"
    after = replace(action.after, document=case.desired.documents[action.id], pulls=pulls)
    before = action.before
    if before is not None and action.verb == "no-op":
        before = replace(before, document=case.actual.existing[action.id].recorded.document)
    return replace(action, before=before, after=after, why=why)


def _nobody_pulls(case: Case, action: Action, image: Image) -> Action:
    """The action, with a word about a provider that fetches no images."""
    can = case.actual.capabilities
    if image.spec.pre_pull is None or action.verb == "no-op" or can is None or can.pulls:
        return action
    return replace(action, warnings=(*action.warnings, f"provider {can.name} fetches no images early"))


def _missing(case: Case, image: Image) -> Iterator[Pull]:
    held = case.actual.held or {}
    reference = reference_of(case.desired.repository, image)
    facts = case.actual.images.get(str(reference))
    text = _pinned(case, str(reference))
    fits = needs(image.name, image, facts).machines
    for node in early_nodes(case.desired, image):
        machine = _machine(case.nodes.get(node.name))
        busy = case.rolling is not None and node.name in case.rolling.wave
        if busy or node.name not in held or (fits and machine and machine not in fits):
            continue
        names = {name for each in held[node.name] for name in (*each.names, *each.digests)}
        if not _has(names, reference, facts, image, case.actual):
            yield _pull(case, node.name, text, image.spec.pull_policy, machine=machine)


def _has(
    names: set[str], reference: ImageReference, facts: ImageFacts | None, image: Image, actual: Actual
) -> bool:
    """Whether a node has the image; for one that follows its tag, the newest that is known."""
    follows = facts is not None and (image.spec.pull_policy == "always" or _pins(image, facts, actual))
    if follows and facts is not None and facts.digest:
        return str(reference.at(facts.digest)) in names
    if reference.digest:
        return str(reference.at(reference.digest)) in names
    return str(reference) in names


def early_nodes(desired: Desired, image: Image) -> tuple[Node, ...]:
    """The nodes that are to have an image before any session needs it."""
    chosen = image.spec.pre_pull
    if chosen is None:
        return ()

    def wanted(node: Node) -> bool:
        labels: Mapping[str, str] = {**node.metadata.labels, **node.spec.labels}
        return (
            chosen.all
            or node.name in chosen.nodes
            or bool(chosen.node_selector and chosen.node_selector.items() <= labels.items())
            or (desired.repository.group_of_node(node) or "") in chosen.resource_groups
        )

    return tuple(node for node in desired.nodes if node.spec.state != "drained" and wanted(node))
