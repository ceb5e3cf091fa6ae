//! A page of text that is compressed while it is written, so that it is never whole in memory. One of protobuf is: its library
//! writes no other.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt;
use std::io::{self, Write};

/// What is written is compressed in pieces of about this size: one call for each few bytes would take longer than its work.
const PIECE: usize = 32 * 1024;
/// A page that repeats itself as metrics do has a twentieth of its size; more room is taken where it is needed.
const ROOM: usize = 24 * 1024;
/// What is smaller fits into one packet as it is.
const WORTH_COMPRESSING: usize = 1024;

/// A page that is being written. At the lowest level: metrics repeat themselves so much that a higher one costs time and
/// saves little.
pub(super) struct Compressed {
    piece: String,
    /// There is none before the first piece is full.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

/// A page, and whether it is compressed.
pub(super) struct Written {
    pub(super) body: Vec<u8>,
    pub(super) compressed: bool,
}

impl Compressed {
    pub(super) fn new() -> Self {
        Self {
            piece: String::with_capacity(PIECE),
            encoder: None,
        }
    }

    /// The whole page; as it is where it is too small to be worth compressing.
    pub(super) fn finish(self) -> io::Result<Written> {
        let Self { piece, encoder } = self;
        if encoder.is_none() && piece.len() < WORTH_COMPRESSING {
            return Ok(Written {
                body: piece.into_bytes(),
                compressed: false,
            });
        }
        finish(encoder.unwrap_or_else(gzip), piece.as_bytes())
    }
}

impl fmt::Write for Compressed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.piece.len() + text.len() > PIECE {
            // It writes into memory, which does not fail.
            self.encoder
                .get_or_insert_with(gzip)
                .write_all(self.piece.as_bytes())
                .map_err(|_| fmt::Error)?;
            self.piece.clear();
        }
        self.piece.push_str(text);
        Ok(())
    }
}

/// The same of a page that is there already.
pub(super) fn compress(page: Vec<u8>) -> io::Result<Written> {
    match page.len() < WORTH_COMPRESSING {
        true => Ok(Written {
            body: page,
            compressed: false,
        }),
        false => finish(gzip(), &page),
    }
}

fn gzip() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::with_capacity(ROOM), Compression::fast())
}

fn finish(mut encoder: GzEncoder<Vec<u8>>, rest: &[u8]) -> io::Result<Written> {
    encoder.write_all(rest)?;
    Ok(Written {
        body: encoder.finish()?,
        compressed: true,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use flate2::read::GzDecoder;
    use proptest::prelude::*;
    use std::fmt::Write as _;
    use std::io::Read;

    fn read(written: &Written) -> String {
        if !written.compressed {
            return String::from_utf8(written.body.clone()).unwrap();
        }
        let mut text = String::new();
        let mut decoder = GzDecoder::new(written.body.as_slice());
        decoder.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn what_fits_into_a_packet_is_left_as_it_is() {
        for (length, compressed) in [
            (0, false),
            (WORTH_COMPRESSING - 1, false),
            (WORTH_COMPRESSING, true),
            (PIECE, true),
            (PIECE + 1, true),
        ] {
            let text = "x".repeat(length);
            let mut page = Compressed::new();
            page.write_str(&text).unwrap();
            let whole = compress(text.clone().into_bytes()).unwrap();
            for written in [page.finish().unwrap(), whole] {
                assert_eq!(written.compressed, compressed, "{length}");
                assert_eq!(read(&written), text);
            }
        }
    }

    #[test]
    fn a_large_page_is_never_whole_in_memory() {
        let mut page = Compressed::new();
        for line in 0..200_000 {
            writeln!(page, "a_metric{{line=\"{line}\"}} 1").unwrap();
            assert!(page.piece.capacity() <= PIECE);
        }
        let written = page.finish().unwrap();
        assert_eq!(read(&written).lines().count(), 200_000);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            pieces in proptest::collection::vec((0usize..3 * PIECE, any::<char>()), 0..6),
        ) {
            let (mut page, mut all) = (Compressed::new(), String::new());
            for (length, letter) in pieces {
                let piece: String = std::iter::repeat_n(letter, length / letter.len_utf8()).collect();
                page.write_str(&piece).unwrap();
                all.push_str(&piece);
            }
            prop_assert_eq!(read(&page.finish().unwrap()), all);
        }
    }
}
