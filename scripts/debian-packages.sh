#!/bin/sh
# Install the named Debian packages where that is possible; elsewhere say what is missing. Never fails the build by
# itself: what needs a missing tool says so (and fails in CI).
missing=""
for package in "$@"; do
  dpkg -s "$package" >/dev/null 2>&1 || command -v "$package" >/dev/null 2>&1 || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing$missing"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >/dev/null && exit 0
fi
echo "missing:$missing (install them, for example: sudo apt-get install$missing)"
exit 0
