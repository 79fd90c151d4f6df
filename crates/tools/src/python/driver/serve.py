"""Runs python steps, one call after another, in one warm interpreter.

The driver runs with a private copy of the builtins and keeps its own references to all it needs, so
that code which tears the house down cannot keep its own call from being answered.

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
    """The private way to the worker. It arrives as the standard input and is moved aside."""

    def __init__(self):
        # The command of fcntl picks the lowest free descriptor from 100 on, closed on exec.
        self.fd = _fcntl(0, fcntl.F_DUPFD_CLOEXEC, 100)
        nothing = os.open(os.devnull, os.O_RDONLY)
        _dup2(nothing, 0)
        os.close(nothing)
        self.flags = _fcntl(self.fd, fcntl.F_GETFL)
        # When the worker goes away in the middle of a call, the kernel kills the whole group.
        self.guarded = hasattr(fcntl, "F_SETSIG")
        if self.guarded:
            # A group that was led from outside of the pid namespace has no number here; then the end
            # of this process is the end of the namespace.
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
    """How much memory this process has.

    Linux lets a process inherit the peak of the one that started it, so the peak tells nothing there.
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


class House:
    """Everything around the calls."""

    def __init__(self, channel, hello):
        self.channel = channel
        self.scratch = hello["scratch"]
        self.largest = hello["payload_cap"]
        self.max_memory = hello["max_memory"]
        for name, limit in hello["limits"].items():
            lower_limit(name, limit)
        self.memory = Memory()
        self.streams = Streams()
        self.watch = Watch()

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
            fill(scope, request, inputs)
            parts = answer(request, scope, inputs, self.largest)
        # A forked child that came back here would answer twice.
        if _getpid() != self.watch.pid:
            _exit(0)
        return parts, self.leave(request["code"], scope, modules_before, folder)

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

    def leave(self, source, scope, modules_before, folder):
        """Puts the house in order; tells why it cannot be, if so."""
        try:
            self.streams.detach()
            sys.modules.pop(MODULE, None)
            # Streams of the code may close ours when they go, so ours are looked at afterwards.
            scope.clear()
            if not self.streams.mend():
                self.watch.accept(vars(sys), STREAM_NAMES)
            if "seed" in source and "random" in sys.modules:
                # A fresh seed takes longer than all else here, so it is for those who fixed one.
                sys.modules["random"].seed()
            dirty = self.watch.put_back()
            if len(sys.modules) != modules_before:
                forget_local_modules(modules_before, folder)
            empty(self.scratch)
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
    house = House(channel, channel.receive())
    channel.send(b'{"status":"ready"}')
    while True:
        request = channel.receive()
        channel.guard(True)
        parts, dirty = house.call(request)
        channel.guard(False)
        reason = b"null" if dirty is None else quote(dirty).encode("ascii")
        channel.send(*parts, b',"dirty":', reason, b"}")
        # The next request brings its own values; until then nothing of this call stays.
        request = parts = None


serve()
