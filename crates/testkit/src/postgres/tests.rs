use std::process::{Command, Stdio};

use super::{Cluster, Database, Role};

#[test]
fn every_database_is_empty_and_ones_own() {
    let first = Database::new().unwrap();
    let second = Database::new().unwrap();
    first.run("CREATE TABLE here (n int)").unwrap();
    let refused = second.run("SELECT * FROM here").unwrap_err();
    assert!(refused.to_string().contains("does not exist"), "{refused}");
    assert_ne!(first.config(), second.config());
}

#[test]
fn a_cluster_of_ones_own_goes_with_its_value() {
    let cluster = Cluster::own(&["work_mem=7MB"], Role::Primary).unwrap();
    let refused = cluster
        .psql("postgres", "SELECT current_setting('work_mem')::int")
        .unwrap_err();
    assert!(refused.to_string().contains("7MB"), "{refused}");
    let folder = cluster.socket_folder().to_owned();
    let other = cluster.clone();
    drop(cluster);
    other.psql("postgres", "SELECT 1").unwrap();
    drop(other);
    assert!(!folder.exists());
}

#[test]
fn a_cluster_that_is_killed_starts_again_as_it_was() {
    let cluster = Cluster::own(&["work_mem=7MB"], Role::Primary).unwrap();
    let database = Database::of(&cluster).unwrap();
    database.run("CREATE TABLE here AS SELECT 1 AS n").unwrap();
    for _ in 0..2 {
        cluster.kill().unwrap();
        database.run("SELECT 1").unwrap_err();
        cluster.kill().unwrap_err();
        cluster.start_again().unwrap();
        database.run("SELECT 1 / n FROM here").unwrap();
        let refused = database
            .run("SELECT current_setting('work_mem')::int")
            .unwrap_err();
        assert!(refused.to_string().contains("7MB"), "{refused}");
    }
    let folder = cluster.socket_folder().to_owned();
    drop((cluster, database));
    assert!(!folder.exists());
}

#[test]
fn a_cluster_of_others_is_not_killed() {
    let database = Database::new().unwrap();
    let refused = database.cluster().kill().unwrap_err();
    assert_eq!(refused.to_string(), "others use the cluster");
    database.run("SELECT 1").unwrap();
}

#[test]
#[ignore = "it is run, and killed, by the test below"]
fn child_that_never_ends() {
    let cluster = Cluster::own(&[], Role::Primary).unwrap();
    println!("folder {}", cluster.socket_folder().display());
    loop {
        std::thread::park();
    }
}

/// A kill gives nobody the time to clean up, so somebody else has to.
#[test]
fn a_cluster_goes_with_a_process_that_is_killed() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture"])
        .arg("postgres::tests::child_that_never_ends")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = std::io::BufReader::new(child.stdout.take().unwrap());
    let folder = std::io::BufRead::lines(output)
        .map_while(Result::ok)
        .find_map(|line| line.split_once("folder ").map(|(_, it)| it.to_owned()))
        .unwrap();
    let folder = std::path::PathBuf::from(folder);
    assert!(folder.join("ready").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    while folder.exists() {
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
}
