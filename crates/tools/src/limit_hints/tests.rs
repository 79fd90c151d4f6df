use noetl_types::{ByteSize, Json, TaskErrorKind};

use super::*;

fn limit_hint(settings: &Settings, message: &str, code: i64) -> String {
    let error = TaskError {
        code: Some(Json::from(code)),
        ..TaskError::new(TaskErrorKind::Transform, message)
    };
    let outcome = settings.add_limit_hint(error.into());
    outcome.error.unwrap().message.to_string()
}

#[test]
fn limit_is_recognized_by_error_message() {
    let mut settings = Settings::default();
    settings.process_limits.memory = Some(ByteSize::from_gib(4));
    let hint = |message: &str, code: i64| limit_hint(&settings, message, code);
    for (message, code, limit) in [
        ("MemoryError (line 3)", 1, "NOETL_TASK_MEMORY"),
        ("fork: Cannot allocate memory", 2, "4GiB of memory"),
        ("the command ended with exit code 153", 153, "NOETL_TASK_FILE_SIZE"),
        ("OSError: [Errno 27] File too large", 1, "may be up to 4GiB (NOETL_TASK_FILE_SIZE)"),
        ("sh: 1: Cannot fork", 2, "16384 processes"),
    ] {
        let hinted = hint(message, code);
        assert!(hinted.starts_with(message) && hinted.contains(limit), "{hinted}");
    }
    assert_eq!(hint("exit code 3: no such file", 3), "exit code 3: no such file");
    let read_only = "touch: cannot touch '/srv/x': Read-only file system";
    assert_eq!(hint(read_only, 1), read_only);
    settings.sandbox.mode = SandboxMode::BestEffort;
    assert!(limit_hint(&settings, read_only, 1).contains("NOETL_SANDBOX_WRITABLE"));
}

#[test]
fn lower_task_limit_is_reported() {
    let mut settings = Settings::default();
    let hint_for = |settings: &Settings| limit_hint(settings, "sh: 1: Cannot fork", 2);
    assert!(!hint_for(&settings).contains("1024"));
    settings.sandbox.mode = SandboxMode::BestEffort;
    settings.sandbox.launcher = Some("noetl".into());
    let sandboxed = hint_for(&settings);
    let first = sandboxed.find("1024").unwrap();
    assert!(first < sandboxed.find("16384").unwrap(), "{sandboxed}");
    settings.process_limits.processes = Some(900);
    let lower = hint_for(&settings);
    assert!(lower.contains("900 processes") && !lower.contains("1024"));
}
