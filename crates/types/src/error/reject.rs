//! Codes of rows that are refused while their batch goes on.

use crate::words::words;

words! {
    /// Why one event of a batch was not stored.
    pub enum RejectCode("a rejection code") {
        MissingExecutionId = "missing_execution_id",
        BadValue = "bad_value",
        IdInFuture = "id_in_future",
        /// The same id with another body.
        IdConflict = "id_conflict",
        TenantMismatch = "tenant_mismatch",
        RetentionDropped = "retention_dropped",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        let words: Vec<&str> = RejectCode::ALL.iter().map(|code| code.as_str()).collect();
        insta::assert_snapshot!(words.join(" "), @"missing_execution_id bad_value id_in_future id_conflict tenant_mismatch retention_dropped");
        for code in RejectCode::ALL {
            assert_eq!(RejectCode::parse(code.as_str()), Ok(*code));
        }
    }
}
