#!/bin/bash
# Runs a script in a machine of its own: a small Debian with a real systemd as process 1, in namespaces, gone at the end.
# usage: machine.sh ROOT SCRIPT ARGUMENT…; ROOT is the tree of a Debian with systemd, SCRIPT a file in it.
set -euo pipefail
export root=$1 script=$2
shift 2
cgroups=/sys/fs/cgroup
[ -e $cgroups/cgroup.controllers ] || cgroups=/sys/fs/cgroup/unified
[ -e $cgroups/cgroup.controllers ] || { echo "machine.sh: cgroup v2 is not mounted" >&2; exit 1; }
own=$cgroups/taskvisor-packaging-$$
mkdir "$own"
home=$cgroups$(sed -n 's/^0:://p' /proc/self/cgroup)
end() {
    # unshare blocks TERM; what it has started dies with it.
    kill -KILL "$init" 2>/dev/null || true
    wait "$init" 2>/dev/null || true
    echo 1 >"$own/cgroup.kill" 2>/dev/null || true
    # Until the kernel has ended all of it.
    for _ in $(seq 100); do
        find "$own" -depth -type d -exec rmdir {} + 2>/dev/null && break
        sleep 0.1
    done
}
trap end EXIT

(
    echo $BASHPID >"$own/cgroup.procs"
    exec unshare --fork --pid --mount --uts --ipc --cgroup --propagation private --kill-child bash -euc '
        # systemd changes the root of a service, which must be a mount for that.
        mount --bind "$root" "$root"
        mount --rbind /dev "$root/dev"
        mount -t proc proc "$root/proc"
        mount -t sysfs -o ro sysfs "$root/sys"
        mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
        mount -t tmpfs tmpfs "$root/run"
        mount -t tmpfs tmpfs "$root/tmp"
        hostname machine
        exec chroot "$root" env -i container=taskvisor-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
            /lib/systemd/systemd --system --unit=basic.target --log-target=console --show-status=no --log-level=notice
    '
) </dev/null >"$root/console" 2>&1 &
init=$!
# Its process 1, seen from here; then the parent leaves the cgroup, which it would keep from giving controllers away.
for _ in $(seq 100); do
    one=$(pgrep -P "$init" systemd || true)
    [ -n "$one" ] && break
    kill -0 "$init" || { cat "$root/console" >&2; exit 1; }
    sleep 0.1
done
echo "$init" >"$home/cgroup.procs" || true
inside() { nsenter -t "$one" -m -u -i -p -C -r -w env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
state=''
for _ in $(seq 600); do
    state=$(inside systemctl is-system-running 2>/dev/null || true)
    case $state in running | degraded) break ;; esac
    sleep 0.1
done
case $state in running | degraded) ;; *) echo "systemd does not come up: $state" >&2; cat "$root/console" >&2; exit 1 ;; esac
inside bash "$script" "$@"
