//! Any bytes, as a playbook: no panic, no hang, and what is accepted prints and reads back the same.
//!
//! Run with `cargo fuzz run check` (needs cargo-fuzz and a nightly toolchain). The corpus beside it is
//! also run by the ordinary tests.
#![no_main]

use libfuzzer_sys::fuzz_target;
use noetl_playbook::{CheckOptions, check, to_yaml};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let checked = check(text, &CheckOptions::default());
    let Some(document) = checked.document else { return };
    let Some(printed) = to_yaml(&document) else { return };
    let again = check(&printed, &CheckOptions::default());
    assert_eq!(again.document, Some(document), "{printed}");
});
