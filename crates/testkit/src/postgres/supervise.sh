# Runs one PostgreSQL cluster as long as a process runs, then removes it.
#
# Arguments: the folder of the cluster, the folder of the programs, the process to watch (empty to
# watch the other end of the standard input), the user to run as (empty for the current one), settings
# for the server, and its role. The folder is created here, so that it belongs to the right user. The
# file `ready` in it means that the cluster responds, `failed` that it did not start.
set -u
dir=$1
bin=$2
watched=$3
user=$4
settings=$5
role=$6

as_user() {
    if [ -n "$user" ]; then
        runuser -u "$user" -- "$@"
    else
        "$@"
    fi
}

remove() {
    as_user "$bin/pg_ctl" -D "$dir/data" -m immediate -w stop >/dev/null 2>&1
    rm -rf "$dir"
}
trap remove EXIT
trap 'exit 1' HUP INT TERM

begin() {
    as_user "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C --no-sync || return 1
    [ "$role" != standby ] || as_user touch "$dir/data/standby.signal" || return 1
    as_user "$bin/pg_ctl" -D "$dir/data" -l "$dir/server.log" -w -t 60 start \
        -o "-c listen_addresses='' -c unix_socket_directories='$dir' -c max_connections=200 -c shared_buffers=64MB -c timezone=Asia/Tokyo $settings"
}

cd / || exit 1
mkdir -p "$dir" || exit 1
[ -z "$user" ] || chown "$user" "$dir"
chmod 700 "$dir"
if begin >"$dir/log" 2>&1 </dev/null; then
    touch "$dir/ready"
else
    touch "$dir/failed"
fi
if [ -n "$watched" ]; then
    tail --pid="$watched" -f /dev/null
else
    cat >/dev/null
fi
