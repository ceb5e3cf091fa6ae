//! What a log writes before the kernel's message.
//!
//! Only what is known here is taken off: anything else before the driver's words is somebody's text, a path or the name of
//! a program, which everybody chooses as they like.

/// The mark of the kernel's messages in a syslog header.
const KERNEL: &[u8] = b"kernel: ";
/// What RFC 5424 has instead: the program, and three fields that the kernel's messages leave empty.
const KERNEL_5424: &[u8] = b"kernel - - - ";
/// What may stand before the text of RFC 5424.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The kernel's message in a plain line. A line that begins in no known way, or as another program's, is given as it is.
pub(super) fn strip(line: &[u8]) -> &[u8] {
    // Nearly always there is nothing, or a time in brackets.
    match line.first() {
        Some(b'N' | b'n') | None => return line,
        Some(b'[') => {
            let rest = brackets(line);
            return header_after_time(rest).map_or(rest, brackets);
        }
        _ => {}
    }
    if let Some(rest) = of_talos(line) {
        return rest;
    }
    let line = priority(line).unwrap_or(line);
    let line = facility_and_level(line).unwrap_or(line);
    let rest = match (line.strip_prefix(KERNEL), time(line)) {
        (Some(rest), _) => rest,
        // `dmesg --time-format iso` has the time alone.
        (None, Some((rest, is_iso))) => match header_after_time(rest) {
            Some(rest) => rest,
            None if is_iso => rest,
            None => return line,
        },
        (None, None) => line,
    };
    brackets(rest)
}

/// `<4>`, as the kernel's own console and `dmesg --raw` have it.
fn priority(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"<")?;
    let end = rest.iter().position(|byte| *byte == b'>')?;
    is_all(&rest[..end], u8::is_ascii_digit).then_some(&rest[end + 1..])
}

/// `kern  :warn  : `, as `dmesg --decode` has it.
fn facility_and_level(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"kern")?.trim_ascii_start();
    let (level, rest) = split(rest.strip_prefix(b":")?, b':')?;
    is_all(level.trim_ascii_end(), u8::is_ascii_lowercase)
        .then(|| rest.strip_prefix(b" "))
        .flatten()
}

/// `10.0.0.1: kern: warning: [2026-05-10T09:00:00Z]: `, as Talos has it, with or without the address.
fn of_talos(line: &[u8]) -> Option<&[u8]> {
    const FACILITY: &[u8] = b"kern: ";
    let line = match line.strip_prefix(FACILITY) {
        Some(rest) => rest,
        None => {
            let (host, rest) = word(line)?;
            let host = host.strip_suffix(b":")?;
            is_host(host)
                .then(|| rest.strip_prefix(FACILITY))
                .flatten()?
        }
    };
    let (level, rest) = split(line, b':')?;
    let (at, rest) = split(rest.strip_prefix(b" [")?, b']')?;
    (is_all(level, u8::is_ascii_lowercase) && is_iso(at))
        .then(|| rest.strip_prefix(b": "))
        .flatten()
}

/// `[   12.345678] ` or another time in brackets, and `[ T1946] ` after it.
fn brackets(line: &[u8]) -> &[u8] {
    let Some(after_time) = bracket(line, is_time_in_brackets) else {
        return line;
    };
    // The kernel itself leaves no space between the two.
    let caller = after_time.strip_prefix(b" ").unwrap_or(after_time);
    bracket(caller, is_caller)
        .unwrap_or(after_time)
        .strip_prefix(b" ")
        .unwrap_or(line)
}

/// What follows brackets around something.
fn bracket(line: &[u8], is: fn(&[u8]) -> bool) -> Option<&[u8]> {
    let (inside, rest) = split(line.strip_prefix(b"[")?, b']')?;
    is(inside).then_some(rest)
}

/// Since boot, perhaps with the time since the line before, or a time of day as `dmesg --ctime` or a standard has it.
fn is_time_in_brackets(inside: &[u8]) -> bool {
    let since_boot = |byte: &u8| matches!(byte, b'0'..=b'9' | b' ' | b'.' | b'<' | b'>' | b'+');
    if is_all(inside, since_boot) {
        return inside.iter().any(u8::is_ascii_digit);
    }
    if is_iso(inside) {
        return true;
    }
    let mut words = inside
        .split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty());
    let mut next = |is: fn(&[u8]) -> bool| words.next().is_some_and(is);
    next(is_name) && next(is_name) && next(is_number) && next(is_clock) && next(is_number)
}

/// The task or the processor that printed it: `T1946`, `C3`.
fn is_caller(inside: &[u8]) -> bool {
    match inside.trim_ascii_start() {
        [b'T' | b'C', number @ ..] => is_number(number),
        _ => false,
    }
}

/// What follows a time of the forms that syslog and `journalctl` have; and whether it was of the one form that may stand
/// alone.
fn time(line: &[u8]) -> Option<(&[u8], bool)> {
    // The version of RFC 5424.
    let line = line.strip_prefix(b"1 ").unwrap_or(line);
    let (first, rest) = word(line)?;
    if is_iso(first) {
        return Some((rest, true));
    }
    let seconds = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    // `journalctl -o short-unix`.
    if is_all(first, seconds) {
        return Some((rest, false));
    }
    if !is_name(first) {
        return None;
    }
    let (second, rest) = word(rest)?;
    let (clock, rest) = word(rest)?;
    if !is_clock(clock) {
        return None;
    }
    if is_number(second) {
        // `May 10 09:00:00`.
        return Some((rest, false));
    }
    // `Sun 2026-05-10 09:00:00 UTC`, of `journalctl -o short-full`.
    let date = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
    let zone = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-');
    let (named, rest) = word(rest)?;
    (is_all(second, date) && is_all(named, zone)).then_some((rest, false))
}

/// The host and the mark of the kernel, after a time.
fn header_after_time(rest: &[u8]) -> Option<&[u8]> {
    let (host, rest) = word(rest)?;
    if !is_host(host) {
        return None;
    }
    // busybox names the facility and the level.
    let rest = match rest.strip_prefix(b"kern.") {
        Some(level) => word(level)?.1,
        None => rest,
    };
    if let Some(rest) = rest.strip_prefix(KERNEL_5424) {
        return Some(rest.strip_prefix(BYTE_ORDER_MARK).unwrap_or(rest));
    }
    rest.strip_prefix(KERNEL)
}

/// A host's name or address. One with a colon at its end is the name of a program: there was no host.
fn is_host(word: &[u8]) -> bool {
    let part =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
    is_all(word, part) && word.last() != Some(&b':')
}

fn is_iso(word: &[u8]) -> bool {
    let part = |byte: &u8| {
        byte.is_ascii_digit() || matches!(byte, b'T' | b'Z' | b':' | b'.' | b',' | b'+' | b'-')
    };
    word.get(10) == Some(&b'T') && is_all(word, part)
}

/// Of a day or a month.
fn is_name(word: &[u8]) -> bool {
    word.len() == 3 && is_all(word, u8::is_ascii_alphabetic)
}

fn is_number(word: &[u8]) -> bool {
    is_all(word, u8::is_ascii_digit)
}

fn is_clock(word: &[u8]) -> bool {
    let part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.');
    word.get(2) == Some(&b':') && word.get(5) == Some(&b':') && is_all(word, part)
}

fn is_all(text: &[u8], is: impl Fn(&u8) -> bool) -> bool {
    !text.is_empty() && text.iter().all(is)
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(at, text)?;
    Some((&text[..end], &text[end + 1..]))
}

/// A word, and what follows the spaces after it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (word, rest) = split(text, b' ')?;
    Some((word, rest.trim_ascii_start()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MESSAGE: &str = "NVRM: Xid (PCI:0000:3b:00): 79, x";

    fn stripped(prefix: &str) -> String {
        let line = format!("{prefix}{MESSAGE}");
        String::from_utf8_lossy(strip(line.as_bytes())).into_owned()
    }

    #[test]
    fn what_a_log_writes_before_the_kernels_message_is_taken_off() {
        for prefix in [
            "",
            "<4>",
            "<4>[ 1234.567890] ",
            "[ 1.0] ",
            "[ 1234.567890] ",
            "[ 1234.567890] [ T1946] ",
            "[ 1234.567890][ T1946] ",
            "[ 1234.567890 <    0.000012>] ",
            "[Mon Jul 25 10:00:00 2026] ",
            "[Fri May  1 10:00:00 2026] ",
            "kern  :warn  : [ 1234.567890] ",
            "kern  :warn  : [Mon Jul 25 10:00:00 2026] ",
            "2026-05-10T09:00:00,123456+00:00 ",
            "kernel: ",
            "kernel: [ 1234.567890] ",
            "May 10 09:00:00 node-1 kernel: ",
            "May  1 09:00:00 node-1 kernel: [ 1234.567890] ",
            "May 10 09:00:00.123456 node_1.example.com kernel: ",
            "<4>May 10 09:00:00 node-1 kernel: ",
            "May 10 09:00:00 node-1 kern.warn kernel: [ 1234.567890] ",
            "2026-05-10T09:00:00.123456+00:00 node-1 kernel: ",
            "2026-05-10T09:00:00+0200 2001:db8::1 kernel: [ 1.000000] ",
            "<4>1 2026-05-10T09:00:00Z node-1 kernel - - - ",
            "1 2026-05-10T09:00:00Z node-1 kernel - - - \u{feff}",
            "1778396400.500000 node-1 kernel: ",
            "[   12.345678] node-1 kernel: ",
            "Sun 2026-05-10 09:00:00 UTC node-1 kernel: ",
            "10.0.0.1: kern: warning: [2026-05-10T09:00:00.12Z]: ",
            "kern: err: [2026-05-10T09:00:00Z]: ",
        ] {
            assert_eq!(stripped(prefix), MESSAGE, "{prefix:?}");
        }
    }

    #[test]
    fn what_anybody_may_write_before_it_stays() {
        for prefix in [
            " ",
            "x: ",
            "mallory[4711]: ",
            "process '/tmp/",
            "[ 12.345678] process '/tmp/",
            "[ 12.345678] x: ",
            "[ 12.345678]  ",
            "[mallory] ",
            "[ 12.345678] [mallory] ",
            "<x>",
            "May 10 09:00:00 node-1 mallory[4711]: ",
            "May 10 09:00:00 node-1 mallory: kernel: ",
            "May 10 09:00:00 mallory: kernel: ",
            "May 10 09:00:00 node-1 kernel[7]: ",
            "May 10 09:00:00 node-1 kernel: process '/tmp/",
            "May 10 09:00:00 node-1 kernel: kernel: ",
            "May 10 09:00:00 node-1 user.notice kernel: ",
            "2026-05-10T09:00:00Z node-1 mallory: ",
            "2026-05-10T09:00:00Z node-1 mallory kernel: ",
            "<13>1 2026-05-10T09:00:00Z node-1 mallory - - - ",
            "1778396400.500000 node-1 mallory[1]: ",
            "[   12.345678] node-1 mallory[1]: ",
            "10.0.0.1: user: warning: [2026-05-10T09:00:00Z]: ",
            "10.0.0.1: kern: warning: [x]: ",
            "Sun 2026-05-10 09:00:00 UTC node-1 mallory: ",
        ] {
            let line = stripped(prefix);
            assert!(!line.starts_with("NVRM: "), "{prefix:?} gave {line:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail_and_the_end_is_never_touched(prefix in "[\\[\\]<>:a-zA-Z0-9 .-]{0,60}", bytes: Vec<u8>) {
            let _ = strip(&bytes);
            let line = [prefix.as_bytes(), &bytes].concat();
            prop_assert!(line.ends_with(strip(&line)));
        }
    }
}
