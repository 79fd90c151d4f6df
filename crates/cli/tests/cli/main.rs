//! The command as its users meet it: the real binary, its output and its exit codes.
#![cfg(test)]

mod asking;
mod check;
mod choosing;
mod database;
mod diagnostics;
mod docs;
mod each;
mod encrypted;
mod examples;
mod explain;
mod graph;
mod help;
mod meanwhile;
mod outbox;
mod outside;
mod played;
mod process;
mod replay;
mod run;
mod secrets;
mod serve;
mod streams;
mod support;
mod transcript;
