//! Names that people and machines give to things, each checked once and then trusted.
//!
//! Owns what a name may look like. A name is a shared text: a clone costs a reference count.

use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::text::excerpt;

/// Why a text cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing is there.
    #[error("{kind} is empty")]
    Empty {
        /// What the name is of.
        kind: &'static str,
    },
    /// More characters than the kind allows.
    #[error("{kind} has {length} characters, at most {longest} are allowed")]
    TooLong {
        /// What the name is of.
        kind: &'static str,
        /// Its number of characters.
        length: usize,
        /// The number allowed.
        longest: usize,
    },
    /// A character that the kind does not allow there.
    #[error("{kind} `{name}` has {found:?} as character {at}; allowed: {rule}")]
    Character {
        /// What the name is of.
        kind: &'static str,
        /// The name, shortened where it is long.
        name: String,
        /// The character.
        found: char,
        /// Its place, counted from 1.
        at: usize,
        /// What is allowed.
        rule: &'static str,
    },
    /// A path with an empty segment, or with `.` or `..` as one.
    #[error("{kind} `{name}` has the segment `{segment}`; segments between slashes must be named")]
    Segment {
        /// What the name is of.
        kind: &'static str,
        /// The path, shortened where it is long.
        name: String,
        /// The segment, which may be empty.
        segment: String,
    },
}

/// What a kind of name allows.
struct Rule {
    kind: &'static str,
    longest: usize,
    /// The allowed characters, in words.
    allowed: &'static str,
    /// Whether a character may stand at a place, counted from 0.
    accepts: fn(usize, char) -> bool,
}

impl Rule {
    fn check(&self, name: &str) -> Result<(), NameError> {
        let kind = self.kind;
        if name.is_empty() {
            return Err(NameError::Empty { kind });
        }
        let length = name.chars().count();
        if length > self.longest {
            return Err(NameError::TooLong {
                kind,
                length,
                longest: self.longest,
            });
        }
        for (at, found) in name.chars().enumerate() {
            if !(self.accepts)(at, found) {
                return Err(NameError::Character {
                    kind,
                    name: excerpt(name),
                    found,
                    at: at + 1,
                    rule: self.allowed,
                });
            }
        }
        Ok(())
    }
}

/// Declares a kind of name by its rule.
macro_rules! name {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            kind: $kind:literal,
            longest: $longest:literal,
            allowed: $allowed:literal,
            accepts: $accepts:expr,
            $( also: $also:expr, )?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            const RULE: Rule = Rule {
                kind: $kind,
                longest: $longest,
                allowed: $allowed,
                accepts: $accepts,
            };

            /// The name, if the text can be one.
            pub fn new(name: impl Into<Arc<str>>) -> Result<Self, NameError> {
                let name = name.into();
                Self::check(&name)?;
                Ok(Self(name))
            }

            fn check(name: &str) -> Result<(), NameError> {
                Self::RULE.check(name)?;
                $( $also(&Self::RULE, name)?; )?
                Ok(())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), self.as_str())
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.as_str() == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.as_str() == *other
            }
        }

        impl std::str::FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = NameError;

            fn try_from(text: &str) -> Result<Self, Self::Error> {
                Self::new(text)
            }
        }

        // No rule allows NUL, so a name is always a text and a JSON value.
        impl From<&$name> for crate::text::Text {
            fn from(name: &$name) -> Self {
                Self::trusted(Arc::clone(&name.0))
            }
        }

        impl From<&$name> for crate::json::Json {
            fn from(name: &$name) -> Self {
                Self::Str(Arc::clone(&name.0))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::text::deserialize(deserializer, $kind, |name| Self::new(name))
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                crate::schema::name(Self::RULE.longest)
            }
        }
    };
}

name! {
    /// Name of a step, unique in its playbook.
    pub struct StepName {
        kind: "step name",
        longest: 128,
        allowed: "letters, digits, `_` and `-`, a letter or `_` first (ASCII)",
        accepts: step_character,
    }
}

name! {
    /// Name of a tenant. It becomes one token of a NATS subject and one segment of an object key.
    pub struct TenantId {
        kind: "tenant",
        longest: 64,
        allowed: "letters, digits, `_` and `-`, a letter or digit first (ASCII)",
        accepts: subject_token,
    }
}

name! {
    /// Name of an organization inside of a tenant; the same rule as for the tenant.
    pub struct OrganizationId {
        kind: "organization",
        longest: 64,
        allowed: "letters, digits, `_` and `-`, a letter or digit first (ASCII)",
        accepts: subject_token,
    }
}

name! {
    /// Name of a pool of workers. It becomes one token of a NATS subject.
    pub struct PoolName {
        kind: "pool name",
        longest: 64,
        allowed: "letters, digits, `_` and `-`, a letter or digit first (ASCII)",
        accepts: subject_token,
    }
}

name! {
    /// Path of a document in the catalog, such as `etl/nightly`.
    ///
    /// Blanks are allowed inside, because a document without a path is filed under its name.
    pub struct PlaybookPath {
        kind: "playbook path",
        longest: 512,
        allowed: "printable characters but `\\`, `?`, `#`, `%` and `*`, no blank at either end",
        accepts: path_character,
        also: named_segments,
    }
}

name! {
    /// Name that a worker gives itself; it need only be printable.
    pub struct WorkerId {
        kind: "worker id",
        longest: 255,
        allowed: "printable characters",
        accepts: |_, c| !c.is_control(),
    }
}

fn step_character(at: usize, c: char) -> bool {
    c == '_' || c.is_ascii_alphabetic() || at > 0 && (c == '-' || c.is_ascii_digit())
}

fn path_character(at: usize, c: char) -> bool {
    let is_inner_blank = c == ' ' && at > 0;
    let is_reserved = matches!(c, '\\' | '?' | '#' | '%' | '*');
    is_inner_blank || !(c.is_control() || c.is_whitespace() || is_reserved)
}

fn subject_token(at: usize, c: char) -> bool {
    c.is_ascii_alphanumeric() || at > 0 && (c == '_' || c == '-')
}

/// A path is a way from name to name: nothing empty, nothing that climbs, no blank at the end.
fn named_segments(rule: &Rule, path: &str) -> Result<(), NameError> {
    if path.ends_with(' ') {
        return Err(NameError::Character {
            kind: rule.kind,
            name: excerpt(path),
            found: ' ',
            at: path.chars().count(),
            rule: rule.allowed,
        });
    }
    match path
        .split('/')
        .find(|part| matches!(*part, "" | "." | ".."))
    {
        None => Ok(()),
        Some(segment) => Err(NameError::Segment {
            kind: rule.kind,
            name: excerpt(path),
            segment: segment.to_owned(),
        }),
    }
}

/// The tenant and organization of an installation that has only one of each. Every event carries
/// both, so the text is shared.
static DEFAULT: LazyLock<Arc<str>> = LazyLock::new(|| "default".into());

impl Default for TenantId {
    fn default() -> Self {
        Self(Arc::clone(&DEFAULT))
    }
}

impl Default for OrganizationId {
    fn default() -> Self {
        Self(Arc::clone(&DEFAULT))
    }
}

impl PlaybookPath {
    /// What the platform's own playbooks, which keep it going, lie under.
    pub const PLATFORM: &str = "system/";

    /// Whether it is that of one of the platform's own.
    pub fn is_of_platform(&self) -> bool {
        self.0.starts_with(Self::PLATFORM)
    }
}

impl PoolName {
    /// The pool of ordinary playbooks.
    pub fn shared() -> Self {
        Self("shared".into())
    }

    /// The pool of the playbooks that ship with the product.
    pub fn system() -> Self {
        Self("system".into())
    }

    /// The pool of what subscriptions start.
    pub fn subscription() -> Self {
        Self("subscription".into())
    }

    /// The queue of this pool among those of all tenants. That of the default tenant has the bare
    /// name; a dot, which no name can have, sets the others apart.
    #[must_use]
    pub fn within(&self, tenant_id: &TenantId) -> Self {
        if *tenant_id == TenantId::default() {
            return self.clone();
        }
        Self(format!("{tenant_id}.{}", self.0).into())
    }

    /// The pool that is a tenant's queue; `None` if the queue is another tenant's.
    pub fn of_tenant(&self, tenant_id: &TenantId) -> Option<Self> {
        let (owner, pool) = match self.0.split_once('.') {
            Some((owner, pool)) => (owner, pool),
            None => (&**DEFAULT, &*self.0),
        };
        (owner == tenant_id.as_str()).then(|| Self(pool.into()))
    }

    /// Whose queue this is, and the pool that it is of.
    pub fn owner(&self) -> (TenantId, Self) {
        match self.0.split_once('.') {
            Some((owner, pool)) => (TenantId(owner.into()), Self(pool.into())),
            None => (TenantId::default(), self.clone()),
        }
    }

    /// Reads the name of a pool, or of a tenant's queue.
    pub fn read_queue(text: &str) -> Result<Self, NameError> {
        match text.split_once('.') {
            Some((owner, pool)) => Ok(Self::new(pool)?.within(&TenantId::new(owner)?)),
            None => Self::new(text),
        }
    }

    /// The pool that runs a playbook unless its caller names one.
    pub fn default_for(path: &PlaybookPath) -> Self {
        match path.as_str().split_once('/') {
            Some(("system", _)) => Self::system(),
            Some(("subscription", _)) => Self::subscription(),
            Some(_) | None => Self::shared(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::Text;

    fn message<T: fmt::Debug>(result: Result<T, NameError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn step_names() {
        for name in ["start", "_x", "a-b", "Load2", &"s".repeat(128)] {
            assert_eq!(StepName::new(name).unwrap(), name);
        }
        assert_eq!(message(StepName::new("")), "step name is empty");
        assert_eq!(
            message(StepName::new("s".repeat(129))),
            "step name has 129 characters, at most 128 are allowed"
        );
        assert_eq!(
            message(StepName::new("load data")),
            "step name `load data` has ' ' as character 5; allowed: letters, digits, `_` and `-`, \
             a letter or `_` first (ASCII)"
        );
        for name in ["2load", "-a", "naïve", "a.b", "a\0"] {
            assert!(StepName::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn names_that_become_subjects() {
        for name in ["default", "acme-7", "A_b"] {
            assert!(TenantId::new(name).is_ok(), "{name}");
            assert!(PoolName::new(name).is_ok(), "{name}");
        }
        for name in ["", "a.b", "a b", "*", ">", "-x", "_x", "ä", &"t".repeat(65)] {
            assert!(TenantId::new(name).is_err(), "{name}");
            assert!(OrganizationId::new(name).is_err(), "{name}");
            assert!(PoolName::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn playbook_paths() {
        for path in [
            "hello",
            "etl/nightly",
            "a/b.c/d-e",
            "My first playbook",
            "größe/τ",
        ] {
            assert!(PlaybookPath::new(path).is_ok(), "{path}");
        }
        for path in [
            "", "/a", "a/", "a//b", "a/../b", ".", " a", "a ", "a\nb", "a\\b", "a?b", "a#b", "a*",
        ] {
            assert!(PlaybookPath::new(path).is_err(), "{path}");
        }
        assert_eq!(
            message(PlaybookPath::new("a/../b")),
            "playbook path `a/../b` has the segment `..`; segments between slashes must be named"
        );
    }

    #[test]
    fn worker_ids() {
        assert!(WorkerId::new("worker-1@host:42 (blue)").is_ok());
        assert!(WorkerId::new("a\nb").is_err());
    }

    #[test]
    fn pools_by_path() {
        for (path, pool) in [
            ("system/projector", "system"),
            ("subscription/orders", "subscription"),
            ("etl/system/x", "shared"),
            ("system", "shared"),
        ] {
            let path = PlaybookPath::new(path).unwrap();
            assert_eq!(PoolName::default_for(&path), pool);
            assert_eq!(path.is_of_platform(), pool == "system", "{path}");
        }
    }

    #[test]
    fn a_queue_belongs_to_one_tenant() {
        let (acme, default) = (TenantId::new("acme").unwrap(), TenantId::default());
        let shared = PoolName::shared();
        assert_eq!(shared.within(&default), shared);
        let theirs = shared.within(&acme);
        assert_eq!(theirs, "acme.shared");
        assert_eq!(theirs.of_tenant(&acme), Some(shared.clone()));
        assert_eq!(theirs.of_tenant(&default), None);
        assert_eq!(shared.of_tenant(&default), Some(shared.clone()));
        assert_eq!(shared.of_tenant(&acme), None);
        assert_eq!(theirs.owner(), (acme, shared.clone()));
        assert_eq!(shared.owner(), (default, shared.clone()));
        assert_eq!(PoolName::read_queue("acme.shared"), Ok(theirs));
        assert_eq!(PoolName::read_queue("shared"), Ok(shared));
        assert!(PoolName::read_queue("a.b.c").is_err());
        assert!(PoolName::new("acme.shared").is_err());
    }

    #[test]
    fn fixed_names_obey_their_own_rules() {
        assert!(TenantId::check(TenantId::default().as_str()).is_ok());
        assert!(OrganizationId::check(OrganizationId::default().as_str()).is_ok());
        for pool in [
            PoolName::shared(),
            PoolName::system(),
            PoolName::subscription(),
        ] {
            assert!(PoolName::check(pool.as_str()).is_ok());
        }
    }

    proptest! {
        #[test]
        fn whatever_is_a_name_is_a_text(name in "\\PC{0,20}|[\\x00-\\x20a-z/]{0,6}") {
            let texts = [
                StepName::new(&*name).map(|name| Text::from(&name)).ok(),
                PlaybookPath::new(&*name).map(|name| Text::from(&name)).ok(),
                WorkerId::new(&*name).map(|name| Text::from(&name)).ok(),
            ];
            for text in texts.into_iter().flatten() {
                prop_assert_eq!(Text::new(&*name).unwrap(), text);
            }
        }

        #[test]
        fn json_form_is_the_text(name in "[A-Za-z_][A-Za-z0-9_-]{0,127}") {
            let step = StepName::new(&*name).unwrap();
            let json = serde_json::to_string(&step).unwrap();
            prop_assert_eq!(&json, &format!("\"{name}\""));
            prop_assert_eq!(serde_json::from_str::<StepName>(&json).unwrap(), step);
        }
    }
}
