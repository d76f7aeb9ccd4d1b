# shellcheck shell=bash
# What the tests of packages share. $from is the directory of the packages.
. packaging/lib.sh
from=${from:?run packaging/test}

work=$(mktemp -d)
chmod 755 "$work"
ends=()
# Runs what was noted by at_end, the last first.
at_end() { ends+=("$1"); }
end() {
    local code=$? number
    for ((number = ${#ends[@]} - 1; number >= 0; number--)); do eval "${ends[number]}" || true; done
    rm -rf "$work"
    exit "$code"
}
trap end EXIT

# the PATTERN: the only file of this name among the packages.
the() {
    local found
    found=$(find "$from" -maxdepth 1 -name "$1" | sort)
    [ -n "$found" ] || die "there is no $1 in $from: packaging/build"
    [ "$(echo "$found" | wc -l)" = 1 ] || die "there are several $1 in $from: $found"
    echo "$found"
}

# at_most BYTES FILE: fails where the file is larger.
at_most() {
    local size
    size=$(stat -c %s "$2")
    echo "${2##*/}: $size bytes"
    [ "$size" -le "$1" ] || [ -n "${TASKVISOR_ANY_SIZE:-}" ] || die "${2##*/} has $size bytes, and $1 are the most"
}

# first_job COMMAND…: a supervisor of eight workers with directories of its own, a first job, its output, the stop. COMMAND
# is the program. Fails where that takes longer than five seconds from a call that ends in the past: since=SECONDS.
first_job() {
    local state=$work/state-$RANDOM jid said keeper
    export TASKVISOR_STATE_DIR=$state TASKVISOR_RUN_DIR=$state-run
    "$@" start -w 8 >"$work/start.log" 2>&1 &
    keeper=$!
    at_end "kill $keeper 2>/dev/null"
    jid=$(put_until_it_is_up "$@")
    "$@" job wait "$jid" --timeout 20s >/dev/null
    said=$("$@" job logs "$jid")
    [ "$said" = hello ] || die "the first job said '$said': $(cat "$work/start.log")"
    "$@" stop
    wait "$keeper"
    unset TASKVISOR_STATE_DIR TASKVISOR_RUN_DIR
}

# A put before the supervisor is up goes into the store, or is refused for a moment while the store is made.
put_until_it_is_up() {
    local tries=0
    until "$@" put -- echo hello 2>"$work/put.log"; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || die "no job could be put: $(cat "$work/put.log")"
        sleep 0.1
    done
}
