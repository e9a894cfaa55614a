#!/bin/sh
# Fuzzes each target of the module for $1 and stops at the first that fails.
#
# Before Go 1.27 a run whose time is up may end with the deadline for its only
# reason, having found nothing (golang/go#75804). That passes, and nothing else:
# what go test prints from a failure on is kept in $end and judged.
set -eu
GO=${GO:-go}
end=$(mktemp)
trap 'rm -f "$end"' EXIT

fuzz() { # package, target
  "$GO" test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 10x "$1" 2>&1 ||
    echo "go test: exit status $?"
}

tell() { # all lines before a failure at once, the rest into $end
  while IFS= read -r line; do
    case $line in
    "--- FAIL: "* | "go test: exit status "*) { printf '%s\n' "$line"; cat; } >"$end" ;;
    *) printf '%s\n' "$line" ;;
    esac
  done
}

time_up() {
  [ "$(sed -n '2{p;q;}' "$end")" = "    context deadline exceeded" ] &&
    [ "$(sed -n '3{p;q;}' "$end")" = FAIL ] && ! grep -qE 'Failing input|panic|fuzzing process' "$end"
}

time=$1
for pkg in $("$GO" list ./...); do
  for target in $("$GO" test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
    echo "$pkg $target"
    : >"$end"
    fuzz "$pkg" "$target" | tell
    if [ -s "$end" ]; then
      time_up || { cat "$end"; exit 1; }
      echo "$target: its time was up while a worker was busy; nothing was found"
    fi
  done
done
