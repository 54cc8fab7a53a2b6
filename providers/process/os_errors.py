"""What the operating system refuses, in the words of the seam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from schemas.problems import disk_space
from schemas.problems.errors.provider import ProviderError

P = ParamSpec("P")
R = TypeVar("R")


def translate_errors(method: Callable[P, R]) -> Callable[P, R]:
    """For methods of the provider: it becomes a ProviderError."""

    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except (OSError, ValueError) as error:
            if disk_space.is_disk_full(error):
                provider: Any = args[0]
                why = f"{error}: {disk_space.describe_free_space(provider.root.path)}"
                raise ProviderError(provider="process", why=why, hint=disk_space.HINT) from error
            raise ProviderError(provider="process", why=str(error)) from error

    wrapper.__doc__, wrapper.__name__ = method.__doc__, method.__name__
    return wrapper
