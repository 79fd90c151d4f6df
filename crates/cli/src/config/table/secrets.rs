//! Keys of secrets, and the trail of what was done to them.

use super::{Setting, read};

pub(crate) static ENCRYPTION_KEY: Setting<String> = Setting::absent(
    "NOETL_ENCRYPTION_KEY",
    "for a database in a file, made once beside it",
    read::text,
    "Key that secrets are sealed under: base64 of 32 bytes",
)
.secret();

pub(crate) static ENCRYPTION_KEYS_OLD: Setting<String> = Setting::absent(
    "NOETL_ENCRYPTION_KEYS_OLD",
    "none",
    read::text,
    "Earlier keys, with commas between them: they still open what they sealed",
)
.secret();

pub(crate) static SECRET_AUDIT_REQUIRED: Setting<bool> = Setting::new(
    "NOETL_SECRET_AUDIT_REQUIRED",
    "true",
    read::flag,
    "Whether a secret is handed out only once the trail tells of it",
);
