# Runs one NATS server for as long as its standard input is open, then removes it.
#
# Arguments: the folder of the server, and the program. The server writes its ports into a file in
# the folder. The file `failed` means that it has ended by itself. Commands on standard input: `kill`
# kills the server with SIGKILL and then creates the file `down`. `start` starts it again with the
# same data on the same port.
set -u
dir=$1
program=$2
server=
port=-1

remove() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null
    [ -z "$server" ] || wait "$server" 2>/dev/null
    rm -rf "$dir"
}
trap remove EXIT
trap 'exit 1' HUP INT TERM

start() {
    "$program" -c "$dir/conf" -a 127.0.0.1 -p "$port" -js -sd "$dir/data" --ports_file_dir "$dir" \
        >>"$dir/log" 2>&1 </dev/null &
    server=$!
    watched=$server
    (
        # Not a child of this shell, so its end has to be polled.
        while kill -0 "$watched" 2>/dev/null; do sleep 0.2; done
        [ -e "$dir/killed" ] || touch "$dir/failed" 2>/dev/null
    ) </dev/null &
}

cd "$dir" || exit 1
start
while read -r word; do
    case $word in
    kill)
        port=$(sed -n 's/.*"nats":\["nats:[^:]*:\([0-9]*\)".*/\1/p' "$dir"/*.ports | head -n 1)
        touch "$dir/killed"
        kill -KILL "$server"
        wait "$server" 2>/dev/null
        server=
        touch "$dir/down"
        ;;
    start)
        rm -f "$dir/down" "$dir"/*.ports
        start
        ;;
    esac
done
