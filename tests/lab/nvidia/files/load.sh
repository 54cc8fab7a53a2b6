#!/bin/sh
# What `modprobe nvidia` leaves on a machine with GPUs: a version under /proc/driver and /sys/module that stays
# until the next boot whatever is installed meanwhile, devices, and the GPUs on the PCI bus.
set -e
state=/run/fake-nvidia
[ -e $state/loaded ] && exit 0
[ -e /usr/lib/fake-nvidia/module ] || { echo "modprobe: FATAL: Module nvidia not found in directory" >&2; exit 1; }
read -r version flavour </usr/lib/fake-nvidia/module
mkdir -p $state/module/nvidia $state/pci
echo "$version" >$state/module/nvidia/version
mount -t tmpfs tmpfs /proc/driver
mkdir /proc/driver/nvidia
case $flavour in
open) words="NVIDIA UNIX Open Kernel Module for x86_64" ;;
*) words="NVIDIA UNIX x86_64 Kernel Module" ;;
esac
echo "NVRM version: $words  $version  Release Build  (lab)" >/proc/driver/nvidia/version
cat /etc/modprobe.d/*.conf 2>/dev/null | sed -n 's/^options nvidia NVreg_\([A-Za-z]*\)=\(.*\)/\1: \2/p' \
    >/proc/driver/nvidia/params
echo "EnableMSI: 1" >>/proc/driver/nvidia/params
device() {
    mkdir -p "$state/pci/$1"
    echo 0x10de >"$state/pci/$1/vendor"
    echo "$2" >"$state/pci/$1/class"
}
count=$(cat /etc/fake-nvidia/gpus 2>/dev/null || echo 2)
number=0
while [ $number -lt "$count" ]; do
    device "0000:1$number:00.0" 0x030200
    touch /dev/nvidia$number
    number=$((number + 1))
done
[ ! -e /etc/fake-nvidia/nvswitch ] || device 0000:90:00.0 0x068000
touch /dev/nvidiactl
! grep -qs create-dev-char /etc/udev/rules.d/*.rules || nvidia-ctk system create-dev-char-symlinks --create-all
mount -t overlay -o lowerdir=$state/module:/sys/module overlay /sys/module
mount -t overlay -o lowerdir=$state/pci:/sys/bus/pci/devices overlay /sys/bus/pci/devices
touch $state/loaded
# As systemd-modules-load does at boot; that one speaks to the kernel directly.
! grep -qsx 'nvidia[-_]fs' /etc/modules-load.d/*.conf || modprobe nvidia-fs
