//! Integration tests of the store, in one binary.

mod models;
