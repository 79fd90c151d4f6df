//! No text hurts the checker: it neither panics, nor hangs, nor takes more than 64 MB.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use noetl_playbook::{CheckOptions, check, to_yaml};
use proptest::prelude::*;

const MEMORY: u64 = 64 * 1024 * 1024;

/// Checks a text and prints what came out of it, within the bound.
fn survive(text: &str) {
    let used = allocation_counter::measure(|| {
        let checked = check(
            text,
            &CheckOptions {
                portable: true,
                ..CheckOptions::default()
            },
        );
        for found in &checked.diagnostics {
            assert!(found.line >= 1 && found.column >= 1, "{found:?}");
        }
        if let Some(document) = &checked.document
            && let Some(printed) = to_yaml(document)
        {
            let again = check(&printed, &CheckOptions::default()).document;
            assert!(
                again.as_ref() == Some(document),
                "reads back as another model:\n{printed}"
            );
        }
    });
    assert!(
        used.bytes_max < MEMORY,
        "{} bytes for {} of text",
        used.bytes_max,
        text.len()
    );
}

fn good_texts() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/corpus/good");
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("corpus")
        .map(|entry| entry.expect("entry").path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|path| fs::read_to_string(path).expect("text"))
        .collect()
}

/// Every text that a fuzzer has found worth keeping.
#[test]
fn the_corpus_of_the_fuzzer_is_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/check");
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("fuzz corpus") {
        let bytes = fs::read(entry.expect("entry").path()).expect("bytes");
        survive(&String::from_utf8_lossy(&bytes));
        count += 1;
    }
    assert!(count >= 20, "only {count} texts");
}

#[test]
fn bombs_do_not_unfold() {
    let mut aliases = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = level - 1;
        aliases.push_str(&format!(
            "a{level}: &a{level} [*a{before}, *a{before}, *a{before}, *a{before}, *a{before}]\n"
        ));
    }
    survive(&aliases);
    survive(&"[".repeat(100_000));
    survive(&"{a: ".repeat(100_000));
    survive(&"- ".repeat(100_000));
    survive(&format!("k: {}", "? ".repeat(50_000)));
    survive(&"a".repeat(2 * 1024 * 1024));
    let keys: String = (0..60_000).map(|n| format!("k{n}: 1\n")).collect();
    survive(&keys);
    survive(&"dup: 1\n".repeat(60_000));
    let head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\nworkflow:\n";
    let nested = format!(
        "{head}  - {{step: a, tool: {{kind: noop, result: \"{{{{ {} }}}}\"}}}}\n",
        "(".repeat(50_000)
    );
    survive(&nested);
    let big = format!(
        "{head}  - {{step: a, tool: {{kind: noop, result: \"{{{{ 'x' * 100000000 }}}}\"}}}}\n"
    );
    survive(&big);
    let steps: String = (0..8_000)
        .map(|n| {
            format!(
                "  - {{step: s{n}, tool: {{kind: noop}}, next: {{arcs: [{{step: s{}}}]}}}}\n",
                n + 1
            )
        })
        .collect();
    survive(&format!("{head}{steps}"));
    let twice: String = (0..8_000)
        .map(|_| "  - {step: s, tool: {kind: noop}}\n")
        .collect();
    survive(&format!("{head}{twice}"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        survive(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn random_yaml_like_text_is_survived(text in "([a-z]{1,6}: |- |\\{|\\}|\\[|\\]|\"|'|\\{\\{ |\\}\\}|\\{% |%\\}|\n|  |[a-z0-9.|&*!<>#%@`]{1,4}){0,120}") {
        survive(&text);
    }

    #[test]
    fn mutated_playbooks_are_survived(
        pick in any::<prop::sample::Index>(),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "[ -~\n]{0,6}"), 1..6),
    ) {
        let texts = good_texts();
        let mut bytes = pick.get(&texts).clone().into_bytes();
        for (from, to, with) in cuts {
            if bytes.is_empty() {
                break;
            }
            let (a, b) = (from.index(bytes.len()), to.index(bytes.len()));
            // Mostly small cuts: a playbook that lost half of itself tells little.
            let (a, b) = (a.min(b), a.max(b).min(a.min(b) + 12));
            bytes.splice(a..b, with.into_bytes());
        }
        survive(&String::from_utf8_lossy(&bytes));
    }
}

/// Past the five-hundredth finding the rest is only counted, but an error still refuses.
#[test]
fn an_error_behind_many_warnings_still_refuses() {
    let head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\n";
    let noise: Vec<String> = (0..600).map(|n| format!("noise_{n}: 1")).collect();
    let text = format!(
        "{head}{}\nworkflow: [{{step: a, tool: {{kind: pyhton}}}}]\n",
        noise.join("\n")
    );
    let checked = check(&text, &CheckOptions::default());
    assert_eq!(checked.diagnostics.len(), 500);
    assert_eq!(checked.hidden, 101);
    assert!(checked.document.is_none());
}
