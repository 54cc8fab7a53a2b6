"""The kernels of a placed session, complete: what an apply hands to the provider. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.environment import cufile_file, nccl_topology_file
from planner.environment.variables import KernelFacts, SessionFacts, kernel_environment
from planner.model.huge_pages import bytes_by_slot
from planner.model.types import Fractional, KernelPlacement, NodeInfo, Placement
from providers import kernel_names
from providers.base import File, KernelSpec, Labels, Mount, RestartRule
from reconciler.plan.network import kernel_connections
from reconciler.plan.place.gpu_fractions import fraction_limits
from reconciler.plan.planner_values import fractional
from reconciler.values.state import Desired
from schemas.hardware.cpulist import format_cpus
from schemas.hardware.model import Hardware
from schemas.kinds.session import Container, Session
from schemas.kinds.session import Mount as SessionMount
from schemas.kinds.storage import StorageHost, Volume
from schemas.problems.errors.plan import PlanError
from schemas.values.linux_users import FIRST_REGULAR_ID, LAST_IMAGE_ID

_SEVERAL = 2
_WHOLE = 1000
"""Thousandths of a device."""


def kernel_id(desired: Desired, identity: str, kernel: str, generation: int) -> str:
    """The name of a kernel that the documents want."""
    return kernel_names.kernel_id(desired.repo, desired.cluster, identity, kernel, generation)


def network_name(desired: Desired, identity: str, generation: int) -> str:
    """Of the network that a session's generation has to itself: its kernels' ids without their names."""
    scope = kernel_names.scope_hash(desired.repo, desired.cluster, identity)
    return f"bai-{kernel_names.hostname_part(identity)}-{scope}-g{generation}"


def session_key_reference(desired: Desired, identity: str, generation: int) -> str:
    """What the key pair of a session's generation is made from, by `reconciler.secrets.session_keys`."""
    return f"session-key:{desired.repo}/{desired.cluster}/{identity}#{generation}"


def kernel_ids(desired: Desired, session: Session, generation: int) -> tuple[str, ...]:
    """In cluster order: the main container first."""
    return tuple(kernel_id(desired, session.identity, c.name, generation) for c in session.spec.containers)


def kernel_specs(
    desired: Desired, session: Session, placement: Placement, generation: int, nodes: dict[str, NodeInfo]
) -> tuple[KernelSpec, ...]:
    """One spec per container. `labels.document` and `labels.placement` are left to `steps`, which has them
    on the plan's side.

    Raises PlanError when the placement lacks a container.
    """
    parts = {part.kernel: part for part in placement.kernels}
    facts = _session_facts(desired, session, placement, generation)
    mounts = volume_mounts(desired, session)
    uid, groups = (
        desired.repository.uid_of(desired.cluster, session.metadata.project),
        _linux_groups(desired, session),
    )
    others = _foreign_uids(desired, session.metadata.project)
    group = desired.groups.get(session.spec.resource_group or "")
    own = network_name(desired, session.identity, generation)
    key = session_key_reference(desired, session.identity, generation)
    specs = []
    for container, known in zip(session.spec.containers, facts.kernels, strict=True):
        part = parts.get(container.name)
        if part is None:
            raise PlanError(why=f"{session.identity}: {container.name} has no placement")
        env = kernel_environment(facts, known, placement, nodes[part.node].hardware, container.env)
        labels = _labels(desired, session, generation, part)
        spec = _base_spec(session, container, part, known.id, labels, env)
        hardware = nodes[part.node].hardware
        storage = group is not None and group.spec.gpu_direct_storage
        files = _generated_files(session, part, placement, hardware, env, storage=storage)
        network = kernel_connections.kernel_network(desired, placement, part, own)
        login = kernel_connections.ssh_login(desired, placement, part, key)
        limits = fraction_limits(part, group, nodes[part.node].hardware)
        nics = _rdma_nics(part, placement, nodes[part.node].hardware)
        specs.append(
            replace(
                spec,
                scratch=container.resources.scratch or (group.spec.scratch.default_bytes if group else 0),
                mounts=mounts,
                files=files,
                network=network,
                login=login,
                share=limits,
                nics=nics,
                uid=uid,
                groups=groups,
                others=others if container.image else "",
            )
        )
    return tuple(specs)


def _generated_files(
    session: Session,
    part: KernelPlacement,
    placement: Placement,
    hardware: Hardware,
    env: Mapping[str, str],
    *,
    storage: bool,
) -> tuple[File, ...]:
    """A variable that the user sets, by a secret too, is left alone. `storage`: its group's storage reads
    into GPUs."""
    theirs = {*env, *secret_references(session)}
    made = [
        File(
            nccl_topology_file.NAME,
            nccl_topology_file.nccl_topology(part, placement, hardware),
            nccl_topology_file.VARIABLE,
        ),
        File(
            cufile_file.NAME,
            cufile_file.cufile_settings(part, hardware) if storage else "",
            cufile_file.VARIABLE,
        ),
    ]
    return tuple(file for file in made if file.content and file.variable not in theirs)


def secret_references(session: Session) -> dict[str, str]:
    """Variable → where its value comes from."""
    return {secret.env: secret.source for secret in session.spec.secrets}


def _labels(desired: Desired, session: Session, generation: int, part: KernelPlacement) -> Labels:
    return Labels(
        repo=desired.repo,
        cluster=desired.cluster,
        resource=session.identity,
        generation=generation,
        digest=desired.digests[session.identity],
        kernel=part.kernel,
        node=part.node,
        protected=session.protected,
        commit=desired.commit,
    )


def _base_spec(
    session: Session,
    container: Container,
    part: KernelPlacement,
    identifier: str,
    labels: Labels,
    env: dict[str, str],
) -> KernelSpec:
    """What its document and its placement alone say of a kernel."""
    spec = session.spec
    return KernelSpec(
        id=identifier,
        labels=labels,
        command=container.command,
        env=env,
        workdir=spec.workdir or "",
        image=container.image,
        hostname=container.name,
        cpus=part.cpus,
        cpu_milli=0 if part.cpus else part.cpu_milli,
        memory_nodes=part.memory_nodes,
        memory=part.memory,
        hugepages=bytes_by_slot(part.hugepages),
        shm=container.resources.shm or 0,
        pids=container.resources.pids or 0,
        devices=tuple(grant.id for grant in part.devices),
        parts=tuple(grant.id for grant in part.devices if grant.milli < _WHOLE),
        ports=tuple(port.port for port in spec.ports),
        restart=RestartRule(spec.restart.policy, spec.restart.max),
        tty=spec.tty,
        user=spec.container.user or "",
        read_only_root=spec.container.read_only_root,
        capabilities=spec.container.capabilities,
        ulimits={name: _soft_and_hard(value) for name, value in spec.container.ulimits.items()},
        stop_signal=spec.stop.signal,
        stop_grace=float(spec.stop.grace),
        timeout=float(spec.timeout or 0),
    )


def _soft_and_hard(limit: int | str) -> tuple[int, int]:
    """Soft and hard limit."""
    value = limit if isinstance(limit, int) else -1
    return value, value


def _rdma_nics(part: KernelPlacement, placement: Placement, hardware: Hardware) -> tuple[str, ...]:
    """The mapping's RDMA devices, which only containers on several nodes have a use for."""
    if len({each.node for each in placement.kernels}) < _SEVERAL:
        return ()
    return tuple(nic.id for nic in hardware.nics if nic.id in part.nics and nic.rdma)


def _session_facts(desired: Desired, session: Session, placement: Placement, generation: int) -> SessionFacts:
    group = desired.groups.get(session.spec.resource_group or "")
    ids = kernel_ids(desired, session, generation)
    containers = session.spec.containers
    return SessionFacts(
        scope=f"{desired.repo}/{desired.cluster}",
        identity=session.identity,
        name=session.name,
        generation=generation,
        type=session.spec.type,
        mode=session.spec.cluster.mode,
        kernels=tuple(KernelFacts(c.name, c.role, c.index, i) for c, i in zip(containers, ids, strict=True)),
        project=session.metadata.project,
        owner=session.spec.owner or "",
        image=session.spec.image or "",
        ports={port.name: port.port for port in session.spec.ports},
        addresses=kernel_connections.kernel_addresses(desired, placement),
        fractional=fractional(group) if group else Fractional(),
        gpudirect_storage=group.spec.gpu_direct_storage if group else False,
        bind_threads=session.spec.threads.bind == "close",
        network=kernel_connections.network_facts(desired, placement),
    )


def _linux_groups(desired: Desired, session: Session) -> tuple[int, ...]:
    """Those of its volumes, so that its sessions may do there what the group may: the volume's own, where
    that is no group of the system's, else that of the volume's project."""
    found = set()
    for mount in session.spec.mounts:
        volume = desired.repository.volume_of(session, mount.volume)
        if volume is not None and volume.spec.gid is not None:
            found.add(volume.spec.gid)
        elif volume is not None and volume.project:
            found.add(desired.repository.uid_of(desired.cluster, volume.project))
    return tuple(sorted(gid for gid in found if gid >= FIRST_REGULAR_ID))


def _foreign_uids(desired: Desired, project: str) -> str:
    """Numbers that an image could have for a user of its own."""
    owners = desired.repository.projects_by_id(desired.cluster)
    return format_cpus(
        uid
        for uid, whose in owners.items()
        if uid <= LAST_IMAGE_ID and any(each != project for each in whose)
    )


def volume_mounts(desired: Desired, session: Session) -> tuple[Mount, ...]:
    """What a session's kernels have mounted. Raises PlanError."""
    mounts = []
    for mount in session.spec.mounts:
        volume = desired.repository.volume_of(session, mount.volume)
        host = desired.repository.host_of(volume) if volume else None
        if volume is None or host is None:
            raise PlanError(why=f"{session.identity}: volume {mount.volume} has no storage host")
        mounts.append(_volume_mount(mount, volume, host))
    return tuple(mounts)


def _volume_mount(mount: SessionMount, volume: Volume, host: StorageHost) -> Mount:
    sub_path = mount.sub_path or ""
    if host.spec.pvc is not None:
        return Mount(
            f"/{sub_path}", mount.path, mount.read_only, "/", sub_path=sub_path, claim=volume.claim_name
        )
    root = host.spec.nfs.path if host.spec.nfs is not None else host.spec.root or ""
    source = f"{root.rstrip('/')}/{volume.path}"
    if sub_path:
        source += f"/{sub_path}"
    server = host.spec.nfs.server if host.spec.nfs is not None else ""
    accepted = host.spec.accepted_file_systems if not server else ()
    return Mount(source, mount.path, mount.read_only, root, accepted, sub_path, server)
