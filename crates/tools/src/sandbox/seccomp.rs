//! Seccomp filter for system calls that tasks do not need.

use std::collections::BTreeMap;

#[cfg(target_arch = "x86_64")]
use seccompiler::sock_filter;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

/// System calls that are denied with any arguments. They inspect other processes, change mounts or
/// namespaces, load code into the kernel, access its keys or clock, or have a history of
/// vulnerabilities.
const DENIED_SYSCALLS: [i64; 52] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_fanotify_init,
    libc::SYS_nfsservctl,
];

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

pub(super) fn enable_seccomp() -> Result<(), String> {
    install_filters().map_err(|error| error.to_string())
}

fn install_filters() -> Result<(), seccompiler::Error> {
    #[cfg(target_arch = "x86_64")]
    apply_filter(&X32_FILTER)?;
    apply_filter(&deny_filter()?)?;
    // A filter cannot inspect the arguments of `clone3`. Its callers handle kernels without it and
    // fall back to `clone`, whose arguments can be inspected.
    let unsupported = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    apply_filter(&compile_filter(unsupported, libc::ENOSYS)?)
}

fn deny_filter() -> Result<BpfProgram, seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        DENIED_SYSCALLS.iter().map(|call| (*call, Vec::new())).collect();
    let new_user = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let is_new_user = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Qword,
        SeccompCmpOp::MaskedEq(new_user),
        new_user,
    )?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![is_new_user])?]);
    let request = |number: u64| {
        let matches = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, number)?;
        SeccompRule::new(vec![matches])
    };
    let requests: Result<Vec<_>, _> = DENIED_TERMINAL_REQUESTS.into_iter().map(request).collect();
    rules.insert(libc::SYS_ioctl, requests?);
    compile_filter(rules, libc::EPERM)
}

fn compile_filter(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    errno: i32,
) -> Result<BpfProgram, seccompiler::Error> {
    let target = TargetArch::try_from(std::env::consts::ARCH)?;
    let deny = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, deny, target)?;
    Ok(filter.try_into()?)
}
