//! Seccomp filters: the system calls that tasks can use.

use std::collections::BTreeMap;

#[cfg(target_arch = "x86_64")]
use seccompiler::sock_filter;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

/// Array of system call numbers.
macro_rules! syscalls {
    ($($name:ident)*) => {
        [$(libc::$name),*]
    };
}

/// System calls that are denied, and not only reported as unknown. They inspect other processes, change mounts or
/// namespaces, load code into the kernel, access its keys or clock, or have a history of
/// vulnerabilities.
const DENIED_SYSCALLS: [i64; 52] = syscalls! {
    SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_pidfd_getfd SYS_kcmp SYS_mount
    SYS_umount2 SYS_pivot_root SYS_chroot SYS_open_tree SYS_move_mount SYS_mount_setattr
    SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick SYS_unshare SYS_setns
    SYS_open_by_handle_at SYS_kexec_load SYS_kexec_file_load SYS_init_module
    SYS_finit_module SYS_delete_module SYS_bpf SYS_perf_event_open SYS_userfaultfd
    SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register SYS_keyctl SYS_add_key
    SYS_request_key SYS_reboot SYS_swapon SYS_swapoff SYS_acct SYS_quotactl SYS_quotactl_fd
    SYS_syslog SYS_settimeofday SYS_clock_settime SYS_clock_adjtime SYS_adjtimex
    SYS_sethostname SYS_setdomainname SYS_vhangup SYS_lookup_dcookie SYS_move_pages
    SYS_migrate_pages SYS_fanotify_init SYS_nfsservctl
};

/// System calls that programs need, on all architectures. All others fail as if the kernel did not
/// have them.
const ALLOWED_SYSCALLS: [i64; 240] = syscalls! {
    SYS_accept SYS_accept4 SYS_bind SYS_brk SYS_capget SYS_capset SYS_chdir SYS_clock_getres
    SYS_clock_gettime SYS_clock_nanosleep SYS_close SYS_close_range SYS_connect
    SYS_copy_file_range SYS_dup SYS_dup3 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait
    SYS_epoll_pwait2 SYS_eventfd2 SYS_execve SYS_execveat SYS_exit SYS_exit_group
    SYS_faccessat SYS_faccessat2 SYS_fadvise64 SYS_fallocate SYS_fchdir SYS_fchmod
    SYS_fchmodat SYS_fchown SYS_fchownat SYS_fcntl SYS_fdatasync SYS_fgetxattr
    SYS_flistxattr SYS_flock SYS_fremovexattr SYS_fsetxattr SYS_fstat SYS_fstatfs SYS_fsync
    SYS_ftruncate SYS_futex SYS_futex_waitv SYS_get_mempolicy SYS_get_robust_list SYS_getcpu
    SYS_getcwd SYS_getdents64 SYS_getegid SYS_geteuid SYS_getgid SYS_getgroups SYS_getitimer
    SYS_getpeername SYS_getpgid SYS_getpid SYS_getppid SYS_getpriority SYS_getrandom
    SYS_getresgid SYS_getresuid SYS_getrlimit SYS_getrusage SYS_getsid SYS_getsockname
    SYS_getsockopt SYS_gettid SYS_gettimeofday SYS_getuid SYS_getxattr SYS_inotify_add_watch
    SYS_inotify_init1 SYS_inotify_rm_watch SYS_ioprio_get SYS_ioprio_set SYS_kill
    SYS_landlock_add_rule SYS_landlock_create_ruleset SYS_landlock_restrict_self
    SYS_lgetxattr SYS_linkat SYS_listen SYS_listxattr SYS_llistxattr SYS_lremovexattr
    SYS_lseek SYS_lsetxattr SYS_madvise SYS_mbind SYS_membarrier SYS_memfd_create
    SYS_mincore SYS_mkdirat SYS_mknodat SYS_mlock SYS_mlock2 SYS_mlockall SYS_mmap
    SYS_mprotect SYS_mq_getsetattr SYS_mq_notify SYS_mq_open SYS_mq_timedreceive
    SYS_mq_timedsend SYS_mq_unlink SYS_mremap SYS_msgctl SYS_msgget SYS_msgrcv SYS_msgsnd
    SYS_msync SYS_munlock SYS_munlockall SYS_munmap SYS_name_to_handle_at SYS_nanosleep
    SYS_newfstatat SYS_openat SYS_openat2 SYS_pidfd_open SYS_pidfd_send_signal SYS_pipe2
    SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect SYS_ppoll SYS_prctl SYS_pread64
    SYS_preadv SYS_preadv2 SYS_prlimit64 SYS_process_madvise SYS_process_mrelease
    SYS_pselect6 SYS_pwrite64 SYS_pwritev SYS_pwritev2 SYS_read SYS_readahead SYS_readlinkat
    SYS_readv SYS_recvfrom SYS_recvmmsg SYS_recvmsg SYS_remap_file_pages SYS_removexattr
    SYS_renameat SYS_renameat2 SYS_restart_syscall SYS_rseq SYS_rt_sigaction
    SYS_rt_sigpending SYS_rt_sigprocmask SYS_rt_sigqueueinfo SYS_rt_sigreturn
    SYS_rt_sigsuspend SYS_rt_sigtimedwait SYS_rt_tgsigqueueinfo SYS_sched_get_priority_max
    SYS_sched_get_priority_min SYS_sched_getaffinity SYS_sched_getattr SYS_sched_getparam
    SYS_sched_getscheduler SYS_sched_rr_get_interval SYS_sched_setaffinity SYS_sched_setattr
    SYS_sched_setparam SYS_sched_setscheduler SYS_sched_yield SYS_seccomp SYS_semctl
    SYS_semget SYS_semop SYS_semtimedop SYS_sendfile SYS_sendmmsg SYS_sendmsg SYS_sendto
    SYS_set_mempolicy SYS_set_robust_list SYS_set_tid_address SYS_setfsgid SYS_setfsuid
    SYS_setgid SYS_setgroups SYS_setitimer SYS_setpgid SYS_setpriority SYS_setregid
    SYS_setresgid SYS_setresuid SYS_setreuid SYS_setrlimit SYS_setsid SYS_setsockopt
    SYS_setuid SYS_setxattr SYS_shmat SYS_shmctl SYS_shmdt SYS_shmget SYS_shutdown
    SYS_sigaltstack SYS_signalfd4 SYS_socketpair SYS_splice SYS_statfs SYS_statx
    SYS_symlinkat SYS_sync SYS_sync_file_range SYS_syncfs SYS_sysinfo SYS_tee SYS_tgkill
    SYS_timer_create SYS_timer_delete SYS_timer_getoverrun SYS_timer_gettime
    SYS_timer_settime SYS_timerfd_create SYS_timerfd_gettime SYS_timerfd_settime SYS_times
    SYS_tkill SYS_truncate SYS_umask SYS_uname SYS_unlinkat SYS_utimensat SYS_vmsplice
    SYS_wait4 SYS_waitid SYS_write SYS_writev
};

/// Older forms of system calls, which only this architecture has.
#[cfg(target_arch = "x86_64")]
const ALLOWED_SYSCALLS_OF_ARCHITECTURE: [i64; 37] = syscalls! {
    SYS_access SYS_alarm SYS_arch_prctl SYS_chmod SYS_chown SYS_creat SYS_dup2
    SYS_epoll_create SYS_epoll_wait SYS_eventfd SYS_fork SYS_futimesat SYS_getdents
    SYS_getpgrp SYS_inotify_init SYS_lchown SYS_link SYS_lstat SYS_mkdir SYS_mknod
    SYS_modify_ldt SYS_open SYS_pause SYS_pipe SYS_poll SYS_readlink SYS_rename SYS_rmdir
    SYS_select SYS_signalfd SYS_stat SYS_symlink SYS_time SYS_unlink SYS_utime SYS_utimes
    SYS_vfork
};

/// Terminal requests that inject input as if it had been typed.
const DENIED_TERMINAL_REQUESTS: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// Bit that marks system call numbers of the x32 ABI on x86-64. Each call has a second number
/// there, so a filter that checks only the first number lets it through. Common programs do not use
/// x32.
#[cfg(target_arch = "x86_64")]
const X32_SYSCALL_BIT: u32 = 0x4000_0000;

/// Denies every x32 call: loads the number and tests the bit.
#[cfg(target_arch = "x86_64")]
const X32_FILTER: [sock_filter; 4] = [
    bpf_statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
    bpf_statement(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, X32_SYSCALL_BIT, 1),
    bpf_statement(
        libc::BPF_RET | libc::BPF_K,
        libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs(),
        0,
    ),
    bpf_statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
];

/// BPF statement that skips the given number of statements if its test fails.
#[cfg(target_arch = "x86_64")]
#[expect(clippy::cast_possible_truncation, reason = "the kernel's codes have 16 bits")]
const fn bpf_statement(code: u32, value: u32, skip_if_false: u8) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: skip_if_false, k: value }
}

/// Namespaces that a process can create with `clone`.
const NEW_NAMESPACE_FLAGS: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Address families of sockets that tasks can create with network access.
const SOCKET_FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Execution domains that tasks can select: Linux with 64 or 32 bits, and with the version numbers of
/// Linux 2.6. The last value queries the current one.
const PERSONALITIES: [u64; 4] = [0, 0x8, 0x0002_0000, 0xffff_ffff];

/// Enables the filters for this process and all its children.
pub(super) fn enable_seccomp(is_offline: bool) -> Result<(), String> {
    let programs = build_filters(is_offline)?;
    programs.iter().try_for_each(|program| apply_filter(program).map_err(|error| error.to_string()))
}

/// Builds the filters in the order in which they must be applied. The error of a later one takes
/// precedence.
pub(super) fn build_filters(is_offline: bool) -> Result<Vec<BpfProgram>, String> {
    let build = || {
        // Programs handle calls that the kernel does not know, and fall back to others. A filter
        // cannot inspect the arguments of `clone3`, which is therefore such a call too.
        let allowed = compile_filter(
            allow_rules(is_offline)?,
            SeccompAction::Allow,
            SeccompAction::Errno(libc::ENOSYS.unsigned_abs()),
        )?;
        let denied = compile_filter(
            deny_rules()?,
            SeccompAction::Errno(libc::EPERM.unsigned_abs()),
            SeccompAction::Allow,
        )?;
        Ok::<_, seccompiler::Error>(vec![allowed, denied])
    };
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "one architecture adds"))]
    let mut filters = build().map_err(|error| error.to_string())?;
    #[cfg(target_arch = "x86_64")]
    filters.push(X32_FILTER.to_vec());
    Ok(filters)
}

/// Returns the filters as the bytes that the kernel reads.
pub(super) fn encode_filters(is_offline: bool) -> Result<Vec<Vec<u8>>, String> {
    let encode = |program: &BpfProgram| {
        let statements = program.iter().flat_map(|statement| {
            let [code_low, code_high] = statement.code.to_ne_bytes();
            let [v0, v1, v2, v3] = statement.k.to_ne_bytes();
            [code_low, code_high, statement.jt, statement.jf, v0, v1, v2, v3]
        });
        statements.collect()
    };
    Ok(build_filters(is_offline)?.iter().map(encode).collect())
}

fn allow_rules(is_offline: bool) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED_SYSCALLS.iter().map(|call| (*call, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    rules.extend(ALLOWED_SYSCALLS_OF_ARCHITECTURE.iter().map(|call| (*call, Vec::new())));
    let flags = u64::from(NEW_NAMESPACE_FLAGS.unsigned_abs());
    let no_namespace = condition(0, SeccompCmpOp::MaskedEq(flags), 0)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![no_namespace])?]);
    // Without network access, sockets would lead to other services of the machine, through files
    // that a task can see.
    let families = SOCKET_FAMILIES.iter().filter(|family| !is_offline || **family != libc::AF_UNIX);
    let families = families.map(|family| {
        let family = u64::from(family.unsigned_abs());
        SeccompRule::new(vec![condition(0, SeccompCmpOp::Eq, family)?])
    });
    rules.insert(libc::SYS_socket, families.collect::<Result<_, _>>()?);
    let personalities = PERSONALITIES
        .iter()
        .map(|personality| SeccompRule::new(vec![condition(0, SeccompCmpOp::Eq, *personality)?]));
    rules.insert(libc::SYS_personality, personalities.collect::<Result<_, _>>()?);
    let mut conditions = Vec::new();
    for request in DENIED_TERMINAL_REQUESTS {
        conditions.push(condition(1, SeccompCmpOp::Ne, request)?);
    }
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(conditions)?]);
    Ok(rules)
}

/// The kernel reads only the lower half of these arguments.
fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

fn deny_rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        DENIED_SYSCALLS.iter().map(|call| (*call, Vec::new())).collect();
    let new_user = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let is_new_user = condition(0, SeccompCmpOp::MaskedEq(new_user), new_user)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![is_new_user])?]);
    let requests = DENIED_TERMINAL_REQUESTS
        .map(|request| SeccompRule::new(vec![condition(1, SeccompCmpOp::Eq, request)?]));
    rules.insert(libc::SYS_ioctl, requests.into_iter().collect::<Result<_, _>>()?);
    Ok(rules)
}

fn compile_filter(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    matched: SeccompAction,
    otherwise: SeccompAction,
) -> Result<BpfProgram, seccompiler::Error> {
    let target = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(rules, otherwise, matched, target)?;
    Ok(filter.try_into()?)
}
