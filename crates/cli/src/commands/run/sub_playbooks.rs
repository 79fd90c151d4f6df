//! Playbooks in files beside the file of a run, which the run can start as sub-playbooks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use noetl_playbook::model::{Playbook, ToolKind};
use noetl_types::Json;

use crate::commands::check::print_diagnostics;
use crate::error::{Error, Result};
use crate::io::Io;
use crate::progress::PlaybookSource;
use crate::render::text_layout::pluralize;
use crate::source::{DocumentOrigin, is_yaml};

/// Paths of the playbooks that a playbook starts.
#[derive(Default)]
struct StartedPaths {
    names: BTreeSet<String>,
    /// True if templates compute further paths.
    has_computed: bool,
}

impl StartedPaths {
    fn add_playbook(&mut self, playbook: &Playbook) {
        let steps = playbook.workflow.iter().flat_map(|step| step.tool.tasks());
        let tasks = steps.chain(playbook.workbook.iter().map(|task| &task.tool));
        for task in tasks.filter(|task| *task.kind == ToolKind::Playbook) {
            let Some(field) = task.config.get("path") else { continue };
            match field.value.as_const().and_then(Json::as_str) {
                Some(path) => {
                    self.names.insert(path.trim_start_matches('/').to_owned());
                }
                None => self.has_computed = true,
            }
        }
    }

    fn contains(&self, path: &str) -> bool {
        self.has_computed || self.names.contains(path)
    }
}

/// Reads the playbooks that a playbook can start, directly or through others, from the files beside
/// its own. Playbooks that are in none of these files must be in the catalog.
pub(super) fn find_sub_playbooks(
    origin: &DocumentOrigin,
    playbook: &Playbook,
    io: &mut Io<'_>,
) -> Result<Vec<PlaybookSource>> {
    let mut started = StartedPaths::default();
    started.add_playbook(playbook);
    let DocumentOrigin::File(file) = origin else { return Ok(Vec::new()) };
    if started.names.is_empty() && !started.has_computed {
        return Ok(Vec::new());
    }
    let mut candidates = read_neighbors(file, io)?;
    candidates.remove(playbook.path().trim_start_matches('/'));
    let mut found = Vec::new();
    loop {
        let next = candidates.keys().find(|path| started.contains(path)).cloned();
        let Some((path, source)) = next.and_then(|path| candidates.remove_entry(&path)) else {
            return Ok(found);
        };
        let checked = print_diagnostics(&source.file, &source.text, !io.quiet, io)?;
        if checked.error_count > 0 && !started.names.contains(&path) {
            // A computed path need not be the path of this file.
            continue;
        }
        if checked.error_count > 0 {
            let errors = pluralize(checked.error_count, "error");
            let message = format!("sub-playbook {} has {errors}; nothing was run", source.file);
            return Err(Error::usage(message));
        }
        started.add_playbook(&source.playbook);
        found.push(source);
    }
}

/// Reads the playbooks beside a file, by path. Two files with the same path are ambiguous.
fn read_neighbors(file: &Path, io: &mut Io<'_>) -> Result<BTreeMap<String, PlaybookSource>> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let origin = DocumentOrigin::File(dir.to_owned());
    let entries = fs::read_dir(dir).map_err(|error| origin.read_error(&error))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| is_yaml(path) && path.is_file());
    paths.sort();
    let mut neighbors: BTreeMap<String, PlaybookSource> = BTreeMap::new();
    for path in paths {
        let path = path.strip_prefix("./").map(Path::to_owned).unwrap_or(path);
        let origin = DocumentOrigin::File(path);
        // Other files do not concern this run.
        let Ok(text) = origin.read_text(io) else { continue };
        let Some(source) = PlaybookSource::parse_playbook(origin.display_name(), text) else {
            continue;
        };
        let name = source.playbook.path().trim_start_matches('/').to_owned();
        if let Some(other) = neighbors.insert(name.clone(), source) {
            io.print_warning(format_args!(
                "several files have the path '{name}'; {} is not used",
                other.file
            ))?;
        }
    }
    Ok(neighbors)
}
