#!/bin/sh
# A job of the soak: job.sh DIR/NAME-LASTS-FAILS-KIND. What it starts holds its lock, too, so that a run beside what is
# left of another one shows.
said=$1
IFS=-
set -- $1
exec 9>>"$said.lock"
flock -n 9 || echo twice >>"$said"
echo "begun $$ $(date +%s%3N)" >>"$said"
[ "$(grep -c begun "$said")" -gt "$3" ] || exit 1
[ "$4" != leaves ] || setsid sleep 1000 &
sleep "$2"
echo "ended $(date +%s%3N)" >>"$said"
