//! System calls that tasks have no business with.

use std::collections::BTreeMap;

#[cfg(target_arch = "x86_64")]
use seccompiler::sock_filter;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

/// Refused whatever their arguments are: they look into other processes, change what is mounted or
/// who sees what, load code into the kernel, reach its keys or its clock, or are known above all
/// for the holes they opened.
const REFUSED: [i64; 52] = [
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

/// Puts words into a terminal as if they had been typed there.
const TERMINAL_REQUESTS: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// Processors of this kind know each call by a second number, which has this bit: whoever only looks
/// for the first one lets the call through by the other. No usual program has a use for them.
#[cfg(target_arch = "x86_64")]
const OTHER_TABLE_BIT: u32 = 0x4000_0000;

/// Refuses every call of that second table: reads the number, and looks for the bit.
#[cfg(target_arch = "x86_64")]
const OTHER_TABLE: [sock_filter; 4] = [
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
    statement(
        libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K,
        OTHER_TABLE_BIT,
        1,
    ),
    statement(
        libc::BPF_RET | libc::BPF_K,
        libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs(),
        0,
    ),
    statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
];

/// A statement of a filter, which skips some others where what it looks for is not so.
#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the kernel's codes have 16 bits"
)]
const fn statement(code: u32, value: u32, skips_unless: u8) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: skips_unless,
        k: value,
    }
}

/// Raises the wall around system calls.
pub(super) fn raise() -> Result<(), String> {
    install().map_err(|error| error.to_string())
}

fn install() -> Result<(), seccompiler::Error> {
    #[cfg(target_arch = "x86_64")]
    apply_filter(&OTHER_TABLE)?;
    apply_filter(&refusing()?)?;
    // The arguments of this one cannot be looked at. Everybody who uses it knows a kernel that does
    // not have it, and makes do with `clone`, whose arguments can.
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    apply_filter(&program(unknown, libc::ENOSYS)?)
}

fn refusing() -> Result<BpfProgram, seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let new_user = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let is_new_user = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Qword,
        SeccompCmpOp::MaskedEq(new_user),
        new_user,
    )?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![is_new_user])?]);
    let request = |number: u64| {
        let is_it = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, number)?;
        SeccompRule::new(vec![is_it])
    };
    let requests: Result<Vec<_>, _> = TERMINAL_REQUESTS.into_iter().map(request).collect();
    rules.insert(libc::SYS_ioctl, requests?);
    program(rules, libc::EPERM)
}

fn program(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    errno: i32,
) -> Result<BpfProgram, seccompiler::Error> {
    let target = TargetArch::try_from(std::env::consts::ARCH)?;
    let refused = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, target)?;
    Ok(filter.try_into()?)
}
