use std::os::unix::process::ExitStatusExt as _;

use super::*;

#[test]
fn classifies_engine_errors() {
    for (line, kind) in [
        (
            "docker: Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?",
            TaskErrorKind::Connection,
        ),
        ("docker: Error response from daemon: manifest unknown", TaskErrorKind::NotFound),
        ("Error: unauthorized: authentication required", TaskErrorKind::Auth),
        ("docker: invalid reference format", TaskErrorKind::Transform),
    ] {
        let error = engine_error(ExitStatus::from_raw(125 << 8), Some(line));
        assert_eq!(error.kind, kind, "{line}");
        assert_eq!(error.retryable, kind.is_retryable());
        assert_eq!(error.code, Some(Json::from(125)));
    }
}
