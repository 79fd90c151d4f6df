//! Which files tools may touch: those below the folders that the operator opened.

use std::io;
use std::path::{Path, PathBuf};

use noetl_types::{TaskError, TaskErrorKind};

use crate::settings::Settings;

/// Where a file really is, links resolved, if the operator opened that place. The file itself may
/// be one that is still to be made; its folder has to be there.
pub(crate) fn opened(what: &str, path: &Path, settings: &Settings) -> Result<PathBuf, TaskError> {
    let real = real(path).map_err(|error| {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => TaskErrorKind::NotFound,
            _ => TaskErrorKind::StorageAccess,
        };
        let message = format!("the {what} '{}' cannot be used: {error}", path.display());
        TaskError::new(kind, message)
    })?;
    check_root(&real, &format!("the {what} '{}'", path.display()), settings)?;
    Ok(real)
}

/// Refuses a path, with its links resolved, that is outside of the operator's folders.
pub(crate) fn check_root(real: &Path, what: &str, settings: &Settings) -> Result<(), TaskError> {
    let Some(roots) = &settings.file_roots else {
        return Ok(());
    };
    let inside = |root: &PathBuf| root.canonicalize().is_ok_and(|root| real.starts_with(root));
    if roots.iter().any(inside) {
        return Ok(());
    }
    let message = format!("{what} is outside of the folders that the operator opened");
    Err(TaskError::new(TaskErrorKind::Auth, message))
}

fn real(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A link that leads nowhere yet would be followed when the file is made.
            if path.is_symlink() {
                return Err(error);
            }
            let name = path.file_name().ok_or(error)?;
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                Some(_) | None => Path::new("."),
            };
            Ok(folder.canonicalize()?.join(name))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_opened_folders_are_open() {
        let folder = tempfile::tempdir().unwrap();
        let (open, shut) = (folder.path().join("open"), folder.path().join("shut"));
        for folder in [&open, &shut] {
            std::fs::create_dir(folder).unwrap();
        }
        std::os::unix::fs::symlink(&shut, open.join("link")).unwrap();
        std::os::unix::fs::symlink(shut.join("gone.db"), open.join("nowhere.db")).unwrap();
        let settings = Settings {
            file_roots: Some(vec![open.clone()]),
            ..Settings::default()
        };
        let kind = |path: PathBuf| opened("database", &path, &settings).map_err(|error| error.kind);
        assert!(kind(open.join("new.db")).is_ok());
        assert_eq!(kind(shut.join("new.db")), Err(TaskErrorKind::Auth));
        assert_eq!(kind(open.join("../shut/new.db")), Err(TaskErrorKind::Auth));
        assert_eq!(kind(open.join("link/new.db")), Err(TaskErrorKind::Auth));
        assert_eq!(kind(open.join("nowhere.db")), Err(TaskErrorKind::NotFound));
        assert_eq!(
            kind(open.join("no/folder.db")),
            Err(TaskErrorKind::NotFound)
        );
    }
}
