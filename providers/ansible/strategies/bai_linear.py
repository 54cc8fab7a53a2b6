"""Strategy plugin of Ansible: Mitogen's, with what every task needs loaded before the first one.

Ansible forks a process for each task on each node. It inherits what its parent has loaded, and loads the rest
anew: all filters and tests, as soon as an expression names one that is Jinja's own. It lives so shortly that
collecting its garbage only makes it copy pages that it shares with its parent.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
from multiprocessing.util import register_after_fork
from typing import Any

from ansible.plugins.loader import filter_loader, test_loader
from ansible_mitogen.plugins.strategy.mitogen_linear import StrategyModule as MitogenLinear

_LOADED_BY_TASKS = (
    "ansible_collections.ansible.builtin.plugins.filter",
    "ansible_collections.ansible.builtin.plugins.test",
    "ansible.module_utils._internal._json._profiles._module_legacy_m2c",
)
"""Some versions have no such module; then there is nothing to be spared."""


class StrategyModule(MitogenLinear):  # type: ignore[misc]
    """Found by this name."""

    def run(self, *arguments: Any) -> Any:
        """One play, as any strategy does."""
        for loader in (filter_loader, test_loader):
            list(loader.all())
        for name in _LOADED_BY_TASKS:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        register_after_fork(gc, lambda module: module.disable())
        return super().run(*arguments)
