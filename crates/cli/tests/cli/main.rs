//! The command as its users meet it: the real binary, its output and its exit codes.
#![cfg(test)]

mod check;
mod diagnostics;
mod explain;
mod graph;
mod help;
mod outbox;
mod process;
mod run;
mod serve;
mod streams;
mod support;
