//! Lines of every driver generation.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::super::message::Process;
use super::*;
use proptest::prelude::*;

fn address(text: &str) -> PciAddress {
    text.parse().unwrap()
}

pub(super) fn one(line: &str) -> Option<Message> {
    let mut parser = Parser::default();
    let mut all = parser.parse(line);
    let first = all.next();
    assert_eq!(all.next(), None, "{line:?}");
    first
}

fn xid(line: &str) -> XidMessage {
    match one(line) {
        Some(Message::Xid(xid)) => xid,
        other => panic!("{line:?} gave {other:?}"),
    }
}

fn unknown_process() -> Process {
    Process {
        pid: None,
        name: None,
    }
}

#[test]
fn the_form_with_an_unknown_process() {
    let xid = xid(
        "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    );
    assert_eq!(xid.pci, address("0000:3b:00"));
    assert_eq!(xid.code, 79);
    assert_eq!(xid.process, Some(unknown_process()));
    assert_eq!(xid.text, "GPU has fallen off the bus.");
}

#[test]
fn each_generation() {
    type Row = (
        &'static str,
        u32,
        Option<u32>,
        Option<&'static str>,
        &'static str,
    );
    let rows: &[Row] = &[
        (
            "NVRM: Xid (0000:03:00): 13, 0003 00000000 00008297 00001b0c",
            13,
            None,
            None,
            "0003 00000000 00008297 00001b0c",
        ),
        (
            "NVRM: Xid (PCI:0000:06:00): 31, Ch 0000005a, intr 10000000",
            31,
            None,
            None,
            "Ch 0000005a, intr 10000000",
        ),
        (
            "NVRM: Xid (PCI:0000:06:00): 31, pid=2708, Ch 00000008, intr 0",
            31,
            Some(2708),
            None,
            "Ch 00000008, intr 0",
        ),
        (
            "NVRM: Xid (PCI:0000:06:00): 43, pid=2708, name=python3.11, Ch 00000008",
            43,
            Some(2708),
            Some("python3.11"),
            "Ch 00000008",
        ),
        (
            "NVRM: Xid (PCI:0000:06:00): 45, pid=1, name=ray::Train.step, channel 0x0000000c",
            45,
            Some(1),
            Some("ray::Train.step"),
            "channel 0x0000000c",
        ),
        (
            "NVRM: Xid (PCI:0000:06:00): 45, pid=1, name=a b-c_d",
            45,
            Some(1),
            Some("a b-c_d"),
            "",
        ),
        (
            "NVRM: Xid (PCI:0000:06:00): 62, 3c4f(2a40) 00000000 00000000",
            62,
            None,
            None,
            "3c4f(2a40) 00000000 00000000",
        ),
        (
            "NVRM: Xid (PCI:0019:01:00): 149, NETIR_LINK_EVT  Nonfatal XC0 i0 Link -1 (0x00000003 0x0)",
            149,
            None,
            None,
            "NETIR_LINK_EVT  Nonfatal XC0 i0 Link -1 (0x00000003 0x0)",
        ),
        ("NVRM: Xid (PCI:0000:06:00): 119", 119, None, None, ""),
    ];
    for (line, code, pid, name, text) in rows {
        let xid = xid(line);
        assert_eq!(xid.code, *code, "{line}");
        assert_eq!(
            xid.process.as_ref().and_then(|process| process.pid),
            *pid,
            "{line}"
        );
        assert_eq!(
            xid.process.and_then(|process| process.name).as_deref(),
            *name,
            "{line}"
        );
        assert_eq!(xid.text, *text, "{line}");
    }
}

#[test]
fn mig_instances() {
    let xid = xid("NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:00): 94, pid=7, name=a, Contained");
    assert_eq!((xid.gpu_instance, xid.compute_instance), (Some(5), Some(0)));
    assert_eq!(
        xid.to_string(),
        "NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:00): 94, pid=7, name=a, Contained"
    );
}

#[test]
fn the_cause_is_taken_from_the_end() {
    let xid =
        xid("NVRM: Xid (PCI:0000:3b:00): 45, pid=7, name=a, channel 0x3 caused by previous Xid 31");
    assert_eq!(xid.caused_by, Some(31));
    assert_eq!(xid.text, "channel 0x3");
}

#[test]
fn the_verdict_is_read_by_its_numbers() {
    let verdict = xid(
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)",
    );
    assert_eq!(verdict.recovery_change().unwrap().to.0, 2);
    let other = xid(
        "NVRM: Xid (PCI:0000:3b:00): 13, GPU recovery action changed from 0x0 (None) to 0x2 (x)",
    );
    assert_eq!(other.recovery_change(), None);
}

#[test]
fn an_unknown_code_is_kept() {
    assert_eq!(
        xid("NVRM: Xid (PCI:0000:3b:00): 999, something new").code,
        999
    );
}

#[test]
fn the_ways_to_fall_off_the_bus() {
    let expected = Some(Message::BusLoss(BusLoss {
        pci: address("0000:29:00"),
    }));
    assert_eq!(
        one("NVRM: GPU 0000:29:00.0: GPU has fallen off the bus."),
        expected
    );
    assert_eq!(
        one("NVRM: GPU at 0000:29:00.0 has fallen off the bus."),
        expected
    );
    let probe = [
        "NVRM: The NVIDIA GPU 0000:29:00.0",
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    ];
    assert_eq!(one(&probe.join("\n")), expected);
    let mut parser = Parser::default();
    let answers: Vec<_> = probe.iter().map(|line| parser.parse(line).next()).collect();
    assert_eq!(answers, vec![None, None, expected.clone()]);
    // As `dmesg` shows the one message of three lines.
    assert_eq!(parser.parse(probe[0]).next(), None);
    let set_in: Vec<_> = probe[1..]
        .iter()
        .map(|line| parser.parse(&format!("        {line}")).next())
        .collect();
    assert_eq!(set_in, vec![None, expected]);
    assert_eq!(
        parser.parse(probe[2]).next(),
        None,
        "the address is used once"
    );
}

#[test]
fn the_uuid_of_an_address() {
    assert_eq!(
        one("NVRM: GPU at PCI:0000:01:00: GPU-6f3a1f9e-0000-4000-8000-00000000abcd"),
        Some(Message::Uuid {
            pci: address("0000:01:00"),
            uuid: "GPU-6f3a1f9e-0000-4000-8000-00000000abcd".into()
        })
    );
}

#[test]
fn what_is_no_message() {
    for line in [
        "",
        "usb 1-1: new high-speed USB device",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.124.06",
        "NVRM: GPU Board Serial Number:",
        "fallen off the bus and is not responding to commands.",
    ] {
        assert_eq!(one(line), None, "{line:?}");
    }
}

#[test]
fn what_begins_as_a_message_and_is_none_is_told() {
    for line in [
        "NVRM: Xid (PCI:0000:3b:00): seven",
        "NVRM: Xid (PCI:0000:3b:00): 79.5",
        "NVRM: Xid (PCI:0000:3b:00)",
        "NVRM: Xid (): 79",
        "NVRM: Xid (PCI:zz): 79, x",
        "NVRM: Xid (PCI:0000:3b:00): 99999999999, too large",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): seven",
        "nvidia-nvswitch0: SXid",
    ] {
        assert_eq!(one(line), Some(Message::Malformed), "{line:?}");
    }
}

#[test]
fn serial_numbers_and_gpus_that_do_not_start() {
    let pci = Some(address("0000:29:00"));
    let serial = |pci, serial: &str| {
        Some(Message::Serial {
            pci,
            serial: serial.to_owned(),
        })
    };
    assert_eq!(
        one("NVRM: GPU 0000:29:00.0: GPU serial number is 1650000000000."),
        serial(pci, "1650000000000")
    );
    assert_eq!(one("NVRM: GPU Board Serial Number: 0"), serial(None, "0"));
    let mut parser = Parser::default();
    let preamble = "NVRM: GPU at PCI:0000:29:00: GPU-1\nNVRM: GPU Board Serial Number: 16";
    assert_eq!(parser.parse(preamble).nth(1), serial(pci, "16"));
    let failed = |line: &str| match one(line) {
        Some(Message::InitFailed { pci, .. }) => pci,
        other => panic!("{line:?} gave {other:?}"),
    };
    assert_eq!(
        failed("NVRM: GPU 0000:29:00.0: RmInitAdapter failed! (0x24:0x65:1477)"),
        pci
    );
    assert_eq!(
        failed("NVRM: RmInitAdapter failed! (0x26:0xffff:1290)"),
        None
    );
    assert_eq!(
        failed("NVRM: rm_init_adapter failed for device bearing minor number 0"),
        None
    );
}

#[test]
fn each_message_of_a_record_counts() {
    let record = "NVRM: Xid (PCI:0000:3b:00): 79, a\nNVRM: Xid (PCI:0000:5e:00): 79, b";
    assert_eq!(Parser::default().parse(record).count(), 2);
}

#[test]
fn a_cause_without_a_text_or_a_process() {
    let only = xid("NVRM: Xid (PCI:0000:3b:00): 45, pid=7, name=a caused by previous Xid 31");
    assert_eq!((only.caused_by, only.text.as_str()), (Some(31), ""));
    assert_eq!(only.process.unwrap().name.as_deref(), Some("a"));
    let bare = xid("NVRM: Xid (PCI:0000:3b:00): 45 caused by previous Xid 31");
    assert_eq!(bare.caused_by, Some(31));
}

fn process() -> impl Strategy<Value = Option<Process>> {
    let name = proptest::option::of("[a-zA-Z0-9_.:/][a-zA-Z0-9_.:/ -]{0,13}[a-z]");
    proptest::option::of(
        (proptest::option::of(any::<u32>()), name).prop_map(|(pid, name)| Process { pid, name }),
    )
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(
        domain: u32, bus: u8, device in 0u8..32, code: u32,
        instances in proptest::option::of((0u32..15, proptest::option::of(0u32..8))),
        process in process(),
        text in "|[A-Z][ -~]{0,60}[a-z.]",
        caused_by in proptest::option::of(0u32..200),
    ) {
        let printed = XidMessage {
            pci: PciAddress { domain, bus, device },
            gpu_instance: instances.map(|(gpu, _)| gpu),
            compute_instance: instances.and_then(|(_, compute)| compute),
            code,
            process,
            caused_by,
            text,
        };
        prop_assert_eq!(xid(&printed.to_string()), printed);
    }

    #[test]
    fn no_text_makes_it_fail(text in "\\PC*") {
        let _ = one(&text);
        let _ = one(&format!("NVRM: Xid (PCI:0000:3b:00): {text}"));
        let _ = one(&format!("NVRM: {text}"));
    }
}
