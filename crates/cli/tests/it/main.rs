//! Integration tests of the binary, in one binary.

mod cli;
mod system;
