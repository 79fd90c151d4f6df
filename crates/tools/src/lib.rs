//! What a worker can run, one file for each kind.
