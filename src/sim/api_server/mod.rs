//! A Kubernetes API server that lives in the process.
