"""What makes a plain Debian a node of the lab: a layer of files over the root file system that all share."""

from __future__ import annotations

from pathlib import Path

UNITS = "etc/systemd/system"
_MASKED = (
    "apt-daily.timer apt-daily-upgrade.timer console-getty.service dpkg-db-backup.timer e2scrub_all.timer "
    "fstrim.timer getty.target run-rpc_pipefs.mount systemd-pcrphase.service"
)
# A container may write neither to its control groups, which Docker inside needs, nor to /proc/sys. What is of
# its network there is its own. The rest belongs to the whole machine: it gets stand-ins, plain files that
# keep what is written to them.
_OPEN = """#!/bin/sh
set -u
for group in /sys/fs/cgroup /sys/fs/cgroup/*/; do
    mountpoint -q "$group" && mount -o remount,bind,rw "$group"
done
mount --bind /proc/sys/net /proc/sys/net && mount -o remount,bind,rw /proc/sys/net
for part in kernel vm fs; do
    mkdir -p /run/lab/$part
    cp -r /proc/sys/$part/. /run/lab/$part 2>/dev/null
    for own in hostname domainname random; do
        [ ! -e /proc/sys/$part/$own ] || mount --rbind /proc/sys/$part/$own /run/lab/$part/$own
    done
    mount --rbind /run/lab/$part /proc/sys/$part
done
"""
_FILES = {
    "usr/local/sbin/lab-open": _OPEN,
    f"{UNITS}/lab-open.service": """[Unit]
Description=What this node may do that containers usually may not
DefaultDependencies=no
Before=sysinit.target systemd-sysctl.service docker.service containerd.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/lab-open
""",
    # At the end of a shutdown containers' keepers are waited for as long as that, for nothing.
    "etc/systemd/system.conf.d/lab.conf": "[Manager]\nDefaultTimeoutStopSec=5s\n",
    # The clock is the whole machine's: this server of time never sets it.
    f"{UNITS}/chrony.service.d/lab.conf": """[Unit]
ConditionCapability=
[Service]
ExecStart=
ExecStart=!/usr/sbin/chronyd -x
""",
    "etc/ssh/sshd_config.d/lab.conf": """HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
UseDNS no
MaxSessions 200
MaxStartups 200
""",
    "etc/sudoers.d/lab": "admin ALL=(ALL) NOPASSWD: ALL\n",
    "etc/apt/apt.conf.d/90lab": 'Acquire::Languages "none";\nAPT::Install-Recommends "false";\n',
}


def write(layer: Path) -> None:
    """Make the layer's folder."""
    for name, text in _FILES.items():
        file = layer / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if text.startswith("#!"):
            file.chmod(0o755)
    wants = layer / UNITS / "sysinit.target.wants"
    wants.mkdir()
    (wants / "lab-open.service").symlink_to("../lab-open.service")
    for unit in _MASKED.split():
        (layer / UNITS / unit).symlink_to("/dev/null")
