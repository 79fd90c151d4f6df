use super::*;

#[test]
fn installations_are_visible_and_homes_are_not() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    for dir in ["bin", ".local/bin", ".local/lib", ".local/share/noetl", "venv/bin"] {
        std::fs::create_dir_all(path(dir)).unwrap();
    }
    std::fs::write(path("venv/pyvenv.cfg"), "").unwrap();
    let mut settings = Settings::default();
    let dirs = [path("bin"), path(".local/bin"), path("venv/bin")];
    let dirs = dirs.map(|dir| dir.display().to_string());
    settings.environment.insert("PATH".into(), format!("{}:relative:/", dirs.join(":")));
    let found = find_visible_paths(&settings);
    for (name, is_visible) in [
        ("bin", true),
        (".local/bin", true),
        (".local/lib", true),
        ("venv", true),
        ("", false),
        (".local", false),
        (".local/share", false),
    ] {
        assert_eq!(found.contains(&path(name)), is_visible, "{name}: {found:?}");
    }
    assert!(!found.contains(&PathBuf::from("/")));
}
