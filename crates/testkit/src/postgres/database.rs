//! Databases for single tests.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::cluster::{PostgresCluster, PostgresMissing};

/// A database for one test, dropped with the value.
#[derive(Debug)]
pub struct TestDatabase {
    cluster: PostgresCluster,
    name: String,
    has_roles: bool,
}

impl TestDatabase {
    /// Creates an empty database in the shared cluster.
    pub fn new() -> Result<Self, PostgresMissing> {
        Self::in_cluster(&PostgresCluster::shared()?)
    }

    /// Creates a database in the shared cluster with the collation and character classes of an ICU
    /// locale. The PostgreSQL programs must be built with ICU, as those of distributions are.
    pub fn in_icu_locale(locale: &str) -> Result<Self, PostgresMissing> {
        let options = format!("TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE '{locale}'");
        Self::create_with(&PostgresCluster::shared()?, &options)
    }

    /// Creates a database in the shared cluster as a copy of a template. The first caller fills the
    /// template: `prepare` gets the connection settings of an empty database, and closes its
    /// connections.
    pub fn from_template(
        template: &str,
        prepare: impl FnOnce(&str) -> io::Result<()>,
    ) -> Result<Self, PostgresMissing> {
        let cluster = PostgresCluster::shared()?;
        ensure_template(&cluster, template, prepare)?;
        Self::create_with(&cluster, &format!("TEMPLATE {template}"))
    }

    /// Creates a database in a given cluster, which runs at least as long as the value.
    pub fn in_cluster(cluster: &PostgresCluster) -> Result<Self, PostgresMissing> {
        Self::create_with(cluster, "")
    }

    fn create_with(cluster: &PostgresCluster, options: &str) -> Result<Self, PostgresMissing> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("t{}_{count}", std::process::id());
        cluster.run_psql("postgres", &format!("CREATE DATABASE {name} {options}"))?;
        Ok(Self { cluster: cluster.clone(), name, has_roles: false })
    }

    /// Creates a database in the shared cluster with two roles that are not superusers: one may
    /// create schemas in it, the other has no privileges yet. Both are dropped with the value.
    pub fn with_roles() -> Result<Self, PostgresMissing> {
        let mut database = Self::new()?;
        let [owner, server] = database.role_names();
        let name = &database.name;
        let statement = format!(
            "CREATE ROLE {owner} LOGIN; CREATE ROLE {server} LOGIN;
             GRANT CREATE ON DATABASE {name} TO {owner}"
        );
        database.run_statement(&statement)?;
        database.has_roles = true;
        Ok(database)
    }

    pub fn has_roles(&self) -> bool {
        self.has_roles
    }

    /// Names of the two roles: the owner of the tables, and the user of the tables.
    pub fn role_names(&self) -> [String; 2] {
        ["owner", "server"].map(|role| format!("{}_{role}", self.name))
    }

    /// Connection settings of the two roles.
    pub fn role_configs(&self) -> [String; 2] {
        self.role_names().map(|role| self.cluster.connection_config_as(&role, &self.name))
    }

    pub fn cluster(&self) -> &PostgresCluster {
        &self.cluster
    }

    /// Connection settings, as `key=value` pairs.
    pub fn connection_config(&self) -> String {
        self.cluster.connection_config(&self.name)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a statement in the database.
    pub fn run_statement(&self, statement: &str) -> io::Result<()> {
        self.cluster.run_psql(&self.name, statement)
    }
}

/// Creates a template unless the cluster has it. One thread of all processes does this at a time.
fn ensure_template(
    cluster: &PostgresCluster,
    template: &str,
    prepare: impl FnOnce(&str) -> io::Result<()>,
) -> Result<(), PostgresMissing> {
    let file = cluster.socket_folder().join(template);
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(file.with_extension("lock"))?;
    // Released with the file.
    lock.lock()?;
    let ready = file.with_extension("ready");
    if !ready.exists() {
        // The caller that created the database may have failed to fill it.
        let remove = format!("DROP DATABASE IF EXISTS {template} WITH (FORCE)");
        for statement in [remove, format!("CREATE DATABASE {template}")] {
            cluster.run_psql("postgres", &statement)?;
        }
        prepare(&cluster.connection_config(template))?;
        File::create(ready)?;
    }
    Ok(())
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // The cluster is removed after the test run, so a database that remains until then does no
        // harm.
        let statement = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        let _ = self.cluster.run_psql("postgres", &statement);
        if self.has_roles {
            let statement = format!("DROP ROLE {}", self.role_names().join(", "));
            let _ = self.cluster.run_psql("postgres", &statement);
        }
    }
}
