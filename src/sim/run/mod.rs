//! A whole simulated cluster with controllers, and the ways to run it.
