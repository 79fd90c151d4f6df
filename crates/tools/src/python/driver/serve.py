"""Runs each python step in a process that is forked for it.

The zygote is an interpreter that has imported the driver and the libraries of steps. It never runs
the code of a step, and never receives the code, the inputs or the results of one: it passes the
descriptors of a call on to a process that it has forked.

Messages are frames: four bytes of length, little endian, then JSON.
"""

import _signal
import array
import fcntl
import gc
import os
import resource
import select
import signal
import socket
import sys
import time
import types
import warnings

MODULE = "noetl_step"
# Its channel, two outputs, and the socket for its status.
DESCRIPTORS_PER_CALL = 4
MAX_PRELOADED_MODULES = 256
MAX_IMPORT_SECONDS = 30
# Descriptors of the driver are above those that code usually closes.
LOWEST_DESCRIPTOR = 100


def raise_descriptor(fd):
    raised = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR)
    os.close(fd)
    return raised


def receive_descriptors(connection, size):
    """Receives bytes, and the descriptors that came with them."""
    numbers = array.array("i")
    space = socket.CMSG_SPACE(DESCRIPTORS_PER_CALL * numbers.itemsize)
    chunk, ancillary, _, _ = connection.recvmsg(size, space)
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers.frombytes(data)
    return chunk, list(numbers)


class Channel:
    """A stream of frames."""

    # Code may replace the functions of the modules.
    _read, _write = staticmethod(os.read), staticmethod(os.write)

    def __init__(self, fd):
        self.fd = raise_descriptor(fd)

    def receive(self, beginning=b""):
        size = int.from_bytes(beginning + self.read(4 - len(beginning)), "little")
        return decode(self.read(size).decode("utf-8"))

    def read(self, size):
        chunks = []
        while size > 0:
            chunk = self._read(self.fd, min(size, 1 << 20))
            if not chunk:
                raise EOFError("the worker has closed the channel")
            chunks.append(chunk)
            size -= len(chunk)
        return b"".join(chunks)

    def send(self, *parts):
        body = b"".join(parts)
        view = memoryview(len(body).to_bytes(4, "little") + body)
        while view:
            view = view[self._write(self.fd, view) :]


class Zygote:
    def __init__(self, control, order):
        self.control = control
        self.order = order
        # By process: the socket that the worker stops it with and gets its exit status from.
        self.calls = {}
        self.preloaded = set()
        # The process of the next call, which is forked before the call arrives.
        self.spare = None
        self.folders = 0
        # The descriptors of a call whose process is not forked yet.
        self.received = []
        for name, limit in order["limits"].items():
            lower_limit(name, limit)
        self.isolation = None
        self.reason = None
        if order["isolation"] is not None:
            self.try_isolation(order["isolation"])

    def try_isolation(self, isolation):
        """Isolates a process that does nothing."""
        try:
            self.isolation = Isolation(isolation, self.order["scratch"])
            reader, writer = os.pipe()
            pid = self.isolation.fork()
        except (ImportError, AttributeError, OSError) as error:
            self.reason = str(error)
            return
        if pid == 0:
            try:
                self.isolation.enter(self.order["scratch"])
            except BaseException as error:
                os.write(writer, str(error).encode("utf-8", "replace")[:1000])
            finally:
                os._exit(0)
        os.close(writer)
        self.reason = os.read(reader, 1000).decode("utf-8", "replace") or None
        os.close(reader)
        os.waitpid(pid, 0)

    def serve(self):
        woken, wake = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        self.pipe = (woken, wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake)
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in (1, 2):
            os.dup2(nothing, fd)
        os.close(nothing)
        # Modules of the working directory belong to a call.
        if sys.path and sys.path[0] == "":
            del sys.path[0]
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        self.streams = Streams()
        # Descriptors arrive as ancillary data.
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, self.control.fd)
        # The collector would write to each object, and so copy the memory of each process.
        gc.collect()
        gc.freeze()
        self.poll = select.poll()
        self.poll.register(self.control.fd, select.POLLIN)
        self.poll.register(woken, select.POLLIN)
        self.prepare_call()
        while True:
            for fd, _ in self.poll.poll():
                if fd == woken:
                    self.reap()
                elif fd == self.control.fd:
                    self.start_call()
                else:
                    self.stop_call(fd)

    def prepare_call(self):
        """Forks the process of the next call."""
        self.folders += 1
        folder = os.path.join(self.order["scratch"], str(self.folders))
        ours, theirs = socket.socketpair()
        try:
            os.mkdir(folder, 0o700)
            pid = self.isolation.fork() if self.isolation else os.fork()
        except OSError:
            # The call that needs it tries again.
            return
        if pid == 0:
            try:
                ours.close()
                run_call(self, folder, theirs)
            finally:
                os_exit(1)
        theirs.close()
        self.spare = (pid, self.folders, ours)

    def start_call(self):
        try:
            beginning, self.received = receive_descriptors(self.socket, 4)
            if not beginning:
                raise EOFError
            call = self.control.receive(beginning)
        except (EOFError, OSError):
            for pid in self.calls:
                self.kill(pid)
            os._exit(0)
        if self.preload(call["modules"]) and self.spare:
            # It has been forked without them.
            self.spare[2].close()
            self.spare = None
        if self.spare is None:
            self.prepare_call()
        descriptors, self.received = self.received, []
        status = descriptors.pop()
        if self.spare:
            pid, number, connection = self.spare
            self.spare = None
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
            try:
                connection.sendmsg([b"."], [rights])
            except OSError:
                # It has ended, which `reap` reports.
                pass
            connection.close()
            status = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, status)
            status.setblocking(False)
            self.calls[pid] = (status, number)
            self.poll.register(status.fileno(), select.POLLIN)
        else:
            # The worker reads the end of the sockets.
            os.close(status)
        for fd in descriptors:
            os.close(fd)
        self.prepare_call()

    def preload(self, names):
        """Imports modules of the interpreter, so that the processes of later calls have them.

        Returns True if there were new ones.
        """
        from importlib import import_module

        count = len(sys.modules)
        # A module that never returns ends the zygote, and the next call gets another one.
        _signal.alarm(MAX_IMPORT_SECONDS)
        for name in names:
            if name not in self.preloaded and len(self.preloaded) < MAX_PRELOADED_MODULES:
                self.preloaded.add(name)
                try:
                    import_module(name)
                except BaseException:
                    # The code gets the error if it imports the module.
                    pass
        _signal.alarm(0)
        if len(sys.modules) == count:
            return False
        gc.collect()
        gc.freeze()
        return True

    def stop_call(self, fd):
        pids = (pid for pid, (status, _) in self.calls.items() if status.fileno() == fd)
        pid = next(pids, None)
        if pid is None:
            # It has ended in the meantime.
            return
        try:
            order = self.calls[pid][0].recv(1)
        except BlockingIOError:
            return
        except OSError:
            order = b""
        if order == b"T":
            self.terminate(pid)
        else:
            self.poll.unregister(fd)
            self.kill(pid)

    def terminate(self, pid):
        send_signal(os.killpg, pid, signal.SIGTERM)
        # The kernel ignores signals that the first process of a namespace does not handle.
        if self.isolation and not handles_sigterm(pid):
            self.kill(pid)

    def kill(self, pid):
        send_signal(os.killpg, pid, signal.SIGKILL)
        send_signal(os.kill, pid, signal.SIGKILL)

    def reap(self):
        try:
            os.read(self.pipe[0], 4096)
        except OSError:
            pass
        while True:
            try:
                pid, code = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.spare and self.spare[0] == pid:
                self.spare[2].close()
                self.spare = None
            status, number = self.calls.pop(pid, (None, None))
            if status is None:
                continue
            # The namespace has ended with its first process. Without one, the group remains.
            send_signal(os.killpg, pid, signal.SIGKILL)
            try:
                self.poll.unregister(status.fileno())
            except KeyError:
                pass
            try:
                status.send(code.to_bytes(4, "little") + number.to_bytes(4, "little"))
            except OSError:
                pass
            status.close()

    def close(self):
        """Closes everything of the zygote in a forked process."""
        # The functions of `signal` itself wrap each number in an enum, which takes longer.
        _signal.set_wakeup_fd(-1)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        for fd in self.pipe:
            os.close(fd)
        self.socket.close()
        for fd in self.received:
            os.close(fd)
        for status, _ in self.calls.values():
            status.close()
        self.calls.clear()


def send_signal(send, pid, number):
    try:
        send(pid, number)
    except OSError:
        pass


def handles_sigterm(pid):
    try:
        with open("/proc/%d/status" % pid) as file:
            lines = dict(line.split(":", 1) for line in file)
        return bool(int(lines["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1)
    except (OSError, KeyError, ValueError):
        return True


def run_call(zygote, folder, connection):
    """Waits for a call in its own process, runs it, and ends the process."""
    zygote.close()
    os.setsid()
    failure = None
    if zygote.isolation:
        try:
            zygote.isolation.enter(folder)
        except OSError as error:
            failure = error
        folder = zygote.order["scratch"]
    sys.path.insert(0, "")
    _, descriptors = receive_descriptors(connection, 1)
    connection.close()
    if not descriptors:
        os_exit(0)
    channel, stdout, stderr = descriptors
    for fd, number in ((stdout, 1), (stderr, 2)):
        os.dup2(fd, number)
        os.close(fd)
    channel = Channel(channel)
    if failure is not None:
        channel.send(b'{"status":"no_sandbox","message":', encode(str(failure)), b"}")
        os_exit(0)
    own = os.getpid()
    request = channel.receive()
    # The state of these generators is otherwise the same in each process.
    generator = sys.modules.get("numpy.random")
    if generator is not None:
        generator.seed()
    zygote.streams.input.value = request["input"]
    module = sys.modules[MODULE] = types.ModuleType(MODULE)
    try:
        prepare(request, folder)
    except OSError as error:
        parts = (b'{"status":"no_folder","message":' + encode(str(error)),)
    else:
        fill_scope(module.__dict__, request, request["input"])
        parts = build_reply(request, module.__dict__, request["input"], zygote.order["payload_cap"])
    # A forked child that returns here would send a second reply.
    if os_getpid() == own:
        zygote.streams.flush()
        channel.send(*parts, b"}")
    os_exit(0)


# Code may replace these.
os_getpid, os_exit = os.getpid, os._exit


def prepare(request, folder):
    os.chdir(folder)
    if request.get("cwd"):
        os.chdir(request["cwd"])
    environment = request.get("env")
    if environment:
        os.environ.update(environment)
        if "TZ" in environment:
            time.tzset()
    cpu_seconds = request.get("cpu_seconds")
    if cpu_seconds:
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        # The process has used less than a second before the code starts.
        soft = cpu_seconds + 1
        if hard != resource.RLIM_INFINITY:
            soft = min(soft, hard)
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def main():
    control = Channel(os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        order = control.receive()
    except EOFError:
        os._exit(0)
    zygote = Zygote(control, order)
    reason = b"null" if zygote.reason is None else encode(zygote.reason)
    control.send(b'{"status":"ready","not_isolated":', reason, b"}")
    if zygote.reason is None:
        zygote.serve()


main()
