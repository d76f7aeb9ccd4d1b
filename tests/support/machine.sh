#!/bin/bash
# Boots a systemd of its own: process 1 of new namespaces, on a copy of this machine's files that is gone with it.
# usage: machine.sh TASKVISOR UNITS CGROUP DIRECTORY [V1]; ends when it is killed, and all of the machine with it.
set -euo pipefail
export TASKVISOR=$1 UNITS=$2 CGROUP=$3 root=$4/root V1=${5:-}

# The cgroup is the root of the machine's own hierarchy. It has all controllers that can be given away.
mkdir "$CGROUP"
for controller in memory pids cpu; do
    echo "+$controller" 2>/dev/null >"$(dirname "$CGROUP")/cgroup.subtree_control" || true
done
echo $$ >"$CGROUP/cgroup.procs"
# V1 names its cgroup in the hierarchies of cgroup v1, on a machine where they hold the memory controller: then it has both.
# All but cpuset: systemd makes cgroups in each of them, and must not find those of this machine.
if [ -n "$V1" ]; then
    for hierarchy in /sys/fs/cgroup/*/release_agent; do
        hierarchy=${hierarchy%/release_agent}
        [ "${hierarchy##*/}" = cpuset ] && continue
        mkdir -p "$hierarchy/$V1"
        echo $$ >"$hierarchy/$V1/cgroup.procs"
    done
fi

# Every mount is in the new namespace, and none reaches the one above.
exec unshare --fork --pid --mount --uts --ipc --cgroup --propagation private --kill-child bash -euo pipefail -c '
mkdir "$root"
mount -t tmpfs machine "$root"
mkdir "$root"/{files,upper,work}
mount -t overlay machine -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" "$root/files"
touch "$root/files/usr/local/bin/taskvisor"
mount --bind "$TASKVISOR" "$root/files/usr/local/bin/taskvisor"
root=$root/files
rm -rf "$root"/etc/systemd/system/*
cp "$UNITS"/*.service "$root/etc/systemd/system/"
: >"$root/etc/fstab"
echo "taskvisor:x:64322:64322::/:/usr/sbin/nologin" >>"$root/etc/passwd"
echo "taskvisor:x:64322:" >>"$root/etc/group"
# What would reach for the hardware, or for settings of the kernel that are not the machine'"'"'s own.
for unit in systemd-{udevd,udev-trigger,sysctl,modules-load,remount-fs,binfmt,random-seed,tmpfiles-setup-dev}.service \
    kmod-static-nodes.service dev-{hugepages,mqueue}.mount sys-kernel-{debug,tracing,config}.mount \
    sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount; do
    ln -s /dev/null "$root/etc/systemd/system/$unit"
done
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
if [ -z "$V1" ]; then
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
    mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
    mkdir "$root"/sys/fs/cgroup/{unified,memory,systemd}
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
    mount -t cgroup -o memory cgroup "$root/sys/fs/cgroup/memory"
    mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
fi
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
hostname machine
cd "$root"
exec chroot . env -i container=taskvisor-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=basic.target --log-target=console --show-status=no --log-level=notice
'
