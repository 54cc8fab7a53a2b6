"""Paths of `/proc` and `/sys` that no session sees, or none writes, in a sandbox as in a container."""

from __future__ import annotations

READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
"""What changes the machine: a pipe in /proc/sys/kernel/core_pattern, for one, is a program that the kernel
starts as root outside of every sandbox and container."""
MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/selinux",
    "/sys/kernel/debug",
    "/sys/kernel/security",
    "/sys/kernel/tracing",
)
"""What tells of the machine's memory, keys, devices and other sessions: the lists of container engines
(containerd: pkg/oci/spec.go; Moby: oci/defaults.go; Podman) and systemd's ProtectKernelTunables."""


def cpu_heat_paths(count: int) -> tuple[str, ...]:
    """Counters of each CPU's heat, by which sessions could watch what others do (as Moby does,
    GHSA-6fw5-f8r9-fgfm). `count`: CPUs of the machine; a path that is not there does no harm."""
    return tuple(f"/sys/devices/system/cpu/cpu{number}/thermal_throttle" for number in range(count))
