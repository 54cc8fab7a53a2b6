"""Strategy plugin of Ansible: Mitogen's, without a process for each task on each node.

Ansible forks a process for each task on each node. It inherits what its parent has loaded, and loads the rest
anew: all filters and tests, as soon as an expression names one that is Jinja's own. It lives so shortly that
collecting its garbage only makes it copy pages that it shares with its parent.

Two thirds of the tasks of a profile ask nothing of the node: they are skipped, set a variable, include a file
or assert something. Those are carried out where they are queued, by the same executor, and no process is
forked for them. A play of one host, which is what a wave runs for each of its nodes, forks for no task at
all: nobody else waits meanwhile.

Before a module is sent to a node, all that it imports is compiled to see what else has to be sent. Modules
share most of that: each source is compiled once. So is each text of a template.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
from multiprocessing.util import register_after_fork
from typing import Any

import ansible_mitogen.module_finder
import mitogen.master
from ansible import constants
from ansible._internal._task import TaskContext
from ansible.executor.task_executor import TaskExecutor
from ansible.executor.task_result import _RawTaskResult
from ansible.playbook.task import Task
from ansible.plugins.loader import filter_loader, get_plugin_loader_namespace, test_loader
from ansible_mitogen.plugins.strategy.mitogen_linear import StrategyModule as MitogenLinear

from providers.ansible.compiled_templates import compile_templates_once

_LOADED_BY_TASKS = (
    "ansible_collections.ansible.builtin.plugins.filter",
    "ansible_collections.ansible.builtin.plugins.test",
    "ansible.module_utils._internal._json._profiles._module_legacy_m2c",
)
"""Some versions have no such module; then there is nothing to be spared."""
_ASK_NO_NODE = frozenset(
    name
    for names in (
        constants._ACTION_INCLUDE_TASKS,
        constants._ACTION_INCLUDE_ROLE,
        constants._ACTION_INCLUDE_VARS,
        constants._ACTION_SET_FACT,
        constants._ACTION_DEBUG,
        constants.add_internal_fqcns(("assert", "fail", "validate_argument_spec")),
    )
    for name in names
)
"""Names of the actions that are over without a connection."""


class StrategyModule(MitogenLinear):  # type: ignore[misc]
    """Found by this name."""

    def run(self, *arguments: Any) -> Any:
        """One play, as any strategy does."""
        for loader in (filter_loader, test_loader):
            list(loader.all())
        for name in _LOADED_BY_TASKS:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        compile_once = functools.cache(compile)
        for module in (ansible_mitogen.module_finder, mitogen.master):
            module.compile = compile_once  # instead of the built-in one
        compile_templates_once()
        register_after_fork(gc, lambda module: module.disable())
        return super().run(*arguments)

    def _queue_task(self, host: Any, task: Any, task_vars: dict[str, Any], play_context: Any) -> None:
        alone = len(self._hosts_cache_all) == 1
        if not (alone or _may_end_here(task)):
            super()._queue_task(host, task, task_vars, play_context)
            return
        # Results of a loop's items are looked up here, from the first one on.
        self._queued_task_cache[host.name, task._uuid] = {
            "host": host, "task": task, "task_vars": task_vars, "play_context": play_context,
        }  # fmt: skip
        certain = alone or task.action in _ASK_NO_NODE
        if certain:
            self._tqm.send_callback("v2_runner_on_start", host, task)
        result = self._carried_out_here(host, _copy_task(task, certain), dict(task_vars), play_context.copy())
        if result is None:
            super()._queue_task(host, task, task_vars, play_context)  # It says itself that it starts.
            return
        if not certain:
            self._tqm.send_callback("v2_runner_on_start", host, task)
        self._final_q.send_task_result(result)
        self._pending_results += 1

    def _carried_out_here(
        self, host: Any, task: Any, task_vars: dict[str, Any], play_context: Any
    ) -> _RawTaskResult | None:
        """None when a process of its own is to carry out the task."""
        executor = TaskExecutor(
            host, task, task_vars, play_context, self._loader, get_plugin_loader_namespace(), self._final_q,
            self._variable_manager,
        )  # fmt: skip
        try:
            with TaskContext(task):
                outcome = executor.run()
        except _NodeNeeded:
            return None
        return _RawTaskResult(host=host, task=task, return_data=outcome, task_fields=task.dump_attrs())


class _NodeNeeded(BaseException):
    """No failure of a task, and so nothing that the executor may catch."""


class _UntilItsNode(Task):  # type: ignore[misc]
    """A task that is looked at until it is clear whether it is skipped."""

    def post_validate(self, templar: Any) -> None:
        raise _NodeNeeded


def _may_end_here(task: Any) -> bool:
    """Whether it asks no node, or may be skipped. What waits for something would have all nodes wait."""
    if task.until or task.retries or task.async_val or task.throttle or task.delegate_to:
        return False
    if task.action in _ASK_NO_NODE:
        return True
    return bool(task.when) and task.loop is None and not task.loop_with


def _copy_task(task: Any, certain: bool) -> Any:
    """A copy, as a forked process would have: carrying it out changes it. Unless it is `certain` that it ends
    here, it is given up where it needs its node."""
    copy = task.copy(exclude_parent=True, exclude_tasks=True)
    copy._parent = task._parent
    if not certain:
        copy.__class__ = _UntilItsNode
    return copy
