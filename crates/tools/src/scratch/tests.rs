use super::*;

#[test]
fn directories_of_killed_processes_are_deleted() {
    let parent = tempfile::tempdir().unwrap();
    let abandoned = parent.path().join("noetl-tasks-abandoned");
    std::fs::create_dir_all(abandoned.join("noetl-x")).unwrap();
    std::fs::write(abandoned.join("noetl-x/input.json"), "secret").unwrap();
    std::fs::create_dir(parent.path().join("other")).unwrap();
    let first = ScratchDir::create(parent.path()).unwrap();
    assert!(!abandoned.exists());
    let second = ScratchDir::create(parent.path()).unwrap();
    assert!(first.path().exists() && second.path().exists());
    drop((first, second));
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
}
