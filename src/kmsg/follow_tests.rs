#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::super::lines::LONGEST_LINE;
use super::*;
use std::io::Write;
use std::sync::{Arc, mpsc};

pub(super) const SOON: Duration = Duration::from_secs(10);

pub(super) struct Reader {
    lines: mpsc::Receiver<(String, Option<Timestamp>)>,
    pub(super) counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Reader {
    pub(super) fn start(path: &Path) -> Self {
        let (sender, lines) = mpsc::channel();
        let (counters, stop) = (
            Arc::new(Counters::default()),
            Arc::new(AtomicBool::new(false)),
        );
        let log = KernelLog::new(path);
        let thread = std::thread::spawn({
            let (counters, stop) = (Arc::clone(&counters), Arc::clone(&stop));
            move || {
                log.follow(
                    &counters,
                    || stop.load(Ordering::Relaxed),
                    |entry| {
                        sender
                            .send((entry.line.text().into_owned(), entry.time()))
                            .unwrap()
                    },
                );
            }
        });
        Self {
            lines,
            counters,
            stop,
            thread: Some(thread),
        }
    }

    pub(super) fn next(&self) -> (String, Option<Timestamp>) {
        self.lines
            .recv_timeout(SOON)
            .expect("a line within the deadline")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

pub(super) fn append(path: &Path, text: &str) {
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn what_was_there_has_the_time_that_it_tells_and_what_comes_is_new() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kern.log");
    // The file was changed just now, as that of a running machine always was. None of this is news.
    append(
        &path,
        "May 10 09:00:00 node kernel: old\n[9999999.123456] old\n[    0.000001] old\n4,1,2,-;old\n2020-01-01T00:00:00Z old\n",
    );
    let reader = Reader::start(&path);
    for _ in 0..4 {
        assert_eq!(reader.next().1, None);
    }
    let told: Timestamp = "2020-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(reader.next().1, Some(told));
    let before = Timestamp::now();
    // The reader must have seen the end of the file before this is anything but history.
    let mut sent = 0;
    loop {
        append(&path, "[    0.000001] new\n");
        sent += 1;
        let (text, time) = reader.next();
        assert_eq!(text, "[    0.000001] new");
        if time.is_some_and(|time| time >= before) {
            break;
        }
        assert!(sent < 1000, "the reader never caught up");
    }
    assert!(reader.counters.open.load(Ordering::Relaxed));
    assert_eq!(reader.counters.lines.load(Ordering::Relaxed), 5 + sent);
}

#[test]
fn the_history_is_read_when_its_last_line_was_handed_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kern.log");
    append(&path, &"old\n".repeat(3 * BUFFER / 4));
    let (counters, mut lines) = (Counters::default(), 0);
    KernelLog::new(&path).follow(
        &counters,
        || counters.caught_up.load(Ordering::Relaxed),
        |_| {
            assert!(!counters.caught_up.load(Ordering::Relaxed));
            assert!(!counters.tried.load(Ordering::Relaxed));
            lines += 1;
        },
    );
    assert_eq!(lines, 3 * BUFFER / 4);
    assert!(counters.tried.load(Ordering::Relaxed));
}

#[test]
fn what_cannot_be_opened_is_tried_and_its_history_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let counters = Counters::default();
    let tried = || counters.tried.load(Ordering::Relaxed);
    KernelLog::new(directory.path()).follow(&counters, tried, |_| {});
    assert!(!counters.caught_up.load(Ordering::Relaxed));
    let missing = directory.path().join("missing");
    let counters = Counters::default();
    let tried = || counters.tried.load(Ordering::Relaxed);
    KernelLog::new(&missing).follow(&counters, tried, |_| {});
    assert!(
        counters.caught_up.load(Ordering::Relaxed),
        "what is not there has none"
    );
}

#[test]
fn half_a_line_waits_for_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kern.log");
    append(&path, "first\nsec");
    let reader = Reader::start(&path);
    assert_eq!(reader.next().0, "first");
    append(&path, "ond\n");
    assert_eq!(reader.next().0, "second");
}

#[test]
fn a_file_that_comes_later_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kern.log");
    let reader = Reader::start(&path);
    let deadline = std::time::Instant::now() + SOON;
    while reader.counters.errors.load(Ordering::Relaxed) == 0 {
        assert!(
            std::time::Instant::now() < deadline,
            "the missing file was never noticed"
        );
        std::thread::yield_now();
    }
    assert!(!reader.counters.open.load(Ordering::Relaxed));
    append(&path, "late\n");
    let (text, time) = reader.next();
    assert_eq!(text, "late");
    assert!(time.is_some(), "a file that came while we looked is news");
}

#[test]
fn a_replaced_or_emptied_file_is_read_from_its_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kern.log");
    append(&path, "a rather long first line\n");
    let reader = Reader::start(&path);
    assert_eq!(reader.next().0, "a rather long first line");
    let next = directory.path().join("next");
    append(&next, "rotated, and longer than what was there before\n");
    std::fs::rename(&next, &path).unwrap();
    assert_eq!(
        reader.next().0,
        "rotated, and longer than what was there before"
    );
    File::create(&path).unwrap();
    append(&path, "cut\n");
    assert_eq!(reader.next().0, "cut");
}

#[test]
fn a_file_that_was_emptied_and_is_as_long_again_or_longer_is_read_from_its_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kern.log");
    append(&path, "first\n");
    let reader = Reader::start(&path);
    assert_eq!(reader.next().0, "first");
    for text in ["again", "longer than what was there"] {
        let mut file = File::create(&path).unwrap();
        file.write_all(format!("{text}\n").as_bytes()).unwrap();
        assert_eq!(reader.next().0, text);
    }
    // As by a writer that goes on where it was.
    let file = File::create(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"behind a hole\n", 2 * BUFFER as u64 + 7)
        .unwrap();
    assert_eq!(reader.next().0, "behind a hole");
}

#[test]
fn a_file_that_is_opened_again_is_read_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kern.log");
    let mut log = KernelLog::new(&path);
    let mut read = || {
        let (mut seen, counters) = (Vec::new(), Counters::default());
        let caught_up = || counters.caught_up.load(Ordering::Relaxed);
        let ended = log.read(open(&path).unwrap(), &counters, &caught_up, &mut |entry| {
            seen.push(entry.line.text().into_owned());
        });
        assert!(matches!(ended, Ended::Stopped));
        seen
    };
    append(&path, "one\ntw");
    assert_eq!(read(), ["one"]);
    append(&path, "o\nthree\n");
    assert_eq!(read(), ["two", "three"]);
    assert!(read().is_empty());
    std::fs::write(&path, "another file in the same place\n").unwrap();
    assert_eq!(read(), ["another file in the same place"]);
}

fn taken(device: bool, text: &[u8]) -> (Vec<String>, Counters) {
    let (mut seen, counters) = (Vec::new(), Counters::default());
    let rest = Lines::default().take(text, device, &counters, &mut |entry| {
        seen.push(entry.line.text().into_owned())
    });
    assert_eq!(rest, Some(0));
    (seen, counters)
}

#[test]
fn a_line_that_is_too_long_is_cut_also_where_its_end_is_there() {
    let text = "x".repeat(2 * LONGEST_LINE) + "\nnext\n";
    let (lines, _) = taken(false, text.as_bytes());
    let expected = ["x".repeat(LONGEST_LINE), "next".to_owned()];
    assert!(lines == expected, "{} bytes", lines[0].len());
}

#[test]
fn a_gap_in_the_numbers_is_what_was_lost() {
    let (seen, counters) = taken(true, b"6,10,1,-;a\n6,11,2,-;b\n6,15,3,-;c\n");
    assert_eq!(seen, ["a", "b", "c"]);
    assert_eq!(counters.lost.load(Ordering::Relaxed), 3);
    let (_, counters) = taken(false, b"6,10,1,-;a\n6,15,3,-;c\n");
    assert_eq!(counters.lost.load(Ordering::Relaxed), 0);
}

#[test]
fn records_that_were_seen_are_not_handed_out_again() {
    let (seen, _) = taken(
        true,
        b"6,10,1,-;a\n6,11,2,-;b\n6,10,1,-;a\n6,11,2,-;b\n6,12,3,-;c\n",
    );
    assert_eq!(seen, ["a", "b", "c"]);
}

#[test]
fn lines_about_a_record_are_no_records() {
    let (seen, _) = taken(
        true,
        b"6,10,1,-;a\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n6,11,2,-;b\n",
    );
    assert_eq!(seen, ["a", "b"]);
    let (seen, _) = taken(false, b" indented\n");
    assert_eq!(seen, [" indented"]);
}

#[test]
fn a_journal_in_its_export_form() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.export");
    let entry = |transport: &str, message: &str| {
        format!(
            "__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=1700000000000000\n_TRANSPORT={transport}\nMESSAGE={message}\n\n"
        )
    };
    append(&path, &entry("kernel", "NVRM: one"));
    append(&path, &entry("stdout", "NVRM: forged"));
    // Longer than anything that the kernel writes: its parts are no lines of the kernel's.
    let inside = entry("kernel", "NVRM: forged");
    let long = format!("NVRM: forged\n\n{inside}").repeat(2 * LONGEST_LINE / 10);
    let length = u64::try_from(long.len()).unwrap().to_le_bytes();
    let mut bytes = b"__CURSOR=s=1;i=3\n__REALTIME_TIMESTAMP=1\nMESSAGE\n".to_vec();
    bytes.extend(length);
    bytes.extend(long.as_bytes());
    bytes.extend(b"\n_TRANSPORT=stdout\n\n");
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(&bytes).unwrap();
    append(&path, &entry("kernel", "NVRM: two"));
    let reader = Reader::start(&path);
    let told = Timestamp::from_second(1_700_000_000).unwrap();
    assert_eq!(reader.next(), ("NVRM: one".to_owned(), Some(told)));
    assert_eq!(reader.next(), ("NVRM: two".to_owned(), Some(told)));
    append(&path, &entry("kernel", "NVRM: three"));
    assert_eq!(reader.next().0, "NVRM: three");
    assert_eq!(reader.counters.lines.load(Ordering::Relaxed), 3);
}

#[test]
fn a_line_that_begins_as_an_entry_of_a_journal_hides_nothing() {
    let (seen, _) = taken(false, b"__CURSOR=hello\nMay 10 one\n__CURSOR=x\n\ntwo\n");
    assert_eq!(
        seen,
        ["__CURSOR=hello", "May 10 one", "__CURSOR=x", "", "two"]
    );
    // One that goes on as one for longer than is kept.
    let long = "A=1\n".repeat(LONGEST_LINE);
    let log = format!("__CURSOR=x\n__REALTIME_TIMESTAMP=1\n{long}May 10 one\n");
    let (mut seen, counters, mut lines) = (0, Counters::default(), Lines::default());
    for read in log.as_bytes().chunks(4096) {
        lines.take(read, false, &counters, &mut |entry| {
            assert_eq!(entry.line.text(), "May 10 one");
            seen += 1;
        });
    }
    assert_eq!(seen, 1);
}
