//! The control plane: drives executions and answers HTTP.
