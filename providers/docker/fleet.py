"""The engines of a cluster's nodes, asked at the same time, and on which of them a kernel is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import NAME, engine_errors
from providers.docker.engine.http import EngineRefusal
from providers.docker.labels import ID, NODE
from providers.machines.poll import LIMIT, NodePoll, Question
from schemas.problems.errors.kernel import KernelNotFound
from schemas.problems.errors.provider import ProviderError, ProviderUnavailable

PATIENCE = 60.0
"""Seconds in which an engine must answer what may take long: measuring, listing images."""
_GONE = 404

T = TypeVar("T")


class Fleet:
    """Node → engine. `poll`: that of the fleet that this is a part of. May be used by several threads."""

    def __init__(self, engines: Mapping[str, Engine], poll: NodePoll | None = None) -> None:
        self.engines = dict(engines)
        self.poll = poll or NodePoll()
        self._seen_on: dict[str, str] = {}
        self._assigned_to: dict[str, str] = {}

    def ask_all(
        self, ask: Callable[[Engine], T], *, patient: bool = False, proves: bool = False
    ) -> tuple[dict[str, T], dict[str, str]]:
        """Node → answer, in the order of the nodes, and node → why it could not be asked. `patient`: an
        answer may take long on a node that is well. `proves`: a node that answers is well, so that those that
        did not answer the last time are asked, too, when it is time."""
        questions = {
            node: Question(
                partial(_ask, engine, ask),
                PATIENCE if patient else engine.options.observe_timeout or LIMIT,
                patient=patient,
                proves=proves,
            )
            for node, engine in self.engines.items()
        }
        answers: dict[str, T | ProviderError] = self.poll.ask(questions)
        found = {node: answer for node, answer in answers.items() if not isinstance(answer, ProviderError)}
        return found, {
            node: _shorten_reason(answer, node)
            for node, answer in answers.items()
            if isinstance(answer, ProviderError)
        }

    def engine_of(self, node: str) -> Engine:
        """Raises ProviderError."""
        try:
            return self.engines[node]
        except KeyError:
            raise ProviderError(provider=NAME, why=f"the cluster has no node {node}") from None

    def locate(self, where: Mapping[str, str]) -> None:
        """See `providers.abilities.AcceptsLocations`."""
        self._assigned_to = dict(where)

    def record_location(self, where: Mapping[str, str]) -> None:
        """These kernels are on these nodes."""
        self._seen_on.update(where)

    def forget_location(self, kernel: str) -> None:
        self._seen_on.pop(kernel, None)
        self._assigned_to.pop(kernel, None)

    def may_be_made_for(self, made_for: str, node: str) -> bool:
        """Whether a container of this node may be a kernel that was made for that one: a node that somebody
        else has taken over has none of the others'. One that was renamed keeps its own."""
        return made_for == node or made_for not in self.engines

    def may_have(self, kernel: str, node: str) -> bool:
        """Whether nothing is known of it on another node."""
        known = self._believed_node(kernel)
        return known == node or known not in self.engines

    def _believed_node(self, kernel: str) -> str:
        return self._assigned_to.get(kernel) or self._seen_on.get(kernel, "")

    def find(self, kernel: str) -> tuple[Engine, dict[str, Any]]:
        """Where a kernel is, and its container as inspected. Raises KernelNotFound; ProviderUnavailable when
        it may be on a node that cannot be reached; ProviderError when several nodes claim to have it."""
        known = self.engines.get(self._believed_node(kernel))
        if known is not None:
            with engine_errors(known.node, kernel):
                here = inspect_kernel(known, kernel)
            if here is not None:
                return known, here
        answers, unreachable = self.ask_all(lambda engine: inspect_kernel(engine, kernel))
        claims = {
            node: answer
            for node, answer in answers.items()
            if answer is not None and self.may_be_made_for(answer["Config"]["Labels"].get(NODE, ""), node)
        }
        if len({(each["Id"], each["Config"]["Labels"].get(NODE)) for each in claims.values()}) > 1:
            why = f"kernel {kernel} is said to be on several nodes: {', '.join(claims)}"
            raise ProviderError(provider=NAME, why=why)
        for node, answer in claims.items():
            self.record_location({kernel: node})
            return self.engines[node], answer
        if unreachable:
            nodes = "; ".join(f"{node}: {said}" for node, said in unreachable.items())
            why = f"kernel {kernel} may be on a node that cannot be asked: {nodes}"
            raise ProviderUnavailable(provider=NAME, why=why)
        raise KernelNotFound(provider=NAME, kernel=kernel)


def inspect_kernel(engine: Engine, kernel: str) -> dict[str, Any] | None:
    """The kernel's container, also when somebody renamed it; None when there is none. Raises EngineRefusal,
    OSError."""
    return _inspect_named(engine, kernel, kernel) or next(
        (
            found
            for each in engine.containers(kernel)
            if (found := _inspect_named(engine, each["Id"], kernel))
        ),
        None,
    )


def _inspect_named(engine: Engine, name: str, kernel: str) -> dict[str, Any] | None:
    try:
        found = engine.inspect(name)
    except EngineRefusal as refusal:
        if refusal.status == _GONE:
            return None
        raise
    return found if (found["Config"]["Labels"] or {}).get(ID) == kernel else None


def _shorten_reason(error: ProviderError, node: str) -> str:
    """Without what whoever reads it knows: which node, and that it was not reached."""
    why = str(error.fields.get("why", error.message)).removeprefix(f"node {node}: ")
    if "target" in error.fields:
        why = f"{error.fields['target']}: {why}"
    return f"{why} ({error.hint})" if error.hint else why


def _ask(engine: Engine, ask: Callable[[Engine], T]) -> T:
    """Raises ProviderError."""
    with engine_errors(engine.node):
        return ask(engine)
