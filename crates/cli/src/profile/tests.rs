use super::*;

#[test]
fn profiles_round_trip_and_reject_unknown_keys() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().to_string_lossy().into_owned();
    let env: Env = [("XDG_CONFIG_HOME", home.as_str()), ("T", "secret")].into_iter().collect();
    assert_eq!(ProfileFile::load_file(&env).unwrap(), ProfileFile::default());
    let profile = Profile {
        server: "http://h:1".to_owned(),
        token_env: Some("T".to_owned()),
        token_file: None,
    };
    let mut profiles = ProfileFile { current: Some("a".to_owned()), ..ProfileFile::default() };
    profiles.profiles.insert("a".to_owned(), profile.clone());
    profiles.save_file(&env).unwrap();
    assert_eq!(ProfileFile::load_file(&env).unwrap(), profiles);
    assert_eq!(profile.read_token("a", &env).unwrap().as_deref(), Some("secret"));
    assert!(profile.read_token("a", &Env::default()).is_err());
    let path = ProfileFile::file_path(&env).unwrap();
    assert!(!fs::read_to_string(&path).unwrap().contains("secret"));
    fs::write(&path, "tokn = 'x'\n").unwrap();
    assert!(ProfileFile::load_file(&env).unwrap_err().to_string().contains("tokn"));
}
