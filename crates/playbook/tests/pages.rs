//! The pages of diagnostics keep what they say: the wrong document is reported at the place the page
//! gives, the mended one is clean.

use noetl_playbook::{CatalogNames, CheckOptions, Code, check};

/// A fenced YAML block of a page.
struct Snippet {
    info: String,
    text: String,
}

impl Snippet {
    /// Where the page says the finding stands.
    fn place(&self) -> Option<&str> {
        self.info
            .split_whitespace()
            .find_map(|word| word.strip_prefix("at="))
    }

    fn options(&self) -> CheckOptions {
        let has = |word: &str| self.info.split_whitespace().any(|found| found == word);
        CheckOptions {
            portable: has("portable"),
            features: has("features=none").then(Vec::new),
            catalog: has("catalog").then(CatalogNames::default),
        }
    }
}

fn snippets(page: &str) -> Vec<Snippet> {
    let mut found = Vec::new();
    let mut open: Option<Snippet> = None;
    for line in page.lines() {
        match &mut open {
            None => {
                if let Some(info) = line.strip_prefix("```yaml") {
                    open = Some(Snippet {
                        info: info.to_owned(),
                        text: String::new(),
                    });
                }
            }
            Some(_) if line == "```" => found.extend(open.take()),
            Some(snippet) => {
                snippet.text.push_str(line);
                snippet.text.push('\n');
            }
        }
    }
    assert!(open.is_none(), "a block is not closed");
    found
}

fn findings(snippet: &Snippet) -> Vec<String> {
    check(&snippet.text, &snippet.options())
        .diagnostics
        .iter()
        .map(|found| {
            format!(
                "{}@{}:{} {}",
                found.code, found.line, found.column, found.message
            )
        })
        .collect()
}

#[test]
fn every_page_has_the_form_of_a_page() {
    for code in Code::ALL {
        let page = code.page();
        assert!(
            page.starts_with(&format!("# {code}: ")),
            "{code}: the title names the code"
        );
        let severity = format!("\nSeverity: {}", code.severity());
        assert!(
            page.contains(&severity),
            "{code}: the severity is {}",
            code.severity()
        );
        assert!(
            page.contains("\n## Reported for\n"),
            "{code}: shows what is reported"
        );
        assert!(
            page.contains("\n## Write instead\n"),
            "{code}: shows what to write"
        );
    }
}

#[test]
fn what_a_page_shows_is_reported_where_it_says() {
    let mut wrong = Vec::new();
    for code in Code::ALL {
        let reported: Vec<Snippet> = snippets(code.page())
            .into_iter()
            .filter(|snippet| snippet.place().is_some())
            .collect();
        assert!(!reported.is_empty(), "{code}: no example with a place");
        for snippet in reported {
            let wanted = format!("{code}@{} ", snippet.place().unwrap_or_default());
            let found = findings(&snippet);
            if !found.iter().any(|finding| finding.starts_with(&wanted)) {
                wrong.push(format!("{wanted}not in {found:#?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_a_page_advises_is_clean() {
    let mut wrong = Vec::new();
    for code in Code::ALL {
        for snippet in snippets(code.page())
            .iter()
            .filter(|snippet| snippet.place().is_none())
        {
            let found = findings(snippet);
            if !found.is_empty() {
                wrong.push(format!("{code}: {found:#?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
