//! Whose data is read and written.

use noetl_types::TenantId;

/// The tenant that every call acts for.
///
/// There is one identity, that of whoever develops on this machine, and it belongs to the default
/// tenant. All code asks here, so that another kind of identity changes this place alone.
pub(crate) fn tenant() -> TenantId {
    TenantId::default()
}
