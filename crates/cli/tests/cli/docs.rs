//! The pages of the documentation keep what they say.
//!
//! A fenced block `yaml` is a whole document and `yaml playbook` one without its first three keys;
//! each must be clean. A `json` block right below one is its result: the playbook is run and must
//! give it; an `error` block is a part of what it fails with. Links between the pages, and into the repository, lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};

use noetl_playbook::model::{Build, ToolKind};
use noetl_playbook::{CheckOptions, check};

use crate::outside::Outside;
use crate::run::at_home;
use crate::support::{CRATE, Folder, Ran};

const HEAD: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: snippet }\n";

/// A fenced block of a page.
struct Block {
    /// The line of the page on which it begins.
    line: usize,
    info: String,
    text: String,
    /// Whether nothing but a blank line is between it and the block above.
    follows: bool,
}

impl Block {
    /// The document that it shows, if it shows one.
    fn document(&self) -> Option<String> {
        match &*self.info {
            "yaml" => Some(self.text.clone()),
            "yaml playbook" => Some(format!("{HEAD}{}", self.text)),
            _ => None,
        }
    }
}

fn root() -> PathBuf {
    Path::new(CRATE).join("../..")
}

/// The pages for users: README and `docs`. What is in folders of `docs` has tests of its own.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    pages.push(root().join("README.md"));
    pages
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    let mut follows = false;
    for (index, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Block {
                    line: index + 1,
                    info: info.to_owned(),
                    text: String::new(),
                    follows,
                });
            }
            (None, None) => follows &= line.is_empty(),
            (Some(_), Some("")) => {
                found.extend(open.take());
                follows = true;
            }
            (Some(block), _) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
        }
    }
    assert!(open.is_none(), "a block is not closed");
    found
}

#[test]
fn every_document_of_a_page_is_clean() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    for page in pages() {
        for block in blocks(&fs::read_to_string(&page).unwrap()) {
            let Some(document) = block.document() else {
                continue;
            };
            checked += 1;
            for found in check(&document, &CheckOptions::default()).diagnostics {
                let place = format!("{}:{}", page.display(), block.line);
                wrong.push(format!("{place}: {} {}", found.code, found.message));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 20, "the pages show documents");
}

#[test]
fn what_a_page_says_a_playbook_gives_it_gives() {
    let folder = Folder::new("docs_results");
    let mut wrong = Vec::new();
    let mut ran = 0;
    for page in pages() {
        let blocks = blocks(&fs::read_to_string(&page).unwrap());
        for (block, below) in blocks.iter().zip(blocks.iter().skip(1)) {
            let Some(document) = block.document().filter(|_| below.follows) else {
                continue;
            };
            if !["json", "error"].contains(&&*below.info) {
                continue;
            }
            ran += 1;
            folder.write("flow.yaml", document);
            let args = ["run", "flow.yaml", "-q", "--ephemeral", "-o", "json"];
            let run: Ran = at_home(&folder, &args).output().unwrap().into();
            let is_so = if below.info == "json" {
                let expected: serde_json::Value = serde_json::from_str(&below.text).unwrap();
                serde_json::from_str::<serde_json::Value>(&run.out).ok() == Some(expected)
            } else {
                run.code == 1 && run.err.contains(below.text.trim())
            };
            if !is_so {
                let place = format!("{}:{}", page.display(), block.line);
                wrong.push(format!("{place}: {}", run.shown()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran > 10, "the pages show results");
}

/// The first playbook of the page, run as the page says, but for where its API and its table are.
#[test]
fn whoever_gets_started_gets_there() {
    let (folder, outside) = (Folder::new("docs_started"), Outside::open());
    let page = fs::read_to_string(root().join("docs/getting-started.md")).unwrap();
    let document = blocks(&page).iter().find_map(Block::document).unwrap();
    folder.write("weather.yaml", document);
    let api = outside.set("api", "");
    let database = format!("database={}", folder.path("weather.db").display());
    let args = [
        "run",
        "weather.yaml",
        "-q",
        "--set",
        &api,
        "--set",
        &database,
    ];
    let run: Ran = at_home(&folder, &args).output().unwrap().into();
    assert_eq!(run.code, 0, "{}", run.shown());
    assert!(page.contains(&run.out), "{}", run.shown());
}

#[test]
fn every_kind_of_tool_is_on_its_page() {
    let page = fs::read_to_string(root().join("docs/tools.md")).unwrap();
    let words: Vec<&str> = page
        .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .collect();
    let mut missing = Vec::new();
    for kind in ToolKind::WORDS {
        let spec = ToolKind::parse(kind).unwrap().spec();
        let keys = spec.keys.iter().map(|key| key.name);
        // Forms of a key in base64 are explained once for all.
        let keys = keys.filter(|key| spec.build == Build::Core && !key.ends_with("_b64"));
        let unexplained = keys.chain([*kind]).filter(|word| !words.contains(word));
        missing.extend(unexplained.map(|word| format!("{kind}: {word}")));
    }
    assert!(missing.is_empty(), "not explained: {missing:#?}");
}

/// The targets of the links of a page, code left out.
fn links(page: &str) -> Vec<String> {
    let prose = page.split("\n```").step_by(2).collect::<String>();
    let targets = prose.split("](").skip(1);
    targets
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .filter(|target| !target.starts_with("http"))
        .collect()
}

/// The anchors of the headings of a page, as they are made from the text.
fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let text = line.trim_start_matches('#').trim().to_lowercase();
            text.chars()
                .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
                .map(|letter| if letter == ' ' { '-' } else { letter })
                .collect()
        })
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut wrong = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            let is_there = target.exists();
            let is_found = anchor.is_empty()
                || is_there
                    && anchors(&fs::read_to_string(&target).unwrap())
                        .iter()
                        .any(|found| found == anchor);
            if !is_there || !is_found {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
