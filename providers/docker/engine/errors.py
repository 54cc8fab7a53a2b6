"""What goes wrong at an engine, as errors of bai."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager

from providers.docker.engine.http import EngineRefusal
from schemas.problems.errors.kernel import KernelNotFound, KernelRefused
from schemas.problems.errors.provider import ProviderError, ProviderUnavailable

NAME = "docker"


_PASSING = (
    "shutting down", "server is not ready", "connection refused: unavailable", "transport is closing",
    "ttrpc: closed", "error while dialing", "context deadline exceeded", "attaching to network failed",
    "i/o timeout",
)  # fmt: skip
"""What engines say while they or their containerd come and go, or a swarm's manager was too slow: worth
another try."""


@contextmanager
def engine_errors(node: str, kernel: str = "", *, making: bool = False) -> Iterator[None]:
    """Whatever fails inside becomes a ProviderError that names the node, also where whoever answers for its
    engine says what no engine does. `making`: a refusal of the engine is about the kernel's spec."""
    try:
        yield
    except EngineRefusal as refusal:
        raise to_provider_error(refusal, node, kernel, making=making) from None
    except (OSError, http.client.HTTPException) as error:
        why = f"node {node}: {_explain(error)}"
        raise ProviderUnavailable(provider=NAME, why=why) from error
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        why = f"node {node}: its engine's answer makes no sense ({type(error).__name__}: {str(error)[:200]})"
        raise ProviderUnavailable(provider=NAME, why=why) from error


def _explain(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "the engine does not answer"
    words = error.strerror if isinstance(error, OSError) else None
    return words or str(error) or type(error).__name__


def to_provider_error(refusal: EngineRefusal, node: str, kernel: str, *, making: bool) -> ProviderError:
    why = f"node {node}: {refusal.why}"
    if refusal.status == 404 and kernel and not making:
        return KernelNotFound(provider=NAME, kernel=kernel)
    if any(words in refusal.why for words in _PASSING):
        return ProviderUnavailable(provider=NAME, why=why)
    if making and kernel:
        return KernelRefused(provider=NAME, kernel=kernel, why=why, hint=_remedy_for(refusal.why))
    if refusal.status >= 502:
        return ProviderUnavailable(provider=NAME, why=why)
    return ProviderError(provider=NAME, why=why)


_REMEDIES = {
    "could not select device driver": "install nvidia-container-toolkit on the node, or set `gpus`",
    "no space left on device": "make room where the engine keeps its data (docker system df)",
    "port is already allocated": "another container or program of the node has this port",
    "executable file not found": "the image has no such program; give `command` its full path",
    "Requested CPUs are not available": "the node has other CPUs than the plan knows: bai nodes probe",
}
"""What an engine says → what to do."""


def _remedy_for(why: str) -> str:
    return next((remedy for words, remedy in _REMEDIES.items() if words in why), "")
