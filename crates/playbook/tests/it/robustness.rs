//! The checker never panics or hangs and uses less than 64 MiB for any input.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use noetl_playbook::{CheckOptions, check, to_yaml};
use proptest::prelude::*;

const MAX_CHECK_BYTES: u64 = 64 * 1024 * 1024;

/// Checks a text and prints the resulting document within the memory limit.
fn check_within_memory(text: &str) {
    let allocations = allocation_counter::measure(|| {
        let checked = check(text, &CheckOptions { portable: true, ..CheckOptions::default() });
        for diagnostic in &checked.diagnostics {
            assert!(diagnostic.line >= 1 && diagnostic.column >= 1, "{diagnostic:?}");
        }
        if let Some(document) = &checked.document
            && let Some(printed) = to_yaml(document)
        {
            let reparsed = check(&printed, &CheckOptions::default()).document;
            assert!(reparsed.as_ref() == Some(document), "parses to a different model:\n{printed}");
        }
    });
    assert!(
        allocations.bytes_max < MAX_CHECK_BYTES,
        "{} bytes for {} of text",
        allocations.bytes_max,
        text.len()
    );
}

fn read_good_playbooks() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/corpus/good");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("corpus").map(|entry| entry.expect("entry").path()).collect();
    files.sort();
    files.iter().map(|path| fs::read_to_string(path).expect("text")).collect()
}

#[test]
fn survives_fuzzer_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/check");
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("fuzz corpus") {
        let bytes = fs::read(entry.expect("entry").path()).expect("bytes");
        check_within_memory(&String::from_utf8_lossy(&bytes));
        count += 1;
    }
    assert!(count >= 20, "only {count} texts");
}

#[test]
fn survives_expansion_bombs() {
    let mut aliases = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let previous = level - 1;
        aliases.push_str(&format!(
            "a{level}: &a{level} [*a{previous}, *a{previous}, *a{previous}, *a{previous}, *a{previous}]\n"
        ));
    }
    check_within_memory(&aliases);
    check_within_memory(&"[".repeat(100_000));
    check_within_memory(&"{a: ".repeat(100_000));
    check_within_memory(&"- ".repeat(100_000));
    check_within_memory(&format!("k: {}", "? ".repeat(50_000)));
    check_within_memory(&"a".repeat(2 * 1024 * 1024));
    let keys: String = (0..60_000).map(|n| format!("k{n}: 1\n")).collect();
    check_within_memory(&keys);
    check_within_memory(&"dup: 1\n".repeat(60_000));
    let head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\nworkflow:\n";
    let nested = format!(
        "{head}  - {{step: a, tool: {{kind: noop, result: \"{{{{ {} }}}}\"}}}}\n",
        "(".repeat(50_000)
    );
    check_within_memory(&nested);
    let big = format!(
        "{head}  - {{step: a, tool: {{kind: noop, result: \"{{{{ 'x' * 100000000 }}}}\"}}}}\n"
    );
    check_within_memory(&big);
    let steps: String = (0..8_000)
        .map(|n| {
            format!(
                "  - {{step: s{n}, tool: {{kind: noop}}, next: {{arcs: [{{step: s{}}}]}}}}\n",
                n + 1
            )
        })
        .collect();
    check_within_memory(&format!("{head}{steps}"));
    let twice: String = (0..8_000).map(|_| "  - {step: s, tool: {kind: noop}}\n").collect();
    check_within_memory(&format!("{head}{twice}"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn survives_random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        check_within_memory(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn survives_random_yaml_like_text(text in "([a-z]{1,6}: |- |\\{|\\}|\\[|\\]|\"|'|\\{\\{ |\\}\\}|\\{% |%\\}|\n|  |[a-z0-9.|&*!<>#%@`]{1,4}){0,120}") {
        check_within_memory(&text);
    }

    #[test]
    fn survives_mutated_playbooks(
        pick in any::<prop::sample::Index>(),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "[ -~\n]{0,6}"), 1..6),
    ) {
        let texts = read_good_playbooks();
        let mut bytes = pick.get(&texts).clone().into_bytes();
        for (from, to, replacement) in cuts {
            if bytes.is_empty() {
                break;
            }
            let (a, b) = (from.index(bytes.len()), to.index(bytes.len()));
            // Small cuts only: a playbook without half of its text tests little.
            let (a, b) = (a.min(b), a.max(b).min(a.min(b) + 12));
            bytes.splice(a..b, replacement.into_bytes());
        }
        check_within_memory(&String::from_utf8_lossy(&bytes));
    }
}

/// After 500 findings the rest is only counted, but an error still rejects the document.
#[test]
fn error_after_many_warnings_still_rejects() {
    let head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\n";
    let noise: Vec<String> = (0..600).map(|n| format!("noise_{n}: 1")).collect();
    let text =
        format!("{head}{}\nworkflow: [{{step: a, tool: {{kind: pyhton}}}}]\n", noise.join("\n"));
    let checked = check(&text, &CheckOptions::default());
    assert_eq!(checked.diagnostics.len(), 500);
    assert_eq!(checked.omitted_count, 101);
    assert!(checked.document.is_none());
}
