use super::*;

#[test]
fn only_allowed_folders_are_accessible() {
    let folder = tempfile::tempdir().unwrap();
    let (allowed, denied) = (folder.path().join("open"), folder.path().join("shut"));
    for folder in [&allowed, &denied] {
        std::fs::create_dir(folder).unwrap();
    }
    std::os::unix::fs::symlink(&denied, allowed.join("link")).unwrap();
    std::os::unix::fs::symlink(denied.join("gone.db"), allowed.join("nowhere.db")).unwrap();
    let settings = Settings { file_roots: Some(vec![allowed.clone()]), ..Settings::default() };
    let kind = |path: PathBuf| {
        resolve_allowed_path("database", &path, &settings).map_err(|error| error.kind)
    };
    assert!(kind(allowed.join("new.db")).is_ok());
    assert_eq!(kind(denied.join("new.db")), Err(TaskErrorKind::Auth));
    assert_eq!(kind(allowed.join("../shut/new.db")), Err(TaskErrorKind::Auth));
    assert_eq!(kind(allowed.join("link/new.db")), Err(TaskErrorKind::Auth));
    assert_eq!(kind(allowed.join("nowhere.db")), Err(TaskErrorKind::NotFound));
    assert_eq!(kind(allowed.join("no/folder.db")), Err(TaskErrorKind::NotFound));
}

/// Settings of a sandbox that hides a path.
fn hidden_path_settings(mode: SandboxMode, hidden: &Path) -> Settings {
    let mut settings = Settings::default();
    settings.sandbox.mode = mode;
    settings.sandbox.hidden = vec![hidden.to_owned()];
    settings.sandbox.readable = vec![std::env::temp_dir()];
    settings
}

#[test]
fn platform_files_are_denied_by_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let (data, other) = (folder.path().join("data"), folder.path().join("other"));
    for folder in [&data, &other] {
        std::fs::create_dir(folder).unwrap();
    }
    std::os::unix::fs::symlink(&data, other.join("link")).unwrap();
    std::fs::write(data.join("noetl.db"), "x").unwrap();
    for mode in [SandboxMode::Off, SandboxMode::BestEffort] {
        let settings = hidden_path_settings(mode, &other.join("link"));
        let kind = |path: PathBuf| {
            resolve_allowed_path("database", &path, &settings).map_err(|error| error.kind)
        };
        assert!(kind(other.join("mine.db")).is_ok());
        for path in [
            data.join("noetl.db"),
            data.join("new.db"),
            other.join("link/noetl.db"),
            other.join("../data/noetl.db"),
            PathBuf::from("/proc/self/environ"),
            PathBuf::from("/proc/1/../self/environ"),
        ] {
            assert_eq!(kind(path.clone()), Err(TaskErrorKind::Auth), "{path:?}");
        }
    }
    // A path that does not exist yet is denied already.
    let settings = hidden_path_settings(SandboxMode::Off, &other.join("later.db"));
    let error = resolve_allowed_path("database", &other.join("later.db"), &settings).unwrap_err();
    assert!(error.message.contains("belongs to the platform"), "{error:?}");
}

#[test]
fn parents_of_platform_files_are_denied_in_sandbox() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    let hidden = real.join("no/such/data");
    let check = |mode| check_file_roots(&real, "'it'", &hidden_path_settings(mode, &hidden));
    assert!(check(SandboxMode::Off).is_ok());
    assert!(check(SandboxMode::BestEffort).is_err());
    assert!(check(SandboxMode::Strict).is_err());
}

#[test]
fn allowed_folder_does_not_expose_platform_files() {
    let folder = tempfile::tempdir().unwrap();
    let hidden = folder.path().join("noetl.db");
    let settings = Settings {
        file_roots: Some(vec![folder.path().to_owned()]),
        ..hidden_path_settings(SandboxMode::Off, &hidden)
    };
    assert!(resolve_allowed_path("database", &folder.path().join("mine.db"), &settings).is_ok());
    assert!(resolve_allowed_path("database", &hidden, &settings).is_err());
}

/// Without the check of the opened path, a link that is put in place of a folder after the path
/// was checked would lead to another file.
#[test]
fn replaced_folder_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    let (checked, other) = (real.join("mine"), real.join("other"));
    for (folder, text) in [(&checked, "mine"), (&other, "the platform's")] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("file"), text).unwrap();
    }
    let file = checked.join("file");
    assert!(open_resolved(&file).is_ok());
    std::fs::rename(&checked, real.join("old")).unwrap();
    std::os::unix::fs::symlink(&other, &checked).unwrap();
    assert!(open_resolved(&file).is_err());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "the platform's", "a plain open follows");
}

#[test]
fn databases_are_where_tasks_cannot_replace_folders() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    std::fs::create_dir_all(real.join("shared/inner")).unwrap();
    let mut settings = Settings::default();
    let kind = |settings: &Settings, name: &str| {
        resolve_database_path(&real.join(name), settings).map_err(|error| error.kind)
    };
    assert!(kind(&settings, "shared/inner/x.db").is_ok());
    settings.sandbox.mode = SandboxMode::BestEffort;
    assert_eq!(kind(&settings, "x.db"), Err(TaskErrorKind::Auth));
    settings.sandbox.writable = vec![real.join("shared")];
    assert!(kind(&settings, "shared/x.db").is_ok());
    assert_eq!(kind(&settings, "shared/inner/x.db"), Err(TaskErrorKind::Auth));
    settings.sandbox.writable.push(real.join("shared/inner"));
    assert!(kind(&settings, "shared/inner/x.db").is_ok());
    assert_eq!(kind(&settings, "x.db"), Err(TaskErrorKind::Auth));
    settings.sandbox.readable = vec![real.clone()];
    assert!(kind(&settings, "x.db").is_ok());
    assert!(is_writable_by_tasks(&real.join("shared/x.db"), &settings));
    assert!(!is_writable_by_tasks(&real.join("x.db"), &settings));
}

#[tokio::test]
async fn reads_only_regular_files_up_to_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, file) = (folder.path().join("pipe"), folder.path().join("file"));
    let status = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(status.unwrap().success());
    std::fs::write(&file, "12345").unwrap();
    let settings = Settings::default();
    let read = async |path: &Path, max_bytes| {
        let max_bytes = ByteSize::from_bytes(max_bytes);
        let read = read_allowed_file("script", path, max_bytes, &settings).await;
        read.map_err(|error| error.kind)
    };
    assert_eq!(read(&file, 5).await, Ok(b"12345".to_vec()));
    assert_eq!(read(&file, 4).await, Err(TaskErrorKind::Limit));
    for special in [&*pipe, Path::new("/dev/zero"), folder.path()] {
        let result = read(special, 5).await;
        assert_eq!(result, Err(TaskErrorKind::StorageAccess), "{special:?}");
    }
    let missing = read(&folder.path().join("gone"), 5).await;
    assert_eq!(missing, Err(TaskErrorKind::NotFound));
}
