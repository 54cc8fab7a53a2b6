#!/bin/sh
# Modules that the lab's packages stand in for; everything else is kmod's.
for name; do :; done
case $name in
nvidia | nvidia-fs | nvidia_fs | nvidia-peermem | nvidia_peermem)
    file=$(echo "$name" | tr - _)
    [ "$file" = nvidia ] && exec /usr/lib/fake-nvidia/load
    [ -e /usr/lib/fake-nvidia/"$file" ] || [ "$file" = nvidia_peermem ] || exit 1
    /usr/lib/fake-nvidia/load || exit 1
    mkdir -p /run/fake-nvidia/module/"$file"
    cat /usr/lib/fake-nvidia/"$file" >/run/fake-nvidia/module/"$file"/version 2>/dev/null || :
    mount -t overlay -o lowerdir=/run/fake-nvidia/module:/sys/module overlay /sys/module
    ;;
*) exec /usr/sbin/modprobe "$@" ;;
esac
