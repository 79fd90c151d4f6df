//! Validated names. A name is checked once, on creation.
//!
//! Owns the naming rules. A name is a shared string: a clone costs a reference count.

use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::text::{excerpt, string_newtype};

/// Error for a text that cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty.
    #[error("{kind} is empty")]
    Empty {
        /// Kind of name.
        kind: &'static str,
    },
    /// The name has more characters than the kind allows.
    #[error("{kind} has {length} characters, at most {longest} are allowed")]
    TooLong {
        /// Kind of name.
        kind: &'static str,
        /// Number of characters.
        length: usize,
        /// Maximum number of characters.
        longest: usize,
    },
    /// The name has a character that is not allowed at its position.
    #[error("{kind} `{name}` has {found:?} as character {at}; allowed: {rule}")]
    Character {
        /// Kind of name.
        kind: &'static str,
        /// The name, shortened if long.
        name: String,
        /// The character.
        found: char,
        /// Position of the character, from 1.
        at: usize,
        /// Allowed characters.
        rule: &'static str,
    },
    /// A path has an empty segment, or `.` or `..` as a segment.
    #[error(
        "{kind} `{name}` has the segment `{segment}`; a segment must not be empty, `.` or `..`"
    )]
    Segment {
        /// Kind of name.
        kind: &'static str,
        /// The path, shortened if long.
        name: String,
        /// The segment, possibly empty.
        segment: String,
    },
}

/// Rule for a kind of name.
struct NameRule {
    kind: &'static str,
    longest: usize,
    /// Description of the allowed characters.
    allowed: &'static str,
    /// Returns true if a character is allowed at a position, from 0.
    accepts: fn(usize, char) -> bool,
}

impl NameRule {
    fn check(&self, name: &str) -> Result<(), NameError> {
        let kind = self.kind;
        if name.is_empty() {
            return Err(NameError::Empty { kind });
        }
        let length = name.chars().count();
        if length > self.longest {
            return Err(NameError::TooLong { kind, length, longest: self.longest });
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
            $( ignores_leading: $ignored:literal, )?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            const RULE: NameRule = NameRule {
                kind: $kind,
                longest: $longest,
                allowed: $allowed,
                accepts: $accepts,
            };

            /// Returns the name, or an error if the text breaks the rule.
            pub fn new(name: impl Into<Arc<str>>) -> Result<Self, NameError> {
                let name = name.into();
                $(
                    let stripped = name.trim_start_matches($ignored);
                    let name = if stripped.len() == name.len() { name } else { stripped.into() };
                )?
                Self::check(&name)?;
                Ok(Self(name))
            }

            fn check(name: &str) -> Result<(), NameError> {
                Self::RULE.check(name)?;
                $( $also(&Self::RULE, name)?; )?
                Ok(())
            }

            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        string_newtype!($name);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), self.as_str())
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

        // No rule allows NUL, so a name is always a valid text.
        impl From<&$name> for crate::text::Text {
            fn from(name: &$name) -> Self {
                Self::from_trusted(Arc::clone(&name.0))
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::text::deserialize(deserializer, $kind, |name| Self::new(name))
            }
        }

        #[cfg(feature = "schema")]
        crate::schema::inline_schema!($name, |_generator| crate::schema::name_schema($longest));
    };
}

name! {
    /// Name of a step, unique in its playbook.
    pub struct StepName {
        kind: "step name",
        longest: 128,
        allowed: "letters, digits, `_`, `-` and `/`, a letter or `_` first (ASCII)",
        accepts: is_step_char,
    }
}

name! {
    /// Name of a tenant. Used as one token of a NATS subject and one segment of an object key.
    pub struct TenantId {
        kind: "tenant",
        longest: 64,
        allowed: "letters, digits, `_` and `-`, a letter or digit first (ASCII)",
        accepts: is_subject_token_char,
    }
}

name! {
    /// Name of an organization within a tenant. Follows the rule of tenant names.
    pub struct OrganizationId {
        kind: "organization",
        longest: 64,
        allowed: "letters, digits, `_` and `-`, a letter or digit first (ASCII)",
        accepts: is_subject_token_char,
    }
}

name! {
    /// Name of a worker pool. Used as one token of a NATS subject.
    pub struct PoolName {
        kind: "pool name",
        longest: 64,
        allowed: "letters, digits, `_` and `-`, a letter or digit first (ASCII)",
        accepts: is_subject_token_char,
    }
}

name! {
    /// Path of a document in the catalog, such as `etl/nightly`.
    ///
    /// Blanks are allowed inside, because a document without a path is stored under its name. A
    /// path from the root (`/etl/nightly`) is the same path.
    pub struct PlaybookPath {
        kind: "playbook path",
        longest: 512,
        allowed: "printable characters but `\\`, `?`, `#`, `%` and `*`, no blank at either end",
        accepts: is_path_char,
        also: check_path_segments,
        ignores_leading: '/',
    }
}

name! {
    /// Name that a worker chooses for itself. It only needs to be printable.
    pub struct WorkerId {
        kind: "worker id",
        longest: 255,
        allowed: "printable characters",
        accepts: |_, c| !c.is_control(),
    }
}

fn is_step_char(at: usize, c: char) -> bool {
    c == '_' || c.is_ascii_alphabetic() || at > 0 && (matches!(c, '-' | '/') || c.is_ascii_digit())
}

fn is_path_char(at: usize, c: char) -> bool {
    let is_inner_blank = c == ' ' && at > 0;
    let is_reserved = matches!(c, '\\' | '?' | '#' | '%' | '*');
    is_inner_blank || !(c.is_control() || c.is_whitespace() || is_reserved)
}

fn is_subject_token_char(at: usize, c: char) -> bool {
    c.is_ascii_alphanumeric() || at > 0 && (c == '_' || c == '-')
}

/// Rejects empty segments, segments that climb the tree, and a trailing blank.
fn check_path_segments(rule: &NameRule, path: &str) -> Result<(), NameError> {
    if path.ends_with(' ') {
        return Err(NameError::Character {
            kind: rule.kind,
            name: excerpt(path),
            found: ' ',
            at: path.chars().count(),
            rule: rule.allowed,
        });
    }
    match path.split('/').find(|part| matches!(*part, "" | "." | "..")) {
        None => Ok(()),
        Some(segment) => Err(NameError::Segment {
            kind: rule.kind,
            name: excerpt(path),
            segment: segment.to_owned(),
        }),
    }
}

/// Default tenant and organization. Every event carries both, so the text is shared.
static DEFAULT_NAME: LazyLock<Arc<str>> = LazyLock::new(|| "default".into());

impl Default for TenantId {
    fn default() -> Self {
        Self(Arc::clone(&DEFAULT_NAME))
    }
}

impl Default for OrganizationId {
    fn default() -> Self {
        Self(Arc::clone(&DEFAULT_NAME))
    }
}

impl PlaybookPath {
    /// Path prefix of the platform's own maintenance playbooks.
    pub const SYSTEM_PREFIX: &str = "system/";

    /// True if the playbook belongs to the platform.
    pub fn is_system(&self) -> bool {
        self.0.starts_with(Self::SYSTEM_PREFIX)
    }
}

impl PoolName {
    /// Returns the pool of ordinary playbooks.
    pub fn shared() -> Self {
        Self("shared".into())
    }

    /// Prefix of the pools of local runs. Each process that runs playbooks without a server has its
    /// own pool.
    pub const LOCAL_PREFIX: &str = "local-";

    /// True if the pool belongs to a process that runs playbooks without a server.
    pub fn is_local(&self) -> bool {
        self.0.starts_with(Self::LOCAL_PREFIX)
    }

    /// Returns the pool of the playbooks that ship with the product.
    pub fn system() -> Self {
        Self("system".into())
    }

    /// Returns the queue of this pool for a tenant. The queue of the default tenant has the bare
    /// pool name. Other queues have the tenant and a dot as prefix; a dot cannot occur in a name.
    #[must_use]
    pub fn tenant_queue(&self, tenant_id: &TenantId) -> Self {
        if *tenant_id == TenantId::default() {
            return self.clone();
        }
        Self(format!("{tenant_id}.{}", self.0).into())
    }

    /// Returns the pool of this queue if the queue belongs to the tenant; otherwise `None`.
    pub fn pool_for_tenant(&self, tenant_id: &TenantId) -> Option<Self> {
        let (owner, pool) = match self.0.split_once('.') {
            Some((owner, pool)) => (owner, pool),
            None => (&**DEFAULT_NAME, &*self.0),
        };
        (owner == tenant_id.as_str()).then(|| Self(pool.into()))
    }

    /// Returns the tenant and the pool of this queue.
    pub fn split_tenant(&self) -> (TenantId, Self) {
        match self.0.split_once('.') {
            Some((owner, pool)) => (TenantId(owner.into()), Self(pool.into())),
            None => (TenantId::default(), self.clone()),
        }
    }

    /// Parses the name of a pool or of a tenant's queue.
    pub fn parse_queue(text: &str) -> Result<Self, NameError> {
        match text.split_once('.') {
            Some((owner, pool)) => Ok(Self::new(pool)?.tenant_queue(&TenantId::new(owner)?)),
            None => Self::new(text),
        }
    }
}

#[cfg(test)]
mod tests;
