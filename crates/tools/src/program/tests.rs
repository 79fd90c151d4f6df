use std::os::unix::process::ExitStatusExt as _;

use super::*;

/// The end of the worker closes its end of the lifeline.
#[tokio::test]
async fn program_ends_with_its_worker() {
    let program = Program {
        argv: ["sh", "-c", "sleep 1000; true"].map(str::to_owned).into(),
        environment: &[("PATH".into(), "/usr/bin:/bin".into())],
        working_dir: Path::new("/"),
        private_dir: None,
        output_mode: OutputMode::Discarded,
        timeout: Duration::from_mins(1),
    };
    let (mut leader, lifeline) = program.spawn(&Settings::default()).unwrap();
    drop(lifeline);
    assert_eq!(leader.wait().await.unwrap().signal(), Some(9));
}

#[test]
fn truncated_line_is_not_last_line() {
    let last_line = |text: &str, cap: u64| {
        let mut captured = CappedBuffer::default();
        captured.append(text.as_bytes(), ByteSize::from_bytes(cap));
        captured.last_line()
    };
    let text = "one\ntwo\n\nsesame-opens-42\n";
    assert_eq!(last_line(text, 100).as_deref(), Some("sesame-opens-42"));
    assert_eq!(last_line(text, 16).as_deref(), Some("two"));
    assert_eq!(last_line(text, 2), None);
}
