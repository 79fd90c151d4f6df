//! Syntax of schedules: cron expressions and time zones.
//!
//! Owns validation of the written forms. Computes no firing times: that is the task of the
//! scheduler, which has the clock.

mod cron;
mod field;
mod zone;

pub use cron::{CronError, CronExpression};
pub use field::{CronFieldError, CronFieldErrorKind, CronUnit};
pub use zone::TimeZone;
