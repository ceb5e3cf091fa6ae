//! The promises of the product, as checks over the history of a simulated cluster.
