# Runs one NATS server for as long as its standard input is open, then removes it.
#
# Arguments: the folder of the server, and the program. The server writes its ports into a file in
# the folder; `failed` there says that it has ended by itself.
set -u
dir=$1
program=$2
server=

remove() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null
    [ -z "$server" ] || wait "$server" 2>/dev/null
    rm -rf "$dir"
}
trap remove EXIT
trap 'exit 1' HUP INT TERM

cd "$dir" || exit 1
"$program" -a 127.0.0.1 -p -1 -js -sd "$dir/data" --ports_file_dir "$dir" >"$dir/log" 2>&1 </dev/null &
server=$!
(
    # Not a child of this shell, so its end can only be looked for.
    while kill -0 "$server" 2>/dev/null; do sleep 0.2; done
    touch "$dir/failed" 2>/dev/null
) </dev/null &
cat >/dev/null
