//! Lines in which the driver's words are somebody else's.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::tests::one;
use super::*;

#[test]
fn the_drivers_words_within_anothers_message_never_count() {
    const SAID: [&str; 7] = [
        "NVRM: Xid (PCI:0000:3b:00): 95, pid=7, name=a, Uncontained",
        "NVRM: Xid (PCI:0000:3b:00): seven",
        "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
        "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x24:0x65:1477)",
        "NVRM: GPU at PCI:0000:3b:00: GPU-6f3a1f9e-0000-4000-8000-00000000abcd",
        "NVRM: GPU 0000:3b:00.0: GPU serial number is 1.",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Fatal, Link 46 x",
    ];
    for said in SAID {
        assert_eq!(Parser::default().parse(said).count(), 1, "{said}");
        for record in [
            format!("process '/tmp/{said}' started with executable stack"),
            format!(
                "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/user.slice/{said},task=a,pid=1,uid=1000"
            ),
            // A name of a program has at most 15 bytes.
            format!("NVRM[4711]: segfault at 0 ip 0 sp 0 error 4 in {said}[400000+1000]"),
            format!("NVRM: Xid (PCI[4711]: segfault at 0 ip 0 sp 0 error 4 in {said}[400000+1000]"),
            format!(
                "NVRM: GPU 0000:[4711]: segfault at 0 ip 0 sp 0 error 4 in {said}[400000+1000]"
            ),
            // Of a path or a name with a line break.
            format!("process '/tmp/a\n{said}' started with executable stack"),
            format!("a\n{said}"),
            format!("\n{said}"),
            format!(" {said}"),
            format!("[ 12.345678] {said}"),
            format!("kernel: {said}"),
            format!("mallory[4711]: {said}"),
        ] {
            let read: Vec<_> = Parser::default()
                .parse(&record)
                .filter(|message| *message != Message::Malformed)
                .collect();
            assert_eq!(read, [], "{record:?}");
        }
    }
}

#[test]
fn the_name_of_a_process_does_not_begin_another_message() {
    let record = "NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=a\nNVRM: Xid (PCI:0000:5e:00): 79, x";
    assert_eq!(Parser::default().parse(record).count(), 1);
    // The driver's own message goes on only in the driver's lines.
    let record = "NVRM: The NVIDIA GPU\nx\nNVRM: Xid (PCI:0000:5e:00): 79, x";
    assert_eq!(Parser::default().parse(record).count(), 0);
}

#[test]
fn what_the_driver_says_of_a_gpu_begins_with_its_address() {
    for said in [
        "NVRM: x 0000:3b:00.0: GPU has fallen off the bus.",
        "NVRM: GPU x 0000:3b:00.0: GPU has fallen off the bus.",
        "NVRM: GPU 0000:3b:00.0: a GPU that has fallen off the bus.",
        "NVRM: GPU 0000:3b:00.0: not RmInitAdapter failed",
        "NVRM: x in 0000:3b:00.0 GPU serial number is 1.",
        "nvidia-nvswitch: SXid (PCI:0000:c1:00.0): 28006, Fatal, x",
        "nvidia-nvswitch3[7]: SXid (PCI:0000:c1:00.0): 28006, Fatal, x",
        "SXid (PCI:0000:c1:00.0): 28006, Fatal, x",
    ] {
        assert_eq!(one(said), None, "{said}");
    }
}
