//! What must be true of each line.

use super::counted::{IN_USE, PEAK};
use super::logs::{Expected, Log, Read};
use gpu_remediator::kmsg::{Entry, Line};
use gpu_remediator::xid::{Message, Parser, PciAddress, XidMessage, may_be_message};
use std::sync::atomic::Ordering;

/// Compares what is handed out with what must be.
pub struct Checker<'a> {
    expected: Option<std::slice::Iter<'a, Expected>>,
    parser: Parser,
    lines: u64,
    wrong: Option<String>,
}

impl<'a> Checker<'a> {
    /// For one log.
    pub fn new(log: &'a Log) -> Self {
        Self {
            expected: log.expected.as_ref().map(|expected| expected.iter()),
            parser: Parser::default(),
            lines: 0,
            wrong: None,
        }
    }

    /// Takes one line.
    pub fn take(&mut self, entry: Entry<'_>) {
        self.lines += 1;
        if self.wrong.is_some() {
            return;
        }
        let mut checked = check_line(&mut self.parser, entry.line);
        if checked.is_ok() {
            checked = self.compare(entry.line);
        }
        if checked.is_ok() && self.lines.is_multiple_of(64) {
            let _ = entry.time();
        }
        self.wrong = checked
            .err()
            .map(|wrong| format!("line {}: {wrong}", self.lines));
    }

    fn compare(&mut self, line: Line<'_>) -> Result<(), String> {
        let text: &str = &line.text();
        let Some(expected) = &mut self.expected else {
            return Ok(());
        };
        loop {
            return match expected.next() {
                None => Err(format!("more than there is: {text:?}")),
                Some(Expected::Cut) if text.bytes().all(|byte| byte == b'x') => Ok(()),
                Some(Expected::Perhaps(perhaps)) if perhaps != text => continue,
                Some(Expected::Perhaps(_)) => Ok(()),
                Some(Expected::Text(expected, read)) if expected == text => {
                    let messages: Vec<_> = Parser::default().parse(&line.said()).collect();
                    match read {
                        Read::Message(message) if messages != [message.clone()] => {
                            Err(format!("not read as {message:?}: {text:?}"))
                        }
                        Read::Nothing if !messages.is_empty() => {
                            Err(format!("others' words are read as {messages:?}: {text:?}"))
                        }
                        _ => Ok(()),
                    }
                }
                Some(other) => Err(format!("{text:?} and not {other:?}")),
            };
        }
    }

    /// How many lines there were, if all is well.
    pub fn end(mut self) -> Result<u64, String> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let missing = self.expected.as_mut().and_then(|expected| {
            expected.find(|expected| !matches!(expected, Expected::Perhaps(_)))
        });
        match missing {
            Some(missing) => Err(format!("not handed out: {missing:?}")),
            None => Ok(self.lines),
        }
    }
}

/// Whether a line escapes what the kernel never escapes: then its text holds what its bytes do not.
fn is_escaped_oddly(line: &[u8]) -> bool {
    line.windows(4).any(|window| {
        let byte = match window {
            [b'\\', b'x', digits @ ..] => std::str::from_utf8(digits).ok(),
            _ => None,
        };
        let byte = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        byte.is_some_and(|byte| (b' '..0x7f).contains(&byte) && byte != b'\\')
    })
}

/// What is true of any line.
pub fn check_line(parser: &mut Parser, line: Line<'_>) -> Result<(), String> {
    let before = IN_USE.load(Ordering::Relaxed);
    let peak = PEAK.swap(before, Ordering::Relaxed);
    let text = line.text();
    let _ = line.stamp();
    let said = line.said();
    let messages: Vec<Message> = parser.parse(&said).collect();
    let taken = PEAK.load(Ordering::Relaxed) - before;
    PEAK.fetch_max(peak, Ordering::Relaxed);
    let bytes = line.bytes();
    // As text, twice, and once more in the messages, and while a text that grows is copied.
    if taken > 15 * bytes.len() + 4096 {
        return Err(format!("{taken} bytes of memory for {}", bytes.len()));
    }
    if messages.is_empty() {
        return Ok(());
    }
    if !may_be_message(bytes) && !is_escaped_oddly(bytes) {
        return Err(format!("the first look drops {text:?}"));
    }
    if !text.ends_with(&*said) {
        return Err(format!("{said:?} is not the end of {text:?}"));
    }
    let begins = |mark| said.trim_start().starts_with(mark);
    if !begins("NVRM: ") && !begins("nvidia-nvswitch") {
        return Err(format!("others' words are read as {messages:?}: {text:?}"));
    }
    if messages.len() > text.lines().count() {
        return Err(format!("more messages than lines in {text:?}"));
    }
    for message in &messages {
        if !is_within(message, &text) {
            return Err(format!("{message:?} out of {text:?}"));
        }
        if let Message::Xid(xid) = message {
            read_back(xid)?;
        }
    }
    Ok(())
}

fn is_within(message: &Message, text: &str) -> bool {
    let has = |part: &str| text.contains(part);
    let at = |pci: &PciAddress| {
        let (place, text) = (
            format!("{:02x}:{:02x}", pci.bus, pci.device),
            text.to_ascii_lowercase(),
        );
        text.contains(&place)
    };
    let maybe_at = |pci: &Option<PciAddress>| pci.as_ref().is_none_or(at);
    match message {
        Message::Xid(xid) => {
            let link = xid.link_event();
            let of_link = link
                .iter()
                .flat_map(|link| [&link.unit, &link.severity, &link.registers]);
            let name = xid
                .process
                .as_ref()
                .and_then(|process| process.name.as_deref());
            at(&xid.pci)
                && has(&xid.text)
                && has(&xid.code.to_string())
                && name.is_none_or(has)
                && of_link
                    .flatten()
                    .all(|part| xid.text.contains(part.as_str()))
                && (xid.recovery_change().is_none() || xid.code == 154)
        }
        Message::Sxid(sxid) => at(&sxid.pci) && has(&sxid.text) && has(&sxid.code.to_string()),
        Message::InitFailed { pci, text } => maybe_at(pci) && has(text),
        Message::Uuid { pci, uuid } => at(pci) && has(uuid),
        // The place may be of a line before.
        Message::Serial { serial, .. } => has(serial),
        Message::BusLoss(_) => has("allen off the bus"),
        Message::Malformed => has("Xid"),
    }
}

/// What any driver printed is, in the form that we print, the same event.
fn read_back(xid: &XidMessage) -> Result<(), String> {
    let printed = xid.to_string();
    let read: Vec<Message> = Parser::default().parse(&printed).collect();
    match &read[..] {
        [Message::Xid(read)]
            if (
                read.pci,
                read.code,
                read.gpu_instance,
                read.compute_instance,
            ) == (xid.pci, xid.code, xid.gpu_instance, xid.compute_instance) =>
        {
            Ok(())
        }
        _ => Err(format!("{printed:?} is read as {read:?}")),
    }
}
