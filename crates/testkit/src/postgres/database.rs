//! A database for one test.

use std::sync::atomic::{AtomicU32, Ordering};

use super::cluster::{Cluster, PostgresMissing};

/// An empty database of its own, dropped with the value.
#[derive(Debug)]
pub struct Database {
    cluster: Cluster,
    name: String,
    has_roles: bool,
}

impl Database {
    /// Makes a database in the shared cluster.
    pub fn new() -> Result<Self, PostgresMissing> {
        Self::of(&Cluster::shared()?)
    }

    /// Makes a database in the shared cluster that sorts, and knows letters, as a language does. The
    /// programs of PostgreSQL have to be built with ICU, as those of distributions are.
    pub fn in_icu_locale(locale: &str) -> Result<Self, PostgresMissing> {
        let options = format!("TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE '{locale}'");
        Self::made(&Cluster::shared()?, &options)
    }

    /// Makes a database in a given cluster, which lives as long as the value at least.
    pub fn of(cluster: &Cluster) -> Result<Self, PostgresMissing> {
        Self::made(cluster, "")
    }

    fn made(cluster: &Cluster, options: &str) -> Result<Self, PostgresMissing> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("t{}_{count}", std::process::id());
        cluster.psql("postgres", &format!("CREATE DATABASE {name} {options}"))?;
        Ok(Self {
            cluster: cluster.clone(),
            name,
            has_roles: false,
        })
    }

    /// Makes a database in the shared cluster with two roles that are no superusers: one that may make
    /// schemas in it, and one that may do nothing in it yet. Both go with the value.
    pub fn with_roles() -> Result<Self, PostgresMissing> {
        let mut database = Self::new()?;
        let [owner, server] = database.roles();
        let name = &database.name;
        let make = format!(
            "CREATE ROLE {owner} LOGIN; CREATE ROLE {server} LOGIN;
             GRANT CREATE ON DATABASE {name} TO {owner}"
        );
        database.run(&make)?;
        database.has_roles = true;
        Ok(database)
    }

    /// Whether it has the two roles.
    pub fn has_roles(&self) -> bool {
        self.has_roles
    }

    /// The names of the two roles: whoever owns the tables, and whoever works with them.
    pub fn roles(&self) -> [String; 2] {
        ["owner", "server"].map(|role| format!("{}_{role}", self.name))
    }

    /// What the two roles connect with.
    pub fn configs_of_roles(&self) -> [String; 2] {
        self.roles()
            .map(|role| self.cluster.config_as(&role, &self.name))
    }

    /// The cluster that it is in.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// What a client connects with, as `key=value` pairs.
    pub fn config(&self) -> String {
        self.cluster.config(&self.name)
    }

    /// Its name in the cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a statement in the database.
    pub fn run(&self, statement: &str) -> std::io::Result<()> {
        self.cluster.psql(&self.name, statement)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The cluster goes away with the test run; a database that stays until then is no harm.
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        let _ = self.cluster.psql("postgres", &drop);
        if self.has_roles {
            let drop = format!("DROP ROLE {}", self.roles().join(", "));
            let _ = self.cluster.psql("postgres", &drop);
        }
    }
}
