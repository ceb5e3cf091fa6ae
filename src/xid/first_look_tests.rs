//! The first look at a line drops nothing that is a message.

use super::*;
use proptest::prelude::*;

#[test]
fn the_first_look_never_drops_a_message() {
    assert!(may_be_message(b"\xff\xfe NVRM: Xid (PCI:0000:3b:00): 79"));
    assert!(may_be_message(
        b"nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 1"
    ));
    assert!(!may_be_message(b"eth0: link up"));
    assert!(!may_be_message(b""));
    let mut parser = Parser::default();
    for said in [
        "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "NVRM: Xid 79",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress",
        "nvidia-nvswitch3: SXid",
        "NVRM: GPU 0000:3b:00.0: GPU-00000000-0000-4000-8000-000000000001",
        "NVRM: GPU at PCI:0000:3b:00: GPU-00000000-0000-4000-8000-000000000001",
        "NVRM: GPU Board Serial Number: 1650123",
        "NVRM: GPU 0000:3b:00.0: GPU serial number is 1650123.",
        "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
        "NVRM: GPU at PCI:0000:3b:00 has fallen off the bus.",
        "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1463)",
        "NVRM: rm_init_adapter failed for device bearing minor number 0",
        "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2330)\nNVRM: fallen off the bus and is not responding to commands.",
    ] {
        assert!(parser.parse(said).next().is_some(), "{said}");
        for line in said.lines() {
            assert!(may_be_message(line.as_bytes()), "{line}");
        }
    }
    // Most of what the driver says is not worth more than a look.
    for said in [
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.124.06",
        "NVRM: GPU 0000:3b:00.0: rm_init_adapter: GPU is in low power state",
    ] {
        assert!(!may_be_message(said.as_bytes()), "{said}");
    }
}

/// What messages are made of.
const WORDS: [&str; 18] = [
    "NVRM: ",
    "Xid",
    "Xid (PCI:0000:3b:00): 79, ",
    "nvidia-nvswitch0: ",
    "SXid (PCI:0000:c1:00.0): 1",
    "GPU ",
    "GPU at PCI:0000:3b:00: ",
    "0000:3b:00.0: ",
    "GPU-00000000-0000",
    "GPU Board Serial Number: ",
    "GPU serial number is ",
    "7",
    "has fallen off the bus",
    "fallen off the bus and is not responding",
    "The NVIDIA GPU ",
    "RmInitAdapter failed",
    "rm_init_adapter failed",
    "\n",
];

proptest! {
    #[test]
    fn the_first_look_drops_nothing_that_is_parsed(
        lines in proptest::collection::vec(
            (
                proptest::sample::select(["", "NVRM: ", "NVRM: GPU 0000:3b:00.0: "].as_slice()),
                "|[ -~]{0,8}",
                proptest::collection::vec(proptest::sample::select(WORDS.as_slice()), 0..6),
            ),
            1..5,
        ),
    ) {
        // A line may say what the next is about, so both read all lines.
        let (mut all, mut looked) = (Parser::default(), Parser::default());
        for (begin, other, words) in lines {
            let line = format!("{begin}{other}{}", words.concat());
            let messages: Vec<Message> = all.parse(&line).collect();
            let behind_the_look: Vec<Message> = match may_be_message(line.as_bytes()) {
                true => looked.parse(&line).collect(),
                false => Vec::new(),
            };
            prop_assert_eq!(messages, behind_the_look, "{}", line);
        }
    }
}
