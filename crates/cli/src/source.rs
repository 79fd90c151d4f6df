//! Finds and reads the documents of a command, with limits.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use noetl_playbook::MAX_DOCUMENT_BYTES;

use crate::error::{Error, Result};
use crate::io::Io;
use crate::render::text_layout;

/// Maximum files found in directories.
const MAX_FOUND_FILES: usize = 10_000;

/// Maximum directory entries searched.
const MAX_SEARCHED_ENTRIES: usize = 500_000;

/// Directories with generated files.
const SKIPPED_DIRECTORIES: [&str; 2] = ["target", "node_modules"];

/// Source of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DocumentOrigin {
    /// Standard input, given as `-`.
    StandardInput,
    /// A file.
    File(PathBuf),
}

impl DocumentOrigin {
    /// Source named on the command line.
    pub(crate) fn new(path: &Path) -> Self {
        if path.as_os_str() == "-" { Self::StandardInput } else { Self::File(path.to_owned()) }
    }

    /// Name for messages.
    pub(crate) fn display_name(&self) -> String {
        match self {
            Self::StandardInput => "<stdin>".to_owned(),
            Self::File(path) => display_path(path),
        }
    }

    /// Reads the text. Reads at most one byte more than the maximum size of a document, so that an
    /// endless file is not read further.
    pub(crate) fn read_text(&self, io: &mut Io<'_>) -> Result<String> {
        let limit = u64::try_from(MAX_DOCUMENT_BYTES + 1).unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        let result = match self {
            Self::StandardInput => (&mut io.input).take(limit).read_to_end(&mut bytes),
            Self::File(path) => {
                fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
            }
        };
        result.map_err(|error| self.read_error(&error))?;
        self.decode_utf8(bytes)
    }

    /// Error of a document that cannot be read.
    pub(crate) fn read_error(&self, error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::NotFound => path_not_found_error(&self.display_name()),
            _ => unreadable_error(&self.display_name(), error),
        }
    }

    fn decode_utf8(&self, bytes: Vec<u8>) -> Result<String> {
        let is_truncated = bytes.len() > MAX_DOCUMENT_BYTES;
        let is_utf16 = bytes.starts_with(&[0xFE, 0xFF]) || bytes.starts_with(&[0xFF, 0xFE]);
        String::from_utf8(bytes).or_else(|error| {
            let utf8_error = error.utf8_error();
            let offset = utf8_error.valid_up_to();
            if is_truncated && utf8_error.error_len().is_none() {
                // The size limit can split a character. The text before it is already too long.
                return Ok(String::from_utf8_lossy(error.as_bytes()).into_owned());
            }
            let path = self.display_name();
            let guess = if is_utf16 { "it looks like UTF-16; " } else { "" };
            Err(Error::failed(format!(
                "'{path}' is not UTF-8 text: invalid byte at offset {offset}"
            ))
            .with_help(format!("{guess}save it as UTF-8")))
        })
    }
}

/// Documents found below the given paths.
#[derive(Debug, Default)]
pub(crate) struct FoundDocuments {
    /// Documents in the order of the paths. Directories are sorted by name.
    pub(crate) origins: Vec<DocumentOrigin>,
    /// Paths that could not be read, with their errors.
    pub(crate) problems: Vec<(String, Error)>,
}

/// Finds the YAML files below paths. Skips hidden entries and build directories. Files that are
/// named explicitly are always included.
pub(crate) fn find_documents(paths: &[PathBuf]) -> FoundDocuments {
    let mut search = DocumentSearch::default();
    for path in paths {
        if let Err(problem) = search.add_path(path) {
            search.found.problems.push((display_path(path), problem));
        }
    }
    search.found
}

#[derive(Debug, Default)]
struct DocumentSearch {
    found: FoundDocuments,
    /// Canonical paths of the files found, so that no file is checked twice.
    seen: HashSet<PathBuf>,
    entries: usize,
}

impl DocumentSearch {
    fn add_path(&mut self, path: &Path) -> Result<()> {
        let origin = DocumentOrigin::new(path);
        if origin == DocumentOrigin::StandardInput {
            if !self.found.origins.contains(&origin) {
                self.found.origins.push(origin);
            }
            return Ok(());
        }
        let metadata = fs::metadata(path).map_err(|error| origin.read_error(&error))?;
        if metadata.is_dir() {
            let count = self.found.origins.len();
            return self.search_directory(path).inspect_err(|_| self.found.origins.truncate(count));
        }
        if self.is_new(path) {
            self.found.origins.push(origin);
        }
        Ok(())
    }

    /// Searches a directory and its subdirectories, without recursion, since their depth is not
    /// trusted.
    ///
    /// Follows links to files but not to directories, which can lead outside the given path or form
    /// cycles.
    fn search_directory(&mut self, root: &Path) -> Result<()> {
        let mut pending = self.list_entries(root, root)?;
        // The last element is processed first.
        pending.reverse();
        while let Some(path) = pending.pop() {
            let Ok(metadata) = fs::symlink_metadata(&path) else {
                // It was removed in the meantime.
                continue;
            };
            if metadata.is_dir() {
                pending.extend(self.list_entries(root, &path)?.into_iter().rev());
            } else if is_yaml(&path) && path.is_file() && self.is_new(&path) {
                self.found.origins.push(DocumentOrigin::File(strip_current_dir(path)));
                if self.found.origins.len() > MAX_FOUND_FILES {
                    return Err(limit_error(root, MAX_FOUND_FILES, "YAML files"));
                }
            }
        }
        Ok(())
    }

    /// Lists the relevant entries of a directory, sorted by name. Records an unreadable directory
    /// and continues.
    fn list_entries(&mut self, root: &Path, path: &Path) -> Result<Vec<PathBuf>> {
        let mut names = Vec::new();
        let entries = fs::read_dir(path).and_then(|entries| {
            let remaining = MAX_SEARCHED_ENTRIES.saturating_sub(self.entries);
            entries
                .take(remaining + 1)
                .map(|entry| Ok(entry?.file_name()))
                .collect::<io::Result<Vec<_>>>()
        });
        match entries {
            Ok(entries) => {
                self.entries += entries.len();
                names.extend(entries.into_iter().filter(|name| !is_skipped(name)));
            }
            Err(source) => {
                let name = display_path(path);
                let problem = unreadable_error(&name, &source);
                self.found.problems.push((name, problem));
            }
        }
        if self.entries > MAX_SEARCHED_ENTRIES {
            return Err(limit_error(root, MAX_SEARCHED_ENTRIES, "entries"));
        }
        names.sort();
        Ok(names.iter().map(|name| path.join(name)).collect())
    }

    fn is_new(&mut self, path: &Path) -> bool {
        match fs::canonicalize(path) {
            Ok(path) => self.seen.insert(path),
            // Files without a canonical path, such as pipes, cannot be found twice.
            Err(_) => true,
        }
    }
}

/// Error of a path that does not exist.
pub(crate) fn path_not_found_error(path: &str) -> Error {
    Error::not_found(format!("cannot find '{path}'"))
        .with_help("check the spelling and the current directory")
}

/// Error of a file or directory that exists but cannot be used.
pub(crate) fn unreadable_error(path: &str, source: &io::Error) -> Error {
    let error = Error::failed(format!("cannot read '{path}': {}", source.kind()));
    match source.kind() {
        io::ErrorKind::PermissionDenied => error.with_help("check its permissions"),
        io::ErrorKind::NotADirectory => error.with_help("part of the path is a file"),
        io::ErrorKind::IsADirectory => error.with_help("specify a file inside it"),
        _ => error,
    }
}

fn limit_error(root: &Path, limit: usize, what: &str) -> Error {
    Error::failed(format!("'{}' contains more than {limit} {what}", display_path(root)))
        .with_help("specify its subdirectories one by one")
}

fn is_skipped(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
        || SKIPPED_DIRECTORIES.iter().any(|skipped| name == *skipped)
}

pub(crate) fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// Removes the `./` prefix of paths below the current directory.
fn strip_current_dir(path: PathBuf) -> PathBuf {
    path.strip_prefix(".").map(Path::to_owned).unwrap_or(path)
}

fn display_path(path: &Path) -> String {
    text_layout::escape_control(&path.to_string_lossy())
}
