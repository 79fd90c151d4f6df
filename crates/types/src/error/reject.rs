//! Codes of events that are rejected while the rest of their batch is stored.

use crate::string_enum::string_enum;

string_enum! {
    /// Reason why one event of a batch was not stored.
    pub enum RejectCode("a rejection code") {
        MissingExecutionId = "missing_execution_id",
        BadValue = "bad_value",
        IdInFuture = "id_in_future",
        /// The id is already in use by an event with a different body.
        IdConflict = "id_conflict",
        TenantMismatch = "tenant_mismatch",
        RetentionDropped = "retention_dropped",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reject_codes_are_stable() {
        let names: Vec<&str> = RejectCode::ALL.iter().map(|code| code.as_str()).collect();
        insta::assert_snapshot!(names.join(" "), @"missing_execution_id bad_value id_in_future id_conflict tenant_mismatch retention_dropped");
        for code in RejectCode::ALL {
            assert_eq!(RejectCode::parse(code.as_str()), Ok(*code));
        }
    }
}
