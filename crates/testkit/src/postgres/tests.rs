use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{ClusterRole, PostgresCluster, TestDatabase};

#[test]
fn databases_are_empty_and_separate() {
    let first = TestDatabase::new().unwrap();
    let second = TestDatabase::new().unwrap();
    first.run_statement("CREATE TABLE here (n int)").unwrap();
    let error = second.run_statement("SELECT * FROM here").unwrap_err();
    assert!(error.to_string().contains("does not exist"), "{error}");
    assert_ne!(first.connection_config(), second.connection_config());
}

#[test]
fn template_is_prepared_once_and_copied() {
    let template = format!("template_{}", std::process::id());
    let prepared = AtomicU32::new(0);
    let copy = || {
        let fill = |config: &str| {
            prepared.fetch_add(1, Ordering::Relaxed);
            let name = config.rsplit_once('=').unwrap().1;
            let cluster = PostgresCluster::shared().unwrap();
            cluster.run_psql(name, "CREATE TABLE here AS SELECT 1 AS n")
        };
        let database = TestDatabase::from_template(&template, fill).unwrap();
        database.run_statement("SELECT n FROM here").unwrap();
        database.run_statement("DROP TABLE here").unwrap();
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(copy);
        }
    });
    assert_eq!(prepared.into_inner(), 1);
}

/// A template whose first caller failed is prepared again.
#[test]
fn incomplete_template_is_replaced() {
    let template = format!("incomplete_{}", std::process::id());
    let fail = |_: &str| Err(std::io::Error::other("failed on purpose"));
    TestDatabase::from_template(&template, fail).unwrap_err();
    TestDatabase::from_template(&template, |_| Ok(())).unwrap();
}

#[test]
fn private_cluster_is_removed_with_value() {
    let cluster = PostgresCluster::start_private(&["work_mem=7MB"], ClusterRole::Primary).unwrap();
    let error =
        cluster.run_psql("postgres", "SELECT current_setting('work_mem')::int").unwrap_err();
    assert!(error.to_string().contains("7MB"), "{error}");
    let folder = cluster.socket_folder().to_owned();
    let other = cluster.clone();
    drop(cluster);
    other.run_psql("postgres", "SELECT 1").unwrap();
    drop(other);
    assert!(!folder.exists());
}

#[test]
fn killed_cluster_restarts_with_data() {
    let cluster = PostgresCluster::start_private(&["work_mem=7MB"], ClusterRole::Primary).unwrap();
    let database = TestDatabase::in_cluster(&cluster).unwrap();
    database.run_statement("CREATE TABLE here AS SELECT 1 AS n").unwrap();
    for _ in 0..2 {
        cluster.kill_cluster().unwrap();
        database.run_statement("SELECT 1").unwrap_err();
        cluster.kill_cluster().unwrap_err();
        cluster.restart_after_kill().unwrap();
        database.run_statement("SELECT 1 / n FROM here").unwrap();
        let error = database.run_statement("SELECT current_setting('work_mem')::int").unwrap_err();
        assert!(error.to_string().contains("7MB"), "{error}");
    }
    let folder = cluster.socket_folder().to_owned();
    drop((cluster, database));
    assert!(!folder.exists());
}

#[test]
fn shared_cluster_is_not_killed() {
    let database = TestDatabase::new().unwrap();
    let error = database.cluster().kill_cluster().unwrap_err();
    assert_eq!(error.to_string(), "the cluster is shared");
    database.run_statement("SELECT 1").unwrap();
}

#[test]
#[ignore = "run and killed by the test below"]
fn child_that_never_ends() {
    let cluster = PostgresCluster::start_private(&[], ClusterRole::Primary).unwrap();
    println!("folder {}", cluster.socket_folder().display());
    loop {
        std::thread::park();
    }
}

/// A killed process cannot clean up, so the supervisor has to.
#[test]
fn cluster_is_removed_when_process_is_killed() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture"])
        .arg("postgres::tests::child_that_never_ends")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = std::io::BufReader::new(child.stdout.take().unwrap());
    let folder = std::io::BufRead::lines(output)
        .map_while(Result::ok)
        .find_map(|line| line.split_once("folder ").map(|(_, folder)| folder.to_owned()))
        .unwrap();
    let folder = std::path::PathBuf::from(folder);
    assert!(folder.join("ready").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    while folder.exists() {
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
}
