//! Examples in the diagnostic pages: the invalid document is reported at the given position, and
//! the corrected one has no findings.

use std::collections::BTreeSet;

use noetl_playbook::{CatalogNames, CheckOptions, Code, check};

/// A fenced YAML block of a page.
struct YamlSnippet {
    info: String,
    text: String,
}

impl YamlSnippet {
    /// Position of the finding according to the page.
    fn expected_position(&self) -> Option<&str> {
        self.info.split_whitespace().find_map(|option| option.strip_prefix("at="))
    }

    fn check_options(&self) -> CheckOptions {
        let has = |option: &str| self.info.split_whitespace().any(|word| word == option);
        CheckOptions {
            portable: has("portable"),
            features: has("features=none").then_some(&[]),
            catalog: CatalogNames {
                playbooks: has("catalog").then(BTreeSet::new),
                credentials: has("catalog").then(BTreeSet::new),
            },
        }
    }
}

fn parse_snippets(page: &str) -> Vec<YamlSnippet> {
    let mut snippets = Vec::new();
    let mut open: Option<YamlSnippet> = None;
    for line in page.lines() {
        match &mut open {
            None => {
                if let Some(info) = line.strip_prefix("```yaml") {
                    open = Some(YamlSnippet { info: info.to_owned(), text: String::new() });
                }
            }
            Some(_) if line == "```" => snippets.extend(open.take()),
            Some(snippet) => {
                snippet.text.push_str(line);
                snippet.text.push('\n');
            }
        }
    }
    assert!(open.is_none(), "a block is not closed");
    snippets
}

fn list_findings(snippet: &YamlSnippet) -> Vec<String> {
    check(&snippet.text, &snippet.check_options())
        .diagnostics
        .iter()
        .map(|diagnostic| {
            format!(
                "{}@{}:{} {}",
                diagnostic.code, diagnostic.line, diagnostic.column, diagnostic.message
            )
        })
        .collect()
}

#[test]
fn pages_have_required_sections() {
    for code in Code::ALL {
        let page = code.page();
        assert!(page.starts_with(&format!("# {code}: ")), "{code}: the title names the code");
        let severity = format!("\nSeverity: {}", code.severity());
        assert!(page.contains(&severity), "{code}: the severity is {}", code.severity());
        assert!(page.contains("\n## Reported for\n"), "{code}: shows what is reported");
        assert!(page.contains("\n## Write instead\n"), "{code}: shows what to write");
    }
}

#[test]
fn reported_examples_have_finding_at_position() {
    let mut failures = Vec::new();
    for code in Code::ALL {
        let reported: Vec<YamlSnippet> = parse_snippets(code.page())
            .into_iter()
            .filter(|snippet| snippet.expected_position().is_some())
            .collect();
        assert!(!reported.is_empty(), "{code}: no example with a position");
        for snippet in reported {
            let expected = format!("{code}@{} ", snippet.expected_position().unwrap_or_default());
            let findings = list_findings(&snippet);
            if !findings.iter().any(|finding| finding.starts_with(&expected)) {
                failures.push(format!("{expected}not in {findings:#?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn corrected_examples_have_no_findings() {
    let mut failures = Vec::new();
    for code in Code::ALL {
        for snippet in parse_snippets(code.page())
            .iter()
            .filter(|snippet| snippet.expected_position().is_none())
        {
            let findings = list_findings(snippet);
            if !findings.is_empty() {
                failures.push(format!("{code}: {findings:#?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
