"""`bai import kubernetes`: read, say what was found, write, and adopt where that was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bai.cli.imports.files import FIRST, dump_documents, invalid_files, new_files, write_files
from bai.cli.repository.scaffold import ignore_store
from bai.render.humanize import clean, plural
from bai.settings import LOCAL_CONTEXT, Settings
from schemas.problems.errors.command import CommandError

if TYPE_CHECKING:
    from providers.kubernetes.api.client import ApiClient
    from providers.kubernetes.inventory.cluster import ImportedCluster, ImportOptions
    from providers.kubernetes.inventory.session import AdoptablePod


_NAMED = 5
"""Of those about whom the same is said."""


@dataclass(frozen=True, slots=True)
class KubernetesImport:
    """As it was typed; what is empty was not said."""

    directory: Path
    context: str = ""
    namespace: str = ""
    name: str = ""
    group_by: str = ""
    store: str = ""
    adopt: bool = False
    yes: bool = False


def import_kubernetes(settings: Settings, asked: KubernetesImport) -> bool:
    """Whether all that was to be adopted was. Raises BaiError, OSError; then nothing was changed that the
    same command would not go on with."""
    from providers.kubernetes.api.access import find_access
    from providers.kubernetes.api.client import ApiClient
    from providers.kubernetes.inventory.cluster import import_cluster
    from providers.kubernetes.inventory.read import read_cluster

    if settings.context not in (None, LOCAL_CONTEXT) or settings.revision is not None:
        hint = "the kubeconfig's context comes after `import kubernetes`"
        raise CommandError(why="documents are written here, by no server and into no commit", hint=hint)
    own = replace(settings, directory=asked.directory, context=LOCAL_CONTEXT, names_repository=True)
    options = _with_owner(own, asked, _options(asked))
    with closing(ApiClient(find_access(asked.context))) as client:
        found = import_cluster(read_cluster(client), options)
        found, files = _checked(found, adopt=asked.adopt)
        missing = new_files(asked.directory, files)
        _report(found, asked, missing)
        if asked.adopt and found.pods:
            from bai.cli.confirm import confirm

            confirm(
                f"{plural(len(found.pods), 'pod')} will carry bai's labels and be sessions.", yes=asked.yes
            )
        write_files(asked.directory, files, missing)
        ignore_store(asked.directory)
        if not asked.adopt:
            typer.echo(f"Written. `bai{_where(asked)} plan` says what it would do.")
            return True
        return _adopt(own, client, found, asked)


def _options(asked: KubernetesImport) -> ImportOptions:
    """Raises CommandError for what is no name."""
    from pydantic import ValidationError

    from providers.kubernetes.inventory.cluster import ImportOptions
    from schemas.kinds.parts.kubernetes import Kubernetes
    from schemas.problems.model_errors import issues_of
    from schemas.values.names import suggest_name

    given = {"context": asked.context or None, "namespace": asked.namespace or None}
    try:
        kubernetes = Kubernetes.model_validate({key: value for key, value in given.items() if value})
    except ValidationError as error:
        first = issues_of(error, Kubernetes)[0]
        raise CommandError(why=f"--{first.at[0]}: {first.message}", hint=first.hint) from None
    name = asked.name or suggest_name(asked.context) or "kubernetes"
    if suggest_name(name) != name:
        raise CommandError(
            why=f"--name: {clean(name)!r} is no name", hint=f"such as {suggest_name(name) or 'prod'}"
        )
    return ImportOptions(name, kubernetes, asked.group_by, asked.store)


def _with_owner(settings: Settings, asked: KubernetesImport, options: ImportOptions) -> ImportOptions:
    """What an import that was cut off has adopted already is known by its repository."""
    from providers.kubernetes.objects.labels import owner_hash

    if not (asked.directory / FIRST).exists():
        return options
    with settings.workspace() as workspace:
        return replace(options, owner=owner_hash(workspace.repo_id, workspace.cluster.name))


def _checked(found: ImportedCluster, *, adopt: bool) -> tuple[ImportedCluster, dict[str, str]]:
    """What can be written, with its files: sessions that would be refused are left out. Raises CommandError
    where anything else would be."""
    while wrong := invalid_files(_files(found, found.pods)):
        by_file = {_file_of(pod): pod for pod in found.pods}
        for name in wrong.keys() - by_file.keys():
            raise CommandError(why=f"{name} would not be a document: {wrong[name]}")
        refused = {f"{by_file[name].namespace}/{by_file[name].name}": (why,) for name, why in wrong.items()}
        left = tuple(pod for name, pod in by_file.items() if name not in wrong)
        found = replace(found, pods=left, refused={**found.refused, **refused})
    return found, _files(found, found.pods if adopt else ())


def _files(found: ImportedCluster, pods: Sequence[AdoptablePod]) -> dict[str, str]:
    texts = {
        FIRST: dump_documents(found.cluster),
        "nodes.yaml": dump_documents(found.nodes),
        "tenancy.yaml": dump_documents(found.tenancy),
        **{_file_of(pod): dump_documents([pod.document]) for pod in pods},
    }
    return {name: text for name, text in texts.items() if text}


def _file_of(pod: AdoptablePod) -> str:
    project, name = pod.identity
    return f"sessions/{project}/{name}.yaml"


def _adopt(settings: Settings, client: ApiClient, found: ImportedCluster, asked: KubernetesImport) -> bool:
    from bai.cli.imports.adopt import adopt_pods, identity_of_pod, record

    with settings.workspace() as workspace:
        failed = adopt_pods(client, found.pods, found.context, workspace.desired())
    for pod in found.pods:
        error = failed.get(identity_of_pod(pod))
        if error is not None and not error.retryable:
            (asked.directory / _file_of(pod)).unlink(missing_ok=True)
        if error is not None:
            typer.echo(f"failed: {clean(identity_of_pod(pod))}: {clean(error.message)}", err=True)
    with settings.workspace() as workspace:
        left = record(workspace)
    typer.echo(f"Adopted {plural(len(found.pods) - len(failed), 'session')}.")
    if any(error.retryable for error in failed.values()):
        # Such a pod may be bai's already, and without a document it would be ended.
        typer.echo("Some may be adopted or not: run the same command again, before any `bai apply`.")
    elif left is not None:
        typer.echo(f"`bai{_where(asked)} plan` has more to do than to record that; nothing of it was done.")
    return not failed


def _report(found: ImportedCluster, asked: KubernetesImport, missing: Sequence[str]) -> None:
    counts: dict[str, int] = {}
    for document in (*found.cluster, *found.nodes, *found.tenancy):
        counts[document["kind"]] = counts.get(document["kind"], 0) + 1
    told = ", ".join(plural(count, _WORDS[kind]) for kind, count in counts.items())
    typer.echo(f"Found {told}.")
    for name in missing:
        typer.echo(f"  {clean(str(asked.directory / name))}")
    for line in _notes(found, adopt=asked.adopt):
        typer.echo(f"note: {clean(line)}")


_WORDS = {
    "Cluster": "cluster", "ResourceGroup": "resource group", "Node": "node", "Project": "project",
    "Quota": "quota",
}  # fmt: skip


def _notes(found: ImportedCluster, *, adopt: bool) -> Iterator[str]:
    yield from (f"node {name} is left out: {why}" for name, why in found.left_out.items())
    yield from found.notes
    by_name = {f"{pod.namespace}/{pod.name}": pod.notes for pod in found.pods}
    if by_name and not adopt:
        yield f"could be adopted (--adopt): {_first(list(by_name))}"
    for names, notes in _by_words(by_name.items()):
        yield f"not as now, once bai starts it anew: {names}: {'; '.join(notes)}"
    for names, why in _by_words(found.refused.items()):
        yield f"cannot be adopted: {names}: {'; '.join(why)}"
    if found.elsewhere:
        yield f"use of others: {plural(found.elsewhere, 'pod')} of other namespaces"


def _by_words(said: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names with the same words about them, and these; nothing where there are none."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, words in said:
        if words:
            names.setdefault(words, []).append(name)
    for words, those in names.items():
        yield _first(those), words


def _first(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _where(asked: KubernetesImport) -> str:
    return "" if asked.directory.resolve() == Path.cwd() else f" -C {asked.directory}"
