# What the scripts beside this one share; sourced, never run.
umask 022

fail() { echo "$(basename "$0"): $*" >&2; exit 1; }

# Where fetched programs are kept. Only readable to its owner, a root's home would be of no use: servers run as another user.
cache_folder() {
  if [ -n "${TURNO_TEST_CACHE:-}" ]; then echo "$TURNO_TEST_CACHE"
  elif [ "$(id -u)" = 0 ]; then echo /var/cache/turno-test
  else echo "${XDG_CACHE_HOME:-$HOME/.cache}/turno-test"; fi
}

# A new folder in the cache, to be filled and then moved into place by keep.
new_in_cache() {
  mkdir -p "$(cache_folder)"
  local folder
  folder=$(mktemp -d "$(cache_folder)/fetch.XXXXXX")
  chmod 755 "$folder"
  echo "$folder"
}

# Whoever comes first wins; the other run uses what is there.
keep() { mv -T "$1" "$2" 2>/dev/null || rm -rf "$1"; } # FROM TO

# Servers refuse to run as root, so as root they run as somebody else.
server_user=$(id -un)
if [ "$(id -u)" = 0 ]; then
  server_user=postgres
  id -u "$server_user" >/dev/null 2>&1 || server_user=nobody
fi

as_server_user() {
  if [ "$(id -u)" = 0 ]; then
    (cd / && exec setpriv --reuid="$server_user" --regid="$(id -g "$server_user")" --init-groups "$@")
  else "$@"; fi
}

give_to_server_user() { [ "$(id -u)" != 0 ] || chown "$server_user" "$@"; }

# Below the range from which the kernel takes ports for outgoing connections. Another program may take it in the meantime:
# whoever listens finds out, and tries the next.
some_port() { echo $((15000 + (RANDOM * 32768 + RANDOM) % 17000)); }
