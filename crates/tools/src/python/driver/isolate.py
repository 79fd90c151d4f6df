"""The namespaces of a call, which its process enters before it receives anything of the call."""

import os
import resource

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC = 1, 2, 4, 8, 4096, 16384
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 4, 22, 38
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522
BYTES_PER_FILTER_STATEMENT = 8
SYS_LANDLOCK_CREATE_RULESET, SYS_LANDLOCK_RESTRICT_SELF = 444, 446
LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, LANDLOCK_SCOPE_SIGNAL = 1, 2


class Isolation:
    """Starts processes in namespaces of their own.

    The zygote has `CAP_SYS_ADMIN` in the user namespace of its sandbox, and no filter of system
    calls. The process of a call gives up both.
    """

    def __init__(self, order, scratch):
        # Interpreters without `ctypes` run one call each instead.
        import ctypes

        self.ctypes = ctypes
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.order = order
        self.scratch = scratch
        self.user, self.group = os.getuid(), os.getgid()
        self.prctl(PR_SET_DUMPABLE, 0)
        self.pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY)
        self.filters = [self.load_filter(bytes.fromhex(code)) for code in order["filters"]]

    def check(self, result, what):
        if result < 0:
            number = self.ctypes.get_errno()
            raise OSError(number, "%s: %s" % (what, os.strerror(number)))

    def prctl(self, option, value, pointer=None):
        unsigned = self.ctypes.c_ulong
        self.check(self.libc.prctl(option, unsigned(value), pointer, None, None), "prctl")

    def mount(self, source, target, kind, flags, options=None):
        texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
        options = None if options is None else options.encode()
        flags = self.ctypes.c_ulong(flags)
        self.check(self.libc.mount(*texts, flags, options), "mount %s" % target)

    def load_filter(self, code):
        ctypes = self.ctypes

        class Program(ctypes.Structure):
            _fields_ = [("length", ctypes.c_ushort), ("statements", ctypes.c_char_p)]

        return Program(len(code) // BYTES_PER_FILTER_STATEMENT, code)

    def fork(self):
        """Forks a process that is the first of a new pid namespace."""
        self.check(self.libc.unshare(CLONE_NEWPID), "unshare")
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid != 0:
                self.check(self.libc.setns(self.pid_namespace, CLONE_NEWPID), "setns")
        return pid

    def enter(self, folder):
        """Moves this process into the other namespaces, and drops its privileges."""
        self.check(self.libc.unshare(CLONE_NEWNS | CLONE_NEWIPC), "unshare")
        # The maps of the user namespace are written through the old /proc, which is writable.
        process = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY)
        binds = [(folder, self.scratch)] + [(path, path) for path in self.order["kept"]]
        binds = [(os.open(source, os.O_PATH), target) for source, target in binds]
        flags = MS_NOSUID | MS_NODEV
        for target in self.order["temporary"]:
            self.mount("tmpfs", target, "tmpfs", flags, self.order["temporary_options"])
        for source, target in binds:
            os.makedirs(target, exist_ok=True)
            self.mount("/proc/self/fd/%d" % source, target, None, MS_BIND | MS_REC)
            os.close(source)
        flags |= MS_NOEXEC | MS_RDONLY
        self.mount("proc", "/proc", "proc", flags, self.order["proc_options"])
        self.check(self.libc.unshare(CLONE_NEWUSER), "unshare")
        # The maps belong to this process only while it is dumpable.
        self.prctl(PR_SET_DUMPABLE, 1)
        self.write_map(process, "setgroups", "deny")
        self.write_map(process, "uid_map", "%d %d 1" % (self.user, self.user))
        self.write_map(process, "gid_map", "%d %d 1" % (self.group, self.group))
        os.close(process)
        os.close(self.pid_namespace)
        lower_limit("RLIMIT_NPROC", self.order["processes"])
        self.drop_privileges()

    def write_map(self, process, name, text):
        fd = os.open(name, os.O_WRONLY, dir_fd=process)
        os.write(fd, text.encode())
        os.close(fd)

    def drop_privileges(self):
        ctypes = self.ctypes
        header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
        self.check(self.libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")
        self.prctl(PR_SET_NO_NEW_PRIVS, 1)
        self.enable_landlock()
        for program in self.filters:
            self.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))

    def enable_landlock(self):
        """Closes abstract Unix sockets, unless the kernel cannot."""
        ctypes = self.ctypes
        # Neither access to files nor to the network is handled.
        scopes = LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL
        rules = (ctypes.c_uint64 * 3)(0, 0, scopes)
        size, none = ctypes.c_size_t(ctypes.sizeof(rules)), ctypes.c_ulong(0)
        syscall = self.libc.syscall
        rules = syscall(SYS_LANDLOCK_CREATE_RULESET, ctypes.byref(rules), size, none)
        if rules >= 0:
            result = syscall(SYS_LANDLOCK_RESTRICT_SELF, rules, none)
            os.close(rules)
            self.check(result, "landlock_restrict_self")


def lower_limit(name, limit):
    number = getattr(resource, name, None)
    if number is None:
        return
    hard = resource.getrlimit(number)[1]
    if hard != resource.RLIM_INFINITY and hard < limit:
        return
    try:
        resource.setrlimit(number, (limit, limit))
    except (ValueError, OSError):
        pass
