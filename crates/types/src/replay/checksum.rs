//! Checksums of a replayed state: of each part, and of the whole.
//!
//! They are taken entry by entry, so that a state of any size is summed without a second copy of it
//! in memory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::projection::Replayed;
use crate::digest::{Digest, Hasher};
use crate::json::{CanonicalWriter, WriteCanonical};
use crate::text::Text;

/// The checksum of each part, under its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProjectionChecksums {
    /// Of the execution as a whole.
    pub execution: Digest,
    /// Of the stages.
    pub stage: Digest,
    /// Of the frames.
    pub frame: Digest,
    /// Of the commands.
    pub command: Digest,
    /// Of the business objects.
    pub business_object: Digest,
    /// Of the loops.
    #[serde(rename = "loop")]
    pub looping: Digest,
}

/// The checksums of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    /// Of the whole.
    pub whole: Digest,
    /// Of each part.
    pub parts: ProjectionChecksums,
}

impl Replayed {
    /// The checksums: SHA-256 over the canonical form.
    pub fn checksums(&self) -> Sums {
        let mut whole = Whole::default();
        let business_object = whole.map("business_objects", &self.business_objects);
        let command = whole.map("commands", &self.commands);
        whole.field("event_count", &self.event_count);
        let execution = whole.part("execution", |whole| {
            self.execution.write_canonical(&mut whole.text);
        });
        whole.field("execution_id", &self.execution_id.get());
        let frame = whole.map("frames", &self.frames);
        if let Some(id) = &self.last_event_id {
            whole.field("last_event_id", id);
        }
        if let Some(name) = &self.last_event_type {
            whole.field("last_event_type", name);
        }
        let looping = whole.map("loops", &self.loops);
        whole.field("organization_id", self.organization_id.as_str());
        let stage = whole.map("stages", &self.stages);
        whole.field("tenant_id", self.tenant_id.as_str());
        Sums {
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

/// Bytes that are summed together.
const CHUNK: usize = 1 << 12;

/// The object whose canonical text is being summed.
#[derive(Default)]
struct Whole {
    hasher: Hasher,
    /// Of the part that is being written, if it is summed for itself as well.
    part: Option<Hasher>,
    /// What is not summed yet.
    text: CanonicalWriter,
    has_fields: bool,
}

impl Whole {
    fn name(&mut self, name: &str) {
        self.text.raw(if self.has_fields { b"," } else { b"{" });
        self.has_fields = true;
        self.text.text(name);
        self.text.raw(b":");
    }

    fn field(&mut self, name: &str, value: &(impl WriteCanonical + ?Sized)) {
        self.name(name);
        value.write_canonical(&mut self.text);
    }

    /// A field that has a checksum of its own.
    fn part(&mut self, name: &str, write: impl FnOnce(&mut Self)) -> Digest {
        self.name(name);
        self.sum();
        self.part = Some(Hasher::default());
        write(self);
        self.sum();
        self.part.take().unwrap_or_default().finish()
    }

    fn map<E: WriteCanonical>(&mut self, name: &str, map: &BTreeMap<Text, E>) -> Digest {
        self.part(name, |whole| {
            whole.text.raw(b"{");
            for (index, (key, entry)) in map.iter().enumerate() {
                if index > 0 {
                    whole.text.raw(b",");
                }
                key.write_canonical(&mut whole.text);
                whole.text.raw(b":");
                entry.write_canonical(&mut whole.text);
                if whole.text.bytes().len() >= CHUNK {
                    whole.sum();
                }
            }
            whole.text.raw(b"}");
        })
    }

    fn sum(&mut self) {
        let bytes = self.text.bytes();
        self.hasher.update(bytes);
        if let Some(part) = &mut self.part {
            part.update(bytes);
        }
        self.text.clear();
    }

    fn finish(mut self) -> Digest {
        self.text.raw(b"}");
        self.sum();
        self.hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::sha256;
    use crate::id::{EventId, ExecutionId};
    use crate::json::{Json, to_canonical};
    use crate::replay::{EventNumber, LoopEntry, PayloadRef, ReferenceSummary};

    fn state() -> Replayed {
        let mut state = Replayed::new(
            crate::TenantId::default(),
            crate::OrganizationId::default(),
            ExecutionId::new(7).unwrap(),
        );
        state.event_count = 2;
        state.last_event_id = Some(EventNumber(EventId::new(9).unwrap()));
        state.last_event_type = Some(crate::EventType::StepEnter.into());
        state.execution.payload_refs.push(PayloadRef {
            event_id: "9".into(),
            reference: Json::from_f64(1e300).unwrap(),
            summary: ReferenceSummary {
                r#ref: Some("x".into()),
                ..ReferenceSummary::default()
            },
        });
        for id in ["b", "a\n"] {
            let entry = LoopEntry {
                completed: false,
                done: 1,
                failed: 0,
                last_event_id: EventNumber(EventId::new(9).unwrap()),
                loop_id: id.into(),
                step_name: None,
                total: Some(3),
            };
            state.loops.insert(id.into(), entry);
        }
        state
    }

    /// Piece by piece comes to the same as at once.
    #[test]
    fn the_sums_are_those_of_the_canonical_text() {
        let state = state();
        let sums = state.checksums();
        assert_eq!(sums.whole, sha256(to_canonical(&state)));
        let text = serde_json::to_string(&state).unwrap();
        let wire: Json = serde_json::from_str(&text).unwrap();
        assert_eq!(to_canonical(&wire), to_canonical(&state));
        let part = |name: &str| sha256(to_canonical(wire.get(name).unwrap()));
        assert_eq!(sums.parts.execution, part("execution"));
        assert_eq!(sums.parts.looping, part("loops"));
        assert_eq!(sums.parts.stage, sha256(b"{}"));
        assert_eq!(serde_json::from_str::<Replayed>(&text).unwrap(), state);
    }

    #[test]
    fn the_canonical_text() {
        let text = String::from_utf8(to_canonical(&state())).unwrap();
        insta::assert_snapshot!(text);
    }
}
