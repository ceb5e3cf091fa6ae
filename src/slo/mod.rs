//! How well: which pod replaces which, and how long recovery took. Pure.

pub mod matching;
