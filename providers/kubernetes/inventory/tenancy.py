"""Namespaces as Projects, and their ResourceQuotas as Quotas. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from providers.kubernetes.inventory.documents import Document, document, marked_name, safe_name
from providers.kubernetes.objects.quantity import parse_quantity
from providers.kubernetes.observe.quotas import DEVICE_QUOTAS
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.values.quantities import format_cpu, format_memory

_CPU = ("requests.cpu", "cpu")
_MEMORY = ("requests.memory", "memory")
_COUNTS = ("pods", "count/pods")


@dataclass(frozen=True, slots=True)
class ImportedTenancy:
    projects: Mapping[str, str]
    """Namespace → its Project."""
    documents: tuple[Document, ...]
    notes: tuple[str, ...]


def import_tenancy(
    namespaces: Iterable[Mapping[str, Any]], quotas: Iterable[Mapping[str, Any]], options: Kubernetes
) -> ImportedTenancy:
    """A Project for each namespace that is not Kubernetes' own; where projects have namespaces, for each of
    those."""
    projects: dict[str, str] = {}
    for each in namespaces:
        name = str(each["metadata"]["name"])
        project = project_of(name, options)
        if project and not each["metadata"].get("deletionTimestamp"):
            projects[name] = project
    documents = [document("Project", {"name": name}, {}) for name in sorted(projects.values())]
    notes: list[str] = []
    taken: set[str] = set()
    for quota in sorted(quotas, key=lambda one: (_namespace(one), str(one["metadata"]["name"]))):
        if _namespace(quota) in projects:
            documents += _quota(quota, projects[_namespace(quota)], taken, notes)
    return ImportedTenancy(projects, tuple(documents), tuple(notes))


def project_of(namespace: str, options: Kubernetes) -> str:
    """Empty where no session's pod may be there."""
    if namespace.startswith("kube-"):
        return ""
    return options.project_of(namespace) if options.several_namespaces else namespace


def _namespace(found: Mapping[str, Any]) -> str:
    return str(found["metadata"].get("namespace") or "")


def _quota(quota: Mapping[str, Any], project: str, taken: set[str], notes: list[str]) -> Iterable[Document]:
    where, spec = f"{_namespace(quota)}/{quota['metadata']['name']}", quota.get("spec") or {}
    if spec.get("scopes") or spec.get("scopeSelector"):
        notes.append(f"quota {where} is left out: it counts only some pods, by scopes")
        return
    hard = {str(name): str(amount) for name, amount in (spec.get("hard") or {}).items()}
    wanted, unknown = _limits(hard)
    if unknown:
        notes.append(f"quota {where} is imported without {', '.join(sorted(unknown))}")
    if not wanted:
        return
    name = safe_name(f"{project}-{quota['metadata']['name']}")
    name = marked_name(name, where) if name in taken else name
    taken.add(name)
    yield document("Quota", {"name": name}, {"subject": {"project": project}, **wanted})


def _limits(hard: Mapping[str, str]) -> tuple[dict[str, Any], set[str]]:
    """A Quota's fields, and the names of what has none. Of several names for one amount, the least counts."""
    total: dict[str, Any] = {}
    known: set[str] = set()

    def least(names: Iterable[str], *, milli: bool = False) -> int | None:
        there = [name for name in names if name in hard]
        known.update(there)
        return min((parse_quantity(hard[name], milli=milli) for name in there), default=None)

    if (cpu := least(_CPU, milli=True)) is not None:
        total["cpu"] = format_cpu(cpu)
    if (memory := least(_MEMORY)) is not None:
        total["memory"] = format_memory(memory)
    for slot in sorted(set(DEVICE_QUOTAS.values())):
        amount = least([name for name, its in DEVICE_QUOTAS.items() if its == slot])
        if amount is not None:
            total[slot] = amount
    wanted: dict[str, Any] = {"total": total} if total else {}
    if (count := least(_COUNTS)) is not None:
        wanted["concurrentSessions"] = count
    return wanted, set(hard) - known
