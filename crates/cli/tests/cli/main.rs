//! The command as its users meet it: the real binary, its output and its exit codes.
#![cfg(test)]

mod asking;
mod check;
mod diagnostics;
mod explain;
mod graph;
mod help;
mod process;
mod run;
mod serve;
mod streams;
mod support;
