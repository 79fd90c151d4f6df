//! Settings of encryption keys and of the audit log of secrets.

use super::{Setting, parsers};

pub(crate) static ENCRYPTION_KEY: Setting<String> = Setting::optional(
    "NOETL_ENCRYPTION_KEY",
    "for a database file, generated once next to it",
    parsers::parse_text,
    "Key that encrypts secrets: base64 of 32 bytes",
)
.mark_secret();

pub(crate) static ENCRYPTION_KEYS_OLD: Setting<String> = Setting::optional(
    "NOETL_ENCRYPTION_KEYS_OLD",
    "none",
    parsers::parse_text,
    "Earlier keys, separated by commas, used only for decryption",
)
.mark_secret();

pub(crate) static SECRET_AUDIT_REQUIRED: Setting<bool> = Setting::new(
    "NOETL_SECRET_AUDIT_REQUIRED",
    "true",
    parsers::parse_bool,
    "Release a secret only after the operation is in the audit log",
);
