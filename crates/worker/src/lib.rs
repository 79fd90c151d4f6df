//! The worker: leases commands, runs them, and reports.
