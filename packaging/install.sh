#!/bin/sh
# Installs taskvisor from this directory, or removes it again. Needs no root: it writes below the prefix alone.
#
#   ./install.sh                  into ~/.local, or as root into /usr/local
#   ./install.sh --prefix DIR     into DIR
#   ./install.sh --uninstall …    removes what it has installed there; jobs, logs and settings stay
set -eu
# What is made below the prefix is for all users, whatever the umask of the one who installs.
umask 022
cd "$(dirname "$0")"

fail() { echo "install.sh: $*" >&2; exit 1; }

prefix='' remove=''
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) [ $# -gt 1 ] || fail "--prefix needs a directory"; prefix=$2; shift 2 ;;
        --prefix=*) prefix=${1#*=}; shift ;;
        --uninstall) remove=1; shift ;;
        -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' install.sh; exit 0 ;;
        *) fail "unknown argument $1 (--prefix DIR, --uninstall)" ;;
    esac
done
if [ -z "$prefix" ]; then
    if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=${HOME:?is not set: give --prefix DIR}/.local; fi
fi
case $prefix in
    *[\|\&\\]*) fail "the prefix '$prefix' has a character that does not fit into the unit: | & or a backslash" ;;
    /*) ;;
    *) fail "the prefix '$prefix' is not an absolute path" ;;
esac
list=$prefix/share/taskvisor/installed

if [ -n "$remove" ]; then
    [ -e "$list" ] || fail "nothing was installed in $prefix by this script ($list is not there)"
    while read -r file; do
        rm -f "$prefix/$file"
        # Directories that are empty now, but not the prefix itself.
        dir=$(dirname "$file")
        while [ "$dir" != . ] && rmdir "$prefix/$dir" 2>/dev/null; do dir=$(dirname "$dir"); done
    done <"$list"
    echo "taskvisor is removed from $prefix"
    exit 0
fi

[ "$(uname -sm)" = "Linux x86_64" ] || fail "this program is for Linux on x86-64, and this is $(uname -sm)"
sha256sum --check --quiet SHA256SUMS || fail "a file is not as it was packed: unpack the archive again"
# A libc that is too old, or another one, shows here.
bin/taskvisor --version >/dev/null || fail "the program does not run on this machine: it needs glibc 2.28 or newer"

mkdir -p "$prefix/share/taskvisor"
cut -d' ' -f3- SHA256SUMS | while read -r file; do
    mkdir -p "$prefix/$(dirname "$file")"
    # A new file takes the old one's place: a taskvisor that runs keeps the old one.
    case $file in
        share/taskvisor/*.service) sed "s|/usr/local/bin/taskvisor|\"$prefix/bin/taskvisor\"|" "$file" >"$prefix/$file.new" ;;
        *) cp "$file" "$prefix/$file.new" ;;
    esac
    if [ -x "$file" ]; then chmod 755 "$prefix/$file.new"; else chmod 644 "$prefix/$file.new"; fi
    mv "$prefix/$file.new" "$prefix/$file"
done
{ cut -d' ' -f3- SHA256SUMS; echo share/taskvisor/installed; } >"$list"
echo "$("$prefix/bin/taskvisor" --version) is installed in $prefix"
case :$PATH: in
    *":$prefix/bin:"*) ;;
    *) echo "put it into your PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
echo "to try it: taskvisor start -w 8      units for systemd: $prefix/share/taskvisor"
