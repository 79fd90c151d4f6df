"""Runs python steps, one call after another, in one warm interpreter.

The driver runs with a private copy of the builtins and keeps its own references to everything it
needs, so that code which damages shared state cannot prevent the reply to its own call.

The channel carries frames in both directions: four bytes of length, little endian, then JSON.
"""

import fcntl
import os
import resource
import signal
import sys
import time
import types
from resource import RLIM_INFINITY, RUSAGE_SELF, getrlimit, getrusage, setrlimit

MODULE = "noetl_step"
_read, _write, _chdir, _exit = os.read, os.write, os.chdir, os._exit
_pread = os.pread


class Channel:
    """The private channel to the worker: the initial standard input on another descriptor."""

    def __init__(self):
        # F_DUPFD_CLOEXEC picks the lowest free descriptor from 100 on, closed on exec.
        self.fd = _fcntl(0, fcntl.F_DUPFD_CLOEXEC, 100)
        nothing = os.open(os.devnull, os.O_RDONLY)
        _dup2(nothing, 0)
        os.close(nothing)
        self.flags = _fcntl(self.fd, fcntl.F_GETFL)
        # If the worker ends during a call, the kernel kills the whole group.
        self.guarded = hasattr(fcntl, "F_SETSIG")
        if self.guarded:
            # A group whose leader is outside the pid namespace has no number here. Then the end of
            # this process is the end of the namespace.
            _fcntl(self.fd, fcntl.F_SETOWN, -os.getpgrp() or os.getpid())
            _fcntl(self.fd, fcntl.F_SETSIG, signal.SIGKILL)
        self._async = os.O_ASYNC if self.guarded else 0
        self._setfl = fcntl.F_SETFL

    def guard(self, on):
        if self.guarded:
            _fcntl(self.fd, self._setfl, self.flags | self._async if on else self.flags)

    def receive(self):
        size = int.from_bytes(self._exactly(4), "little")
        return decode(self._exactly(size).decode("utf-8"))

    def _exactly(self, size):
        chunks = []
        while size > 0:
            chunk = _read(self.fd, min(size, 1 << 20))
            if not chunk:
                _exit(0)
            chunks.append(chunk)
            size -= len(chunk)
        return b"".join(chunks)

    def send(self, *parts):
        body = b"".join(parts)
        view = memoryview(len(body).to_bytes(4, "little") + body)
        while view:
            view = view[_write(self.fd, view) :]


class Memory:
    """Resident memory of this process.

    On Linux a process inherits the peak of its parent, so the peak is not meaningful there.
    """

    def __init__(self):
        self.page = resource.getpagesize()
        try:
            opened = os.open("/proc/self/statm", os.O_RDONLY)
        except OSError:
            self.fd = None
        else:
            self.fd = _fcntl(opened, fcntl.F_DUPFD_CLOEXEC, 100)
            os.close(opened)

    def resident(self):
        if self.fd is None:
            # In bytes on macOS, which has no such file.
            return getrusage(RUSAGE_SELF).ru_maxrss
        return int(_pread(self.fd, 128, 0).split()[1]) * self.page


class CallRunner:
    """Runs calls and cleans up after each."""

    def __init__(self, channel, hello):
        self.channel = channel
        self.scratch = hello["scratch"]
        self.largest = hello["payload_cap"]
        self.max_memory = hello["max_memory"]
        for name, limit in hello["limits"].items():
            lower_limit(name, limit)
        self.memory = Memory()
        self.streams = Streams()
        self.watch = StateWatch()

    def call(self, request):
        inputs = request["input"]
        module = types.ModuleType(MODULE)
        scope = module.__dict__
        modules_before = len(sys.modules)
        sys.modules[MODULE] = module
        folder = request.get("cwd") or self.scratch
        try:
            self.prepare(request, folder)
        except OSError as error:
            parts = (b'{"status":"no_folder","message":' + encode(str(error)),)
        else:
            fill_scope(scope, request, inputs)
            parts = build_reply(request, scope, inputs, self.largest)
        # A forked child that returns here would send a second reply.
        if _getpid() != self.watch.pid:
            _exit(0)
        return parts, self.clean_up(request["code"], scope, modules_before, folder)

    def prepare(self, request, folder):
        _chdir(self.scratch)
        _chdir(folder)
        self.streams.begin(request["input"])
        environment = request.get("env")
        if environment:
            os.environ.update(environment)
            if "TZ" in environment:
                time.tzset()
        cpu_seconds = request.get("cpu_seconds")
        if cpu_seconds:
            usage = getrusage(RUSAGE_SELF)
            used = int(usage.ru_utime + usage.ru_stime) + 1
            hard = getrlimit(resource.RLIMIT_CPU)[1]
            soft = used + cpu_seconds
            if hard != RLIM_INFINITY:
                soft = min(soft, hard)
            setrlimit(resource.RLIMIT_CPU, (soft, hard))

    def clean_up(self, source, scope, modules_before, folder):
        """Cleans up after a call. Returns the reason if the interpreter must be replaced."""
        try:
            self.streams.detach()
            sys.modules.pop(MODULE, None)
            # Streams of the code may close the driver's streams when they are deleted, so the
            # driver's are checked afterwards.
            scope.clear()
            if not self.streams.repair():
                self.watch.accept(vars(sys), STREAM_NAMES)
            if "seed" in source and "random" in sys.modules:
                # Reseeding takes longer than all other cleanup, so it is done only for code that
                # may have set a seed.
                sys.modules["random"].seed()
            dirty = self.watch.restore_state()
            if len(sys.modules) != modules_before:
                unload_local_modules(modules_before, folder)
            empty_directory(self.scratch)
            if self.memory.resident() > self.max_memory:
                return "memory"
            return dirty
        except BaseException as error:
            return str(type(error).__name__)


def lower_limit(name, limit):
    number = getattr(resource, name, None)
    if number is None:
        return
    hard = getrlimit(number)[1]
    if hard != RLIM_INFINITY and hard < limit:
        return
    try:
        setrlimit(number, (limit, limit))
    except (ValueError, OSError):
        pass


def serve():
    channel = Channel()
    runner = CallRunner(channel, channel.receive())
    channel.send(b'{"status":"ready"}')
    while True:
        request = channel.receive()
        channel.guard(True)
        parts, dirty = runner.call(request)
        channel.guard(False)
        reason = b"null" if dirty is None else quote(dirty).encode("ascii")
        channel.send(*parts, b',"dirty":', reason, b"}")
        # The next request has its own values. Until then nothing of this call is kept.
        request = parts = None


serve()
