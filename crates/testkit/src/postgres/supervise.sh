# Runs one PostgreSQL cluster for as long as a process lives, then removes it.
#
# Arguments: the folder of the cluster, the folder of the programs, the process to live with, and
# the user to run as, empty for the present one. The folder is made here, so that it belongs to the
# right user; `ready` in it says that the cluster answers, `failed` that it never will.
set -u
dir=$1
bin=$2
watched=$3
user=$4

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

cd / || exit 1
mkdir -p "$dir" || exit 1
[ -z "$user" ] || chown "$user" "$dir"
chmod 700 "$dir"
as_user "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$dir/log" 2>&1 &&
    as_user "$bin/pg_ctl" -D "$dir/data" -l "$dir/server.log" -w -t 60 start \
        -o "-c listen_addresses='' -c unix_socket_directories='$dir' -c max_connections=200 -c shared_buffers=64MB -c timezone=Asia/Tokyo" \
        >>"$dir/log" 2>&1
if [ $? -eq 0 ]; then
    touch "$dir/ready"
else
    touch "$dir/failed"
fi
tail --pid="$watched" -f /dev/null
