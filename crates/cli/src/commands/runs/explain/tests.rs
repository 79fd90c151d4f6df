use std::io::empty;

use noetl_api::explain::WaitConditionKind;

use super::*;
use crate::io::{Env, OutputStream};
use crate::output::{OutputArgs, OutputFormat, TimeStyle};
use crate::render::text_layout::display_width;

fn sample_wait(step: &str, kind: WaitConditionKind, holder: &str, detail: &str) -> WaitCondition {
    WaitCondition {
        kind,
        step: Some(step.into()),
        detail: detail.into(),
        since: None,
        until: None,
        holders: vec![holder.into()],
        count: 1,
    }
}

/// The default columns include the reason of each wait.
#[test]
fn every_wait_shows_its_reason() {
    let waits = [
        sample_wait("train", WaitConditionKind::Pool, "gpu", "no worker of pool gpu is alive"),
        sample_wait(
            "ship",
            WaitConditionKind::Approval,
            "ops",
            "somebody has to approve the release",
        ),
        sample_wait(
            "pay",
            WaitConditionKind::Signal,
            "paid",
            "the signal 'paid' of order-7 has not come",
        ),
    ];
    let output =
        OutputArgs { format: OutputFormat::Table, no_headers: false, time: Some(TimeStyle::Iso) };
    let (mut input, mut out, mut err) = (empty(), Vec::new(), Vec::new());
    let io = Io {
        input: &mut input,
        out: OutputStream::plain(&mut out),
        err: OutputStream::terminal(&mut err, 60),
        env: Env::default(),
        quiet: false,
    };
    let table = wait_table(&waits, &output.time_formatter(&io));
    insta::assert_snapshot!(table.render_table(false, true, &io.out), @r"
    STEP   N  WAITS FOR  SINCE  UNTIL  HELD BY  DETAIL
    train  1  pool       -      -      gpu      no worker of pool gpu is alive
    ship   1  approval   -      -      ops      somebody has to approve the release
    pay    1  signal     -      -      paid     the signal 'paid' of order-7 has not come
    ");
    let narrow = table.render_table(false, true, &io.err);
    let narrow = anstream::adapter::strip_str(&narrow).to_string();
    assert!(narrow.lines().all(|line| display_width(line) <= 60), "{narrow}");
    for reason in ["no worker of", "somebody has", "the signal"] {
        assert!(narrow.contains(reason), "{narrow}");
    }
}
