//! The wire of NoETL: paths, bodies, errors, and the client that speaks them.
