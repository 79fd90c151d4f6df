//! Checksums of a replayed state: of each part, and of the whole.
//!
//! They are computed entry by entry, so that a state of any size needs no second copy in memory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::projection::ReplayedState;
use crate::digest::{Digest, Sha256Hasher};
use crate::json::{CanonicalWriter, WriteCanonical};
use crate::text::Text;

/// Checksum of each part, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProjectionChecksums {
    /// Checksum of the execution entry.
    pub execution: Digest,
    /// Checksum of the stages.
    pub stage: Digest,
    /// Checksum of the frames.
    pub frame: Digest,
    /// Checksum of the commands.
    pub command: Digest,
    /// Checksum of the business objects.
    pub business_object: Digest,
    /// Checksum of the loops.
    #[serde(rename = "loop")]
    pub looping: Digest,
}

/// Checksums of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayChecksums {
    /// Checksum of the whole state.
    pub whole: Digest,
    /// Checksum of each part.
    pub parts: ProjectionChecksums,
}

impl ReplayedState {
    /// Computes the checksums: SHA-256 over the canonical form.
    pub fn compute_checksums(&self) -> ReplayChecksums {
        let mut whole = ChecksumBuilder::default();
        let business_object = whole.write_map("business_objects", &self.business_objects);
        let command = whole.write_map("commands", &self.commands);
        whole.write_field("event_count", &self.event_count);
        let execution = whole.write_part("execution", |whole| {
            self.execution.write_canonical(&mut whole.text);
        });
        whole.write_field("execution_id", &self.execution_id);
        let frame = whole.write_map("frames", &self.frames);
        whole.write_field("last_event_id", &self.last_event_id);
        whole.write_field("last_event_type", &self.last_event_type);
        let looping = whole.write_map("loops", &self.loops);
        whole.write_field("organization_id", self.organization_id.as_str());
        let stage = whole.write_map("stages", &self.stages);
        whole.write_field("tenant_id", self.tenant_id.as_str());
        ReplayChecksums {
            whole: whole.finish(),
            parts: ProjectionChecksums {
                execution,
                stage,
                frame,
                command,
                business_object,
                looping,
            },
        }
    }
}

/// Bytes that are hashed at once.
const CHUNK_BYTES: usize = 1 << 12;

/// Computes the checksum of an object while its canonical text is written.
#[derive(Default)]
struct ChecksumBuilder {
    hasher: Sha256Hasher,
    /// Hasher of the current part, if the part has a separate checksum.
    part_hasher: Option<Sha256Hasher>,
    /// Text that is not hashed yet.
    text: CanonicalWriter,
    has_fields: bool,
}

impl ChecksumBuilder {
    fn write_name(&mut self, name: &str) {
        self.text.write_canonical_text(if self.has_fields { "," } else { "{" });
        self.has_fields = true;
        self.text.write_text(name);
        self.text.write_canonical_text(":");
    }

    fn write_field(&mut self, name: &str, value: &(impl WriteCanonical + ?Sized)) {
        if !value.is_absent() {
            self.write_name(name);
            value.write_canonical(&mut self.text);
        }
    }

    /// Writes a field that has a separate checksum.
    fn write_part(&mut self, name: &str, write: impl FnOnce(&mut Self)) -> Digest {
        self.write_name(name);
        self.flush_text();
        self.part_hasher = Some(Sha256Hasher::default());
        write(self);
        self.flush_text();
        self.part_hasher.take().unwrap_or_default().finish()
    }

    fn write_map<E: WriteCanonical>(&mut self, name: &str, map: &BTreeMap<Text, E>) -> Digest {
        self.write_part(name, |whole| {
            whole.text.write_canonical_text("{");
            for (index, (key, entry)) in map.iter().enumerate() {
                if index > 0 {
                    whole.text.write_canonical_text(",");
                }
                key.write_canonical(&mut whole.text);
                whole.text.write_canonical_text(":");
                entry.write_canonical(&mut whole.text);
                if whole.text.as_bytes().len() >= CHUNK_BYTES {
                    whole.flush_text();
                }
            }
            whole.text.write_canonical_text("}");
        })
    }

    fn flush_text(&mut self) {
        let bytes = self.text.as_bytes();
        self.hasher.update(bytes);
        if let Some(part_hasher) = &mut self.part_hasher {
            part_hasher.update(bytes);
        }
        self.text.clear();
    }

    fn finish(mut self) -> Digest {
        self.text.write_canonical_text("}");
        self.flush_text();
        self.hasher.finish()
    }
}

#[cfg(test)]
mod tests;
