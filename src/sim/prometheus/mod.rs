//! A Prometheus that lives in the process.
