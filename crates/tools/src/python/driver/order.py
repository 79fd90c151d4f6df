"""Cleanup between calls: streams, shared state and the private directory.

Changes of a call are undone. A change that cannot be undone is reported, and the worker replaces
the interpreter.
"""

import _signal
import _thread
import builtins
import fcntl
import gc
import io
import json
import os
import signal
import sys
import time
import warnings

STREAM_NAMES = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")
WATCHED_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGALRM,
    signal.SIGCHLD,
    signal.SIGHUP,
    signal.SIGPIPE,
    signal.SIGIO,
)

_dup2, _umask, _getpid, _waitpid = os.dup2, os.umask, os.getpid, os.waitpid
_listdir, _scandir, _unlink, _rmdir = os.listdir, os.scandir, os.unlink, os.rmdir
_fcntl, _realpath, _sep = fcntl.fcntl, os.path.realpath, os.sep
# The functions of `signal` itself wrap each number in an enum, which costs more than the call.
_getsignal, _alarm = _signal.getsignal, _signal.alarm


class Input(io.RawIOBase):
    """The standard input of a call: its inputs as JSON, encoded only when it is read."""

    def __init__(self):
        self.value = None
        self.bytes = None

    def readable(self):
        return True

    def readinto(self, buffer):
        if self.bytes is None:
            self.bytes = io.BytesIO(encode(self.value))
        return self.bytes.readinto(buffer)


def open_output(fd):
    raw = io.FileIO(fd, "w", closefd=False)
    # The standard error is line-buffered, as usual.
    return io.TextIOWrapper(
        io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=fd == 2
    )


class Streams:
    """The standard streams, restored after code that closed, replaced or redirected them."""

    def __init__(self):
        self.saved = [(fd, _fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)) for fd in (1, 2)]
        self.stdout, self.stderr = open_output(1), open_output(2)
        self.open_input()
        self.restore()

    def open_input(self):
        self.input = Input()
        self.stdin = io.TextIOWrapper(io.BufferedReader(self.input), "utf-8")

    def restore(self):
        sys.stdin, sys.stdout, sys.stderr = self.stdin, self.stdout, self.stderr
        sys.__stdin__, sys.__stdout__, sys.__stderr__ = self.stdin, self.stdout, self.stderr

    def begin(self, inputs):
        self.input.value = inputs

    def detach(self):
        """Flushes the streams that the code installed, and restores the own ones."""
        for name in ("stdout", "stderr"):
            try:
                stream = getattr(sys, name)
                if stream is not getattr(self, name):
                    stream.flush()
            except BaseException:
                pass
        self.restore()

    def repair(self):
        """Flushes, and replaces closed streams. Returns True if none had to be replaced."""
        same = True
        for fd, saved in self.saved:
            name = "stdout" if fd == 1 else "stderr"
            _dup2(saved, fd)
            try:
                getattr(self, name).flush()
            except BaseException:
                same = False
                setattr(self, name, open_output(fd))
        self.input.value = None
        if self.input.bytes is not None or self.stdin.closed:
            # It has been read from: the next call needs one that is at its beginning.
            same = False
            self.open_input()
        if not same:
            self.restore()
        return same


class StateWatch:
    """Detects changes to the state that all calls share."""

    def __init__(self):
        modules = (builtins, sys, os, os.path, io, json, json.encoder, json.decoder)
        self.modules = {module.__name__: module for module in modules}
        self.modules["os.path"] = os.path
        classes = (json.JSONEncoder, json.JSONDecoder)
        self.tables = [vars(module) for module in modules] + [vars(c) for c in classes]
        self.signals = [_getsignal(number) for number in WATCHED_SIGNALS]
        self.path = list(sys.path)
        self.argv = list(sys.argv)
        self.filters = list(warnings.filters)
        self.environ = dict(os.environ._data)
        self.recursion = sys.getrecursionlimit()
        self.umask = _umask(0o077)
        _umask(self.umask)
        self.pid = _getpid()
        self.record_values()

    def record_values(self):
        self.values = [list(table.values()) for table in self.tables]

    def accept(self, table, names):
        """Accepts the current values of some names as the expected ones."""
        values = self.values[[seen is table for seen in self.tables].index(True)]
        for index, name in enumerate(table):
            if name in names and index < len(values):
                values[index] = table[name]

    def restore_state(self):
        """Undoes the changes that can be undone, and returns the name of one that cannot."""
        _umask(self.umask)
        _alarm(0)
        if sys.path != self.path:
            sys.path[:] = self.path
        if sys.argv != self.argv:
            sys.argv[:] = self.argv
        if warnings.filters != self.filters:
            warnings.filters[:] = self.filters
            warnings._filters_mutated()
        if os.environ._data != self.environ:
            self.restore_environ()
        if sys.getrecursionlimit() != self.recursion:
            sys.setrecursionlimit(self.recursion)
        if sys.gettrace() is not None:
            sys.settrace(None)
        if sys.getprofile() is not None:
            sys.setprofile(None)
        if not gc.isenabled():
            gc.enable()
        modules = sys.modules
        self.reset_libraries(modules)
        for name, module in self.modules.items():
            if modules.get(name) is not module:
                return "modules"
        for table, values in zip(self.tables, self.values):
            # Lists of identical objects are equal without comparing the objects.
            if list(table.values()) != values:
                return "patched"
        if [_getsignal(number) for number in WATCHED_SIGNALS] != self.signals:
            return "signals"
        if _thread._count() > 0:
            return "threads"
        return self.children()

    def restore_environ(self):
        os.environ.clear()
        for name, value in self.environ.items():
            os.environb[name] = value
        time.tzset()

    def reset_libraries(self, modules):
        logging = modules.get("logging")
        if logging is not None and (logging.root.handlers or logging.root.level != 30):
            logging.root.handlers[:] = []
            logging.root.setLevel(30)
        asyncio = modules.get("asyncio")
        if asyncio is not None and sys.version_info < (3, 14):
            # Otherwise the next call would get a closed loop, or none.
            asyncio.set_event_loop_policy(None)

    def children(self):
        try:
            while _waitpid(-1, os.WNOHANG)[0]:
                pass
            return "children"
        except ChildProcessError:
            return None


def empty_directory(folder):
    """Empties the private directory."""
    if not _listdir(folder):
        return
    with _scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    empty_directory(entry.path)
                    _rmdir(entry.path)
                else:
                    _unlink(entry.path)
            except OSError:
                pass


def unload_local_modules(before, folder):
    """Unloads modules of the call's own directory: the next call may have others of that name."""
    root = _realpath(folder)
    for name, module in list(sys.modules.items())[before:]:
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and _realpath(path).startswith(root + _sep):
            del sys.modules[name]
    sys.path_importer_cache.pop(root, None)
