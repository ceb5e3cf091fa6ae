//! The loop on real servers, from a line in a kernel log to a node that is
//! given back, and what may go wrong on the way.

mod bad_input;
mod budget;
mod dra;
mod failure;
mod outages;
mod people;
mod policy;
mod restarts;
mod story;
mod world;
