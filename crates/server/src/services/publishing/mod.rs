//! Publishing of the log: as rows of the outbox, as a stream of NATS messages, and as a feed.

pub(crate) mod event_stream;
mod outbox;

use std::sync::Arc;

use noetl_store::Store;
use noetl_types::ErrorCode;

use crate::error::{Result, RuntimeError};
use crate::services::Infrastructure;
use crate::services::notifications::NatsMessaging;
use crate::services::waiters::Waiters;
use crate::settings::OutboxSetting;

/// Publishes the log: as rows of the outbox, as a stream of NATS messages, and as a feed.
pub struct Publishing {
    pub(crate) infra: Arc<Infrastructure>,
    /// NATS connection, if configured.
    pub(crate) messaging: Option<Arc<NatsMessaging>>,
    pub(crate) waiters: Arc<Waiters>,
}

/// Returns the use of the outbox by this process. A server whose setting differs from the recorded
/// one changes it for the installation if no other process uses the store, and is refused
/// otherwise.
pub(crate) async fn resolve_outbox(
    store: &dyn Store,
    setting: OutboxSetting,
    is_alone: bool,
) -> Result<OutboxSetting> {
    let is_enabled = match setting {
        OutboxSetting::AsInstalled => {
            let is_enabled = match store.is_outbox_enabled().await? {
                Some(recorded) => recorded,
                None => store.record_outbox_enabled(false, false).await?,
            };
            return Ok(if is_enabled { OutboxSetting::Enabled } else { OutboxSetting::Disabled });
        }
        OutboxSetting::Enabled => true,
        OutboxSetting::Disabled => false,
    };
    if store.record_outbox_enabled(is_enabled, is_alone).await? == is_enabled {
        return Ok(setting);
    }
    let text = if is_enabled {
        "the outbox is disabled in this database, which other processes use; start this server with \
         NOETL_OUTBOX_ENABLED=false, or stop all others first to enable the outbox"
    } else {
        "the outbox is enabled in this database, which other processes use; start this server with \
         NOETL_OUTBOX_ENABLED=true or with their NOETL_INTERNAL_API_TOKEN, or stop all others first \
         to disable the outbox"
    };
    Err(RuntimeError::refused(ErrorCode::IllegalTransition, text))
}
