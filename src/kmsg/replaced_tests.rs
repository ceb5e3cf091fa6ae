//! Files that are put in place, moved away, copied and removed while they are followed.
#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::tests::{Reader, SOON, append};
use super::*;

/// An Xid whose line is read as late would not be known as the one that NVML told of.
const LATE: Duration = Duration::from_secs(1);

#[test]
fn what_is_in_a_file_that_is_put_in_place_is_history() {
    let directory = tempfile::tempdir().unwrap();
    let (path, next) = (
        directory.path().join("kern.log"),
        directory.path().join("next"),
    );
    let put = |text: &str| {
        append(&next, text);
        // Until the kernel's clock has ticked: then its renaming is later than its last line.
        let other = directory.path().join("other");
        let is_moved = || {
            let now = std::fs::metadata(&next).unwrap();
            (now.ctime(), now.ctime_nsec()) > (now.mtime(), now.mtime_nsec())
        };
        while !is_moved() {
            std::fs::rename(&next, &other).unwrap();
            std::fs::rename(&other, &next).unwrap();
        }
        std::fs::rename(&next, &path).unwrap();
    };
    let reader = Reader::start(&path);
    let deadline = Instant::now() + SOON;
    while reader.counters.errors.load(Ordering::Relaxed) == 0 {
        assert!(Instant::now() < deadline, "it was never looked");
        std::thread::yield_now();
    }
    put("[   12.345678] a\nb\n");
    assert_eq!(reader.next(), ("[   12.345678] a".to_owned(), None));
    assert_eq!(reader.next(), ("b".to_owned(), None));
    put("May 10 09:00:00 node kernel: c\n");
    assert_eq!(reader.next().1, None);
}

#[test]
fn a_copy_of_the_log_in_its_place_is_read_on_and_not_again() {
    let directory = tempfile::tempdir().unwrap();
    let (path, next) = (
        directory.path().join("kern.log"),
        directory.path().join("next"),
    );
    append(&path, "[   12.345678] a\n[   12.345679] b\n");
    let reader = Reader::start(&path);
    assert_eq!(reader.next().0, "[   12.345678] a");
    assert_eq!(reader.next().0, "[   12.345679] b");
    std::fs::copy(&path, &next).unwrap();
    append(&next, "[   12.345680] c\n");
    std::fs::rename(&next, &path).unwrap();
    assert_eq!(reader.next().0, "[   12.345680] c");
}

#[test]
fn a_file_that_was_moved_away_is_read_on_for_a_while() {
    let directory = tempfile::tempdir().unwrap();
    let (path, old) = (
        directory.path().join("kern.log"),
        directory.path().join("kern.log.1"),
    );
    append(&path, "first\nha");
    let reader = Reader::start(&path);
    assert_eq!(reader.next().0, "first");
    std::fs::rename(&path, &old).unwrap();
    append(&path, "in the new one\n");
    assert_eq!(reader.next().0, "in the new one");
    append(&old, "lf in the old one\n");
    let written = Instant::now();
    let (text, time) = reader.next();
    assert_eq!(text, "half in the old one");
    let took = written.elapsed();
    assert!(took < LATE, "it is told of neither: {took:?}");
    assert!(time.is_some(), "it is news");
    append(&path, "more\n");
    assert_eq!(reader.next().0, "more");
}

#[test]
fn what_is_told_of_the_old_file_does_not_put_off_the_search_for_a_new_one() {
    // A busy machine may be late once.
    let took: Vec<_> = (0..3).map(|_| until_a_new_file_is_read()).collect();
    let least = took.iter().min().unwrap();
    assert!(*least < CHECK * 7 / 5, "each time: {took:?}");
}

/// A file is moved away and a new one is there, and three quarters of a check later the old one is written to.
fn until_a_new_file_is_read() -> Duration {
    let directory = tempfile::tempdir().unwrap();
    let (path, old) = (
        directory.path().join("kern.log"),
        directory.path().join("kern.log.1"),
    );
    append(&path, "first\n");
    let reader = Reader::start(&path);
    assert_eq!(reader.next().0, "first");
    std::fs::rename(&path, &old).unwrap();
    append(&path, "in the new one\n");
    let written = Instant::now();
    std::thread::sleep(CHECK * 3 / 4);
    append(&old, "in the old one\n");
    while reader.next().0 != "in the new one" {}
    written.elapsed()
}

#[test]
fn a_log_that_is_not_there_or_not_read_is_not_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kern.log");
    append(&path, "first\n");
    let reader = Reader::start(&path);
    assert_eq!(reader.next().0, "first");
    let becomes = |open: bool| {
        let deadline = Instant::now() + SOON;
        while reader.counters.open.load(Ordering::Relaxed) != open {
            assert!(Instant::now() < deadline, "open is not {open}");
            std::thread::yield_now();
        }
    };
    becomes(true);
    std::fs::remove_file(&path).unwrap();
    becomes(false);
    append(&path, "second\n");
    becomes(true);
    assert_eq!(reader.next().0, "second");

    let counters = Counters::default();
    let panics = std::panic::AssertUnwindSafe(|| {
        KernelLog::new(&path).follow(&counters, || false, |_| panic!("as a bug would"));
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    assert!(!counters.open.load(Ordering::Relaxed));
}
