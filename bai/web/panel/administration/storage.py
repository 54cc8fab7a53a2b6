"""Storage: hosts, volumes with what they hold and who mounts them, and what was deleted and can come back."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field

from bai.render.humanize import clean, iso_time, short_name
from bai.render.resources.volumes import most_text, used_text, volume_note
from bai.web.panel.views.device_drawing import fill_step
from bai.web.panel.views.paging import Paging, kept
from reconciler.values.volume_folders import trash_locations, volume_folders
from schemas.kinds.storage import StorageHost
from schemas.problems.errors.base import BaiError
from schemas.repository.storage_nodes import administering_node
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.web.pass_view import PassView
    from providers.storage.base import FolderState, Storage, TrashedVolume, TrashLocation, VolumeFolder
    from reconciler.values.state import Desired

MOST_MOUNTS = 4
NOT_OURS = "volumes are not folders that bai looks after here"
Text = Annotated[str, Field(max_length=300)]


class StorageQuery(BaseModel, frozen=True):
    """What is asked for, as the address says it; empty asks nothing. `q`: what stands in `project/name`."""

    q: Text = ""
    host: Text = ""
    project: Text = ""
    page: Annotated[int, Field(ge=1, le=100_000)] = 1


@dataclass(frozen=True, slots=True)
class StorageLook:
    """What nodes said just now: how volumes are with what they hold, what is in the trash, and who did not
    answer."""

    seen: Mapping[str, FolderState]
    trash: tuple[tuple[TrashLocation, TrashedVolume], ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostRow:
    """A storage host; `node`: who looks after its folders, empty for nobody."""

    name: str
    type: str
    place: str
    node: str
    volumes: int


@dataclass(frozen=True, slots=True)
class VolumeRow:
    """A volume in the words of `bai volumes`; `fill` of ten steps, of its quota. `mounts`: the first sessions
    of the viewer's that hold it, of `mounted` (whoever's)."""

    identity: str
    name: str
    project: str
    host: str
    node: str
    folder: str
    used: str
    quota: str
    fill: int
    note: str
    mounts: tuple[str, ...]
    mounted: int


@dataclass(frozen=True, slots=True)
class TrashRow:
    """A deleted volume in the words of `bai volumes trash`; `at` as ISO 8601."""

    volume: str
    entry: str
    host: str
    place: str
    at: str
    commit: str


@dataclass(frozen=True, slots=True)
class StoragePage:
    """`trash` is None where nobody looked; `hosts`: for who sees documents; `hosts_known`, `projects_known`:
    what there is to choose from."""

    asked: StorageQuery
    hosts: tuple[HostRow, ...]
    rows: tuple[VolumeRow, ...]
    paging: Paging
    hosts_known: tuple[str, ...]
    projects_known: tuple[str, ...]
    trash: tuple[TrashRow, ...] | None
    problems: tuple[str, ...]

    def query(self, **changes: object) -> dict[str, object]:
        """Of a link that keeps what is asked for but for these changes."""
        return kept({**self.asked.model_dump(), "page": "", **changes})


def look_at_storage(storage: Storage | None, desired: Desired) -> StorageLook:
    """Asks the nodes. What could not be looked at is among the problems."""
    if storage is None:
        return StorageLook({}, (), (NOT_OURS,))
    trash: list[tuple[TrashLocation, TrashedVolume]] = []
    problems = []
    for place in trash_locations(desired):
        try:
            trash += ((place, entry) for entry in storage.trashed(place))
        except BaiError as error:
            problems.append(f"the trash of {place.host} could not be looked at: {error.message}")
    seen = storage.observe(tuple(volume_folders(desired).values()), usage=True)
    return StorageLook(seen, tuple(trash), tuple(map(clean, problems)))


def storage_page(view: PassView, asked: StorageQuery, looked: StorageLook | None = None) -> StoragePage:
    """Of volumes that the viewer sees; without a look of its own, as the last pass saw them. Raises what
    looking raises."""
    folders = {name: each for name, each in volume_folders(view.desired).items() if view.sees(name)}
    text = asked.q.strip().lower()
    chosen = sorted(
        name
        for name, folder in folders.items()
        if text in ref_of(name).qualified_name.lower()
        and (not asked.host or folder.host == asked.host)
        and (not asked.project or ref_of(name).project == asked.project)
    )
    paging = Paging.of(len(chosen), asked.page)
    page = chosen[paging.first : paging.last]
    seen = looked.seen if looked else view.actual.volumes or {}
    mounts = _mounts(view, set(page))
    return StoragePage(
        asked=asked,
        hosts=tuple(_hosts(view, folders.values())),
        rows=tuple(_row(view, folders[name], seen.get(name), mounts[name]) for name in page),
        paging=paging,
        hosts_known=tuple(sorted({each.host for each in folders.values()})),
        projects_known=tuple(sorted({ref_of(name).project for name in folders} - {""})),
        trash=None if looked is None else tuple(_trash_rows(view, looked)),
        problems=looked.problems if looked else (),
    )


def _mounts(view: PassView, volumes: Collection[str]) -> Mapping[str, list[str]]:
    """By volume, the sessions that hold it while they are there."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, session in view.desired.sessions().items():
        if not session.spec.mounts or name not in view.actual.existing:
            continue
        if view.actual.existing[name].recorded.placement is None:
            continue
        for mount in session.spec.mounts:
            volume = view.repository.volume_of(session, mount.volume)
            if volume is not None and volume.identity in volumes:
                found[volume.identity].append(name)
    return found


def _hosts(view: PassView, folders: Iterable[VolumeFolder]) -> Iterator[HostRow]:
    counts = Counter(folder.host for folder in folders)
    for host in view.repository.of(StorageHost):
        if not view.sees(host.identity) or view.repository.cluster_of(host) != view.cluster:
            continue
        spec = host.spec
        nfs = f"{spec.nfs.server}:{spec.nfs.path}" if spec.nfs else ""
        yield HostRow(
            name=host.name,
            type=spec.type,
            place=clean(spec.root or nfs or "claims"),
            node=administering_node(view.repository, host) or "",
            volumes=counts[host.name],
        )


def _row(view: PassView, folder: VolumeFolder, seen: FolderState | None, mounts: Iterable[str]) -> VolumeRow:
    sessions = sorted(mounts)
    mine = [name for name in sessions if view.sees(name)]
    return VolumeRow(
        identity=folder.volume,
        name=short_name(folder.volume),
        project=ref_of(folder.volume).project,
        host=clean(folder.host),
        node=folder.node,
        folder=clean(folder.source),
        used=used_text(seen),
        quota=most_text(folder, seen),
        fill=fill_step((seen.used if seen else 0) or 0, folder.quota or 0),
        note=view.redact(volume_note(folder, seen)),
        mounts=tuple(mine[:MOST_MOUNTS]),
        mounted=len(sessions),
    )


def _trash_rows(view: PassView, looked: StorageLook) -> Iterator[TrashRow]:
    for place, entry in looked.trash:
        if view.sees(entry.volume):
            yield TrashRow(
                volume=clean(entry.volume),
                entry=clean(entry.entry),
                host=clean(place.host),
                place=clean(place.place_of(entry.path)),
                at=iso_time(entry.at),
                commit=clean(entry.commit[:12]),
            )
