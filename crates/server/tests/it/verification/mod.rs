//! Everything that is changed in the database by SQL is found and named, and an untouched database
//! passes.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod anchors;
mod fixture;
mod flipped_bits;
mod rows;

/// Runs each case on SQLite and on PostgreSQL.
macro_rules! on_both_databases {
    ($($case:ident,)+) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case(crate::verification::fixture::TestStore::sqlite()).await;
                }
            )+
        }
        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case(crate::verification::fixture::TestStore::postgres().await).await;
                }
            )+
        }
    };
}

pub(crate) use on_both_databases;
