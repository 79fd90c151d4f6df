//! Checks arbitrary bytes as a playbook: no panic, no hang, and accepted documents round-trip.
//!
//! Run with `cargo fuzz run check` (needs cargo-fuzz and a nightly toolchain). The regular tests also
//! run its corpus.
#![no_main]

use libfuzzer_sys::fuzz_target;
use noetl_playbook::{CheckOptions, check, to_yaml};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let checked = check(text, &CheckOptions::default());
    let Some(document) = checked.document else { return };
    let Some(printed) = to_yaml(&document) else { return };
    let reparsed = check(&printed, &CheckOptions::default());
    assert_eq!(reparsed.document, Some(document), "{printed}");
});
