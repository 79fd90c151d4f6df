//! When a schedule fires: cron expressions and time zones, as far as they can be checked in a text.
//!
//! Owns what may be written. Works out no time: firing is the scheduler's business, and it has the
//! clock.

mod cron;
mod field;
mod zone;

pub use cron::{Cron, CronFault};
pub use field::{FieldFault, FieldFaultKind, Unit};
pub use zone::Zone;
