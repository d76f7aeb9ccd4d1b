# shellcheck shell=bash
# What the scripts here share. They are read with `. packaging/lib.sh` by bash, at the root of the tree.

# The version of the workspace.
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# The only machine that packages are built for; packaging/README.md says what would be needed for others.
machine=x86_64
# The oldest glibc that the program runs with: 2.28 is that of Debian 10 and RHEL 8. memfd_create needs 2.27.
glibc=2.28
# The time in all archives: that of the last commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH version machine glibc

say() { printf '\n== %s\n' "$*" >&2; }
die() { echo "${0##*/}: $*" >&2; exit 1; }

# need PROGRAM PACKAGE: ends where the program is missing.
need() { command -v "$1" >/dev/null || die "'$1' is missing: apt-get install $2"; }

# venv DIR PACKAGE…: makes a Python environment with these packages, once.
venv() {
    local dir=$1
    shift
    [ -e "$dir/made" ] && return
    python3 -m venv "$dir"
    "$dir/bin/pip" install --quiet --disable-pip-version-check "$@"
    touch "$dir/made"
}

# archive DIR: the directory as a tar on stdout, the same bytes for the same files.
archive() {
    tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -C "$(dirname "$1")" "$(basename "$1")"
}

# fill PROGRAM DIR ZSH: what deb, tarball and image share, below a directory like /usr. ZSH is the name that this system
# gives the directory of completions for zsh.
fill() {
    install -D -m755 "$1" "$2/bin/taskvisor"
    install -d "$2"/share/man/man1 "$2"/share/bash-completion/completions "$2/share/zsh/$3" \
        "$2"/share/fish/vendor_completions.d
    "$1" man "$2/share/man/man1"
    "$1" completion bash >"$2/share/bash-completion/completions/taskvisor"
    "$1" completion zsh >"$2/share/zsh/$3/_taskvisor"
    "$1" completion fish >"$2/share/fish/vendor_completions.d/taskvisor.fish"
}
