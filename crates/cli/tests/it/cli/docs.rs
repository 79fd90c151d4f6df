//! Checks of the playbooks, results and links in the documentation.
//!
//! A fenced block `yaml` is a whole document, and `yaml playbook` one without its first three keys.
//! Each must be free of diagnostics. A `json` block directly below one is the expected result of
//! the playbook, and an `error` block a part of the expected error. Links between the pages and
//! into the repository must resolve.

use std::fs;
use std::path::{Path, PathBuf};

use noetl_playbook::model::{KeyType, RESERVED_KINDS, ToolKind};
use noetl_playbook::{CheckOptions, check};

use crate::cli::fake_services::FakeServices;
use crate::cli::run::isolated_command;
use crate::cli::support::{CRATE_DIR, CommandOutput, TestDir};

const PLAYBOOK_HEADER: &str =
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: snippet }\n";

struct FencedBlock {
    /// Line of the page on which the block begins.
    line: usize,
    info: String,
    text: String,
    /// True if only blank lines separate it from the previous block.
    follows: bool,
}

impl FencedBlock {
    /// Returns the playbook document of the block, if it contains one.
    fn playbook_document(&self) -> Option<String> {
        match &*self.info {
            "yaml" => Some(self.text.clone()),
            "yaml playbook" => Some(format!("{PLAYBOOK_HEADER}{}", self.text)),
            _ => None,
        }
    }
}

fn repository_root() -> PathBuf {
    Path::new(CRATE_DIR).join("../..")
}

/// User documentation: README and `docs`. Subfolders of `docs` have separate tests.
fn doc_pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = fs::read_dir(repository_root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    pages.push(repository_root().join("README.md"));
    pages
}

fn parse_blocks(page: &str) -> Vec<FencedBlock> {
    let mut blocks = Vec::new();
    let mut open: Option<FencedBlock> = None;
    let mut follows = false;
    for (index, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(FencedBlock {
                    line: index + 1,
                    info: info.to_owned(),
                    text: String::new(),
                    follows,
                });
            }
            (None, None) => follows &= line.is_empty(),
            (Some(_), Some("")) => {
                blocks.extend(open.take());
                follows = true;
            }
            (Some(block), _) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

#[test]
fn documented_playbooks_pass_check() {
    let mut problems = Vec::new();
    let mut checked = 0;
    for page in doc_pages() {
        for block in parse_blocks(&fs::read_to_string(&page).unwrap()) {
            let Some(document) = block.playbook_document() else {
                continue;
            };
            checked += 1;
            for diagnostic in check(&document, &CheckOptions::default()).diagnostics {
                let location = format!("{}:{}", page.display(), block.line);
                problems.push(format!("{location}: {} {}", diagnostic.code, diagnostic.message));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(checked > 20, "the pages show documents");
}

#[test]
fn documented_results_match() {
    let dir = TestDir::new("docs_results");
    let mut problems = Vec::new();
    let mut count = 0;
    for page in doc_pages() {
        let blocks = parse_blocks(&fs::read_to_string(&page).unwrap());
        for (block, next_block) in blocks.iter().zip(blocks.iter().skip(1)) {
            let Some(document) = block.playbook_document().filter(|_| next_block.follows) else {
                continue;
            };
            if !["json", "error"].contains(&&*next_block.info) {
                continue;
            }
            count += 1;
            dir.write("flow.yaml", document);
            let args = ["run", "flow.yaml", "-q", "--ephemeral", "-o", "json"];
            let output: CommandOutput = isolated_command(&dir, &args).output().unwrap().into();
            let is_match = if next_block.info == "json" {
                let expected: serde_json::Value = serde_json::from_str(&next_block.text).unwrap();
                serde_json::from_str::<serde_json::Value>(&output.out).ok() == Some(expected)
            } else {
                output.code == 1 && output.err.contains(next_block.text.trim())
            };
            if !is_match {
                let location = format!("{}:{}", page.display(), block.line);
                problems.push(format!("{location}: {}", output.to_snapshot()));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(count > 10, "the pages show results");
}

/// Runs the first playbook of the page, with other addresses for its API and its database.
#[test]
fn getting_started_page_works() {
    let (dir, services) = (TestDir::new("docs_started"), FakeServices::open());
    let page = fs::read_to_string(repository_root().join("docs/getting-started.md")).unwrap();
    let document = parse_blocks(&page).iter().find_map(FencedBlock::playbook_document).unwrap();
    dir.write("weather.yaml", document);
    let api = services.set_argument("api", "");
    let database = format!("database={}", dir.path("weather.db").display());
    let args = ["run", "weather.yaml", "-q", "--set", &api, "--set", &database];
    let output: CommandOutput = isolated_command(&dir, &args).output().unwrap().into();
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    assert!(page.contains(&output.out), "{}", output.to_snapshot());
}

#[test]
fn every_tool_kind_is_documented() {
    let page = fs::read_to_string(repository_root().join("docs/tools.md")).unwrap();
    let names: Vec<&str> = page.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let mut missing = Vec::new();
    for kind in ToolKind::WORDS {
        let spec = ToolKind::parse(kind).unwrap().spec();
        let keys = spec.keys.iter().filter(|key| key.value_type != KeyType::NoEffect);
        // Base64 variants of keys are documented in one place.
        let keys = keys.map(|key| key.name).filter(|key| !key.ends_with("_b64"));
        let undocumented = keys.chain([*kind]).filter(|name| !names.contains(name));
        missing.extend(undocumented.map(|name| format!("{kind}: {name}")));
    }
    missing.extend(
        RESERVED_KINDS.iter().filter(|kind| !names.contains(kind)).map(ToString::to_string),
    );
    assert!(missing.is_empty(), "not documented: {missing:#?}");
}

/// Returns the link targets of a page, except in code.
fn link_targets(page: &str) -> Vec<String> {
    let prose = page.split("\n```").step_by(2).collect::<String>();
    let targets = prose.split("](").skip(1);
    targets
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .filter(|target| !target.starts_with("http"))
        .collect()
}

/// Returns the anchors that are derived from the headings of a page.
fn heading_anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let text = line.trim_start_matches('#').trim().to_lowercase();
            text.chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

#[test]
fn doc_links_resolve() {
    let mut broken = Vec::new();
    for page in doc_pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in link_targets(&text) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            let exists = target.exists();
            let has_anchor = anchor.is_empty()
                || exists
                    && heading_anchors(&fs::read_to_string(&target).unwrap())
                        .iter()
                        .any(|heading| heading == anchor);
            if !exists || !has_anchor {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Expands `a/{b,c}.rs` into `a/b.rs` and `a/c.rs`.
fn expand_braces(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let (names, after) = rest.split_once('}').unwrap();
    let expand = |name| format!("{before}{name}{after}");
    names.split(',').map(expand).collect()
}

#[test]
fn architecture_names_existing_files() {
    let root = repository_root();
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (_, tables) = page.split_once("\n## Where to change what\n").unwrap();
    // Backticks enclose every second part. Paths with a placeholder name no single file.
    let is_path = |text: &&str| text.contains('/') && !text.contains(['<', '*', ' ']);
    let paths: Vec<String> =
        tables.split('`').skip(1).step_by(2).filter(is_path).flat_map(expand_braces).collect();
    assert!(paths.len() > 50, "{paths:?}");
    let is_missing = |path: &&String| {
        !root.join("crates").join(path.as_str()).exists() && !root.join(path.as_str()).exists()
    };
    let missing: Vec<&String> = paths.iter().filter(is_missing).collect();
    assert_eq!(missing, Vec::<&String>::new());
}
