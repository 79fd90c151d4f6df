//! The texts that a command works on: finding files, and reading them within bounds.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use noetl_playbook::MAX_DOCUMENT_BYTES;

use crate::error::Error;
use crate::io::Io;
use crate::render::words;

/// Directories are searched for no more files than this.
const MAX_FILES: usize = 10_000;

/// Directories are searched through no more entries than this.
const MAX_ENTRIES: usize = 500_000;

/// Directories that hold what tools made, not what people wrote.
const SKIPPED: [&str; 2] = ["target", "node_modules"];

/// Where a text comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Standard input, written `-`.
    Input,
    /// A file.
    File(PathBuf),
}

impl Origin {
    /// What the user named.
    pub(crate) fn new(path: &Path) -> Self {
        if path.as_os_str() == "-" {
            Self::Input
        } else {
            Self::File(path.to_owned())
        }
    }

    /// What to call it in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Input => "<stdin>".to_owned(),
            Self::File(path) => shown(path),
        }
    }

    /// Reads it. No more is read than a document may hold and one byte, so that a file without end
    /// costs no more than one that is a little too long.
    pub(crate) fn read(&self, io: &mut Io<'_>) -> Result<String, Error> {
        let limit = u64::try_from(MAX_DOCUMENT_BYTES + 1).unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        let read = match self {
            Self::Input => (&mut io.input).take(limit).read_to_end(&mut bytes),
            Self::File(path) => {
                fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
            }
        };
        read.map_err(|error| self.unreadable(error))?;
        self.decode(bytes)
    }

    fn unreadable(&self, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::NotFound => Error::Missing { path: self.name() },
            _ => Error::Unreadable {
                path: self.name(),
                source,
            },
        }
    }

    fn decode(&self, bytes: Vec<u8>) -> Result<String, Error> {
        let cut_off = bytes.len() > MAX_DOCUMENT_BYTES;
        let wide = bytes.starts_with(&[0xFE, 0xFF]) || bytes.starts_with(&[0xFF, 0xFE]);
        String::from_utf8(bytes).or_else(|error| {
            let fault = error.utf8_error();
            let offset = fault.valid_up_to();
            if cut_off && fault.error_len().is_none() {
                // The cut went through a character; what is before it is too long all the same.
                return Ok(String::from_utf8_lossy(error.as_bytes()).into_owned());
            }
            Err(Error::NotText {
                path: self.name(),
                offset,
                wide,
            })
        })
    }
}

/// What was found under the paths that the user named.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Every text, in the order of the paths, directories in the order of their names.
    pub(crate) origins: Vec<Origin>,
    /// What could not be looked into, by its name.
    pub(crate) problems: Vec<(String, Error)>,
}

/// Finds the YAML files under paths. Hidden entries and directories of build output are passed over;
/// files that are named outright are taken whatever they are called.
pub(crate) fn find(paths: &[PathBuf]) -> Found {
    let mut search = Search::default();
    for path in paths {
        if let Err(problem) = search.named(path) {
            search.found.problems.push((shown(path), problem));
        }
    }
    search.found
}

#[derive(Debug, Default)]
struct Search {
    found: Found,
    /// The files that were met, under their one true path: none is checked twice.
    seen: HashSet<PathBuf>,
    entries: usize,
}

impl Search {
    fn named(&mut self, path: &Path) -> Result<(), Error> {
        let origin = Origin::new(path);
        if origin == Origin::Input {
            if !self.found.origins.contains(&origin) {
                self.found.origins.push(origin);
            }
            return Ok(());
        }
        let kind = fs::metadata(path).map_err(|error| origin.unreadable(error))?;
        if kind.is_dir() {
            let before = self.found.origins.len();
            return self
                .directory(path)
                .inspect_err(|_| self.found.origins.truncate(before));
        }
        if self.is_new(path) {
            self.found.origins.push(origin);
        }
        Ok(())
    }

    /// Searches a directory and those inside it, without recursion: their depth is not ours to trust.
    ///
    /// Links to files are followed, links to directories are not: they can lead out of what the user
    /// named, and round in circles.
    fn directory(&mut self, top: &Path) -> Result<(), Error> {
        let mut open = self.list(top, top)?;
        // The last one is taken first.
        open.reverse();
        while let Some(path) = open.pop() {
            let Ok(kind) = fs::symlink_metadata(&path) else {
                // It was removed a moment ago.
                continue;
            };
            if kind.is_dir() {
                open.extend(self.list(top, &path)?.into_iter().rev());
            } else if is_yaml(&path) && path.is_file() && self.is_new(&path) {
                self.found.origins.push(Origin::File(plain(path)));
                if self.found.origins.len() > MAX_FILES {
                    return Err(too_many(top, MAX_FILES, "YAML files"));
                }
            }
        }
        Ok(())
    }

    /// The entries of a directory that are worth a look, in the order of their names. One that cannot
    /// be read is noted, and the search goes on.
    fn list(&mut self, top: &Path, path: &Path) -> Result<Vec<PathBuf>, Error> {
        let mut names = Vec::new();
        let entries = fs::read_dir(path).and_then(|entries| {
            let room = MAX_ENTRIES.saturating_sub(self.entries);
            entries
                .take(room + 1)
                .map(|entry| Ok(entry?.file_name()))
                .collect::<io::Result<Vec<_>>>()
        });
        match entries {
            Ok(entries) => {
                self.entries += entries.len();
                names.extend(entries.into_iter().filter(|name| !is_skipped(name)));
            }
            Err(source) => {
                let name = shown(path);
                let problem = Error::Unreadable {
                    path: name.clone(),
                    source,
                };
                self.found.problems.push((name, problem));
            }
        }
        if self.entries > MAX_ENTRIES {
            return Err(too_many(top, MAX_ENTRIES, "entries"));
        }
        names.sort();
        Ok(names.iter().map(|name| path.join(name)).collect())
    }

    fn is_new(&mut self, path: &Path) -> bool {
        match fs::canonicalize(path) {
            Ok(path) => self.seen.insert(path),
            // What has no true path, such as a pipe, cannot be met twice.
            Err(_) => true,
        }
    }
}

fn too_many(top: &Path, limit: usize, what: &'static str) -> Error {
    Error::TooMany {
        path: shown(top),
        limit,
        what,
    }
}

fn is_skipped(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".") || SKIPPED.iter().any(|skipped| name == *skipped)
}

fn is_yaml(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// A path without the `./` that searching the current directory puts before it.
fn plain(path: PathBuf) -> PathBuf {
    path.strip_prefix(".").map(Path::to_owned).unwrap_or(path)
}

fn shown(path: &Path) -> String {
    words::visible(&path.to_string_lossy())
}
