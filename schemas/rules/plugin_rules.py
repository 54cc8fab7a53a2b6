"""Options that documents give plugins, where the plugin is installed and declares a schema of them.

A plugin of a secret store is left out: it is imported by nobody but who applies, and checks its own options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from schemas.kinds.cluster import PROVIDERS as PROVIDERS_WITH_A_FIELD
from schemas.plugins.entry_points import BUILT_IN, PROVIDERS, QUEUE, load_entry_points
from schemas.plugins.options import option_issues
from schemas.problems.issues import Issue, Loc

if TYPE_CHECKING:
    from schemas.values.envelope import Resource


class PluginUse(NamedTuple):
    """A place where a document names an entry point and gives it options."""

    group: str
    name: str
    named_at: Loc
    options: Mapping[str, Any]
    at: Loc


def plugin_rules(resource: Resource) -> Iterator[Issue]:
    """What is wrong with the options of a stranger's plugin. Where it is not installed nothing is known of
    them; who opens it says so."""
    use = _plugin_use(resource)
    if use is None or not names_plugin(resource):
        return
    try:
        found = load_entry_points(use.group, [use.name]).get(use.name)
    except Exception as error:  # A stranger's module.
        message = f"the plugin '{use.name}' cannot be loaded: {type(error).__name__}: {str(error)[:300]}"
        yield Issue(use.named_at, message, "install it again, or another version of it", "BAI-V050")
        return
    schema = getattr(found, "options_schema", None)
    if schema is not None:
        yield from option_issues(schema, use.options, use.at)


def names_plugin(resource: Resource) -> bool:
    """Whether a stranger's plugin has a say in what is right in a document."""
    use = _plugin_use(resource)
    return use is not None and use.name not in BUILT_IN[use.group]


def _plugin_use(resource: Resource) -> PluginUse | None:
    spec = resource.spec
    if resource.kind == "ResourceGroup":
        at: Loc = ("spec", "queueOptions", "plugin")
        return PluginUse(QUEUE, spec.queue, ("spec", "queue"), spec.queue_options.plugin, at)
    if resource.kind == "Cluster":
        at = ("spec", spec.provider if spec.provider in PROVIDERS_WITH_A_FIELD else "options")
        return PluginUse(PROVIDERS, spec.provider, ("spec", "provider"), spec.provider_options, at)
    return None
