//! Rights of callers, and the data that they can see.
//!
//! Owns the checks of tenant, pools, paths, scopes and command tokens. A service method that acts
//! for a caller takes its [`CallContext`].

mod auth_context;
mod call_context;
mod path_globs;
mod visibility;

pub use auth_context::AuthContext;
pub use call_context::CallContext;
pub(crate) use call_context::{ObservedSeq, SecretAuditContext, truncate_audit_name};
pub(crate) use path_globs::validate_globs;
pub(crate) use visibility::ExecutionVisibility;
