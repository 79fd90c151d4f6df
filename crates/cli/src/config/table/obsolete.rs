//! Obsolete settings of earlier releases that deployments may still set.

use super::super::setting::SettingInfo;
use super::{Setting, parsers};

/// All obsolete settings. A value other than the former default causes a warning.
pub(crate) static OBSOLETE_SETTINGS: [&SettingInfo; 2] = [&RUNTIME_SWEEP.info, &AUTO_RECREATE.info];

pub(crate) static RUNTIME_SWEEP: Setting<u32> = Setting::new(
    "NOETL_RUNTIME_SWEEP_INTERVAL",
    "30",
    parsers::parse_number::<1, 3600>,
    "No effect: the status of a worker is determined when it is queried",
);

pub(crate) static AUTO_RECREATE: Setting<bool> = Setting::new(
    "NOETL_AUTO_RECREATE_RUNTIME",
    "true",
    parsers::parse_bool,
    "No effect: a process that is no longer registered registers itself again",
);
