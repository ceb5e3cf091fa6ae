//! Where in a text the YAML parser found what it cannot read.

use std::ops::Range;

use serde_saphyr::Location;

use super::tree::bytes;

/// The bytes of a location. The ones of syntax errors know their line and column alone.
pub(super) fn place(text: &str, location: Location) -> Range<usize> {
    let known = bytes(location);
    if known.start > 0 || location.line() <= 1 && location.column() <= 1 {
        return known;
    }
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).saturating_sub(1);
    let line_start: usize = text
        .split_inclusive('\n')
        .take(number(location.line()))
        .map(str::len)
        .sum();
    let line = text[line_start..].lines().next().unwrap_or_default();
    let column = line
        .char_indices()
        .nth(number(location.column()))
        .map_or(line.len(), |(at, _)| at);
    line_start + column..line_start + line.len()
}
