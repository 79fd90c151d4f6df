use super::Database;

#[test]
fn every_database_is_empty_and_ones_own() {
    let first = Database::new().unwrap();
    let second = Database::new().unwrap();
    first.run("CREATE TABLE here (n int)").unwrap();
    let refused = second.run("SELECT * FROM here").unwrap_err();
    assert!(refused.to_string().contains("does not exist"), "{refused}");
    assert_ne!(first.config(), second.config());
}
