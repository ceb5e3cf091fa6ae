//! Messages of the driver and of others, by chance.

use gpu_remediator::xid::{Message, PciAddress, Process, SxidClass, SxidMessage, XidMessage};
use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

/// Every form that the driver has, and forms that it nearly has.
pub const FORMS: [&str; 34] = [
    "NVRM: Xid (0000:03:00): 13, 0003 00000000 00008297 00001b0c",
    "NVRM: Xid (PCI:0000:06:00): 31, Ch 0000005a, intr 10000000",
    "NVRM: Xid (PCI:0000:06:00): 31, pid=2708, Ch 00000008, intr 0",
    "NVRM: Xid (PCI:0000:06:00): 43, pid=2708, name=python3.11, Ch 00000008",
    "NVRM: Xid (PCI:0000:06:00): 45, pid=1, name=ray::Train.step, channel 0x0000000c",
    "NVRM: Xid (PCI:0000:06:00 GPU-I:09 GPU-CI:00): 45, pid=1, name=a b-c_d",
    "NVRM: Xid (PCI:0000:06:00 GPU-I:09): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No",
    "NVRM: Xid (PCI:0000:06:00): 62, 3c4f(2a40) 00000000 00000000",
    "NVRM: Xid (PCI:0000:06:00): 119",
    "NVRM: Xid (PCI:0000:3b:00): 45, pid=7, name=a caused by previous Xid 31",
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0019:01:00): 149, NETIR_LINK_EVT  Nonfatal XC0 i0 Link -1 (0x00000003 0x0)",
    "NVRM: Xid (PCI:0000:3b:00): 145, RLW_REMAP Nonfatal XC1 i0 Link 02 (0x004c2 0x1 0x0 0x0 0x0 0x0 0x0)",
    "NVRM: Xid (PCI:0000:3b:00): 74, NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
    "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
    "NVRM: Xid (PCI:0000:3b:00): 1.5, no number",
    "NVRM: Xid (PCI:0000:3b:00",
    "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
    "NVRM: GPU at PCI:0000:3b:00 has fallen off the bus.",
    "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2330)",
    "NVRM: fallen off the bus and is not responding to commands.",
    "NVRM: GPU 0000:29:00.0: RmInitAdapter failed! (0x24:0x65:1477)",
    "NVRM: rm_init_adapter failed for device bearing minor number 0",
    "NVRM: GPU at PCI:0000:3b:00: GPU-00000000-0000-4000-8000-0000000000f0",
    "NVRM: GPU Board Serial Number: 1650000000000",
    "NVRM: GPU 0000:29:00.0: GPU serial number is 1650000000000.",
    "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)",
    "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Severity 1 Engine instance 46 Sub-engine instance 00",
    "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Data {0x00000001, 0x00000000}",
    "nvidia-nvswitch0: SXid (PCI:zz): 1, Fatal",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.124.06",
    "NVRM: ",
    "eth0: link becomes ready",
    "audit: type=1400 msg=\"NVRM; Xid\", a=b;c",
];

/// A text of printable characters that begins and ends with a letter.
fn text(random: &mut ChaCha8Rng, longest: usize) -> String {
    let mut text: String = (0..random.random_range(0..=longest))
        .map(|_| char::from(random.random_range(b' '..=b'~')))
        .collect();
    text.insert(0, 'T');
    text.push('e');
    text
}

fn maybe<T>(random: &mut ChaCha8Rng, make: impl FnOnce(&mut ChaCha8Rng) -> T) -> Option<T> {
    random.random::<bool>().then(|| make(random))
}

fn pci(random: &mut ChaCha8Rng) -> PciAddress {
    PciAddress {
        domain: if random.random() { 0 } else { random.random() },
        bus: random.random(),
        device: random.random_range(0..32),
    }
}

fn xid(random: &mut ChaCha8Rng) -> XidMessage {
    const NAMES: [&str; 5] = [
        "python3",
        "ray::Train.step",
        "a b-c_d",
        "x,y",
        "[kworker/u450:3]",
    ];
    let gpu_instance = maybe(random, |random| random.random_range(0..15));
    let codes = [13, 31, 43, 48, 63, 74, 79, 94, 95, 119, 144, 149, 154];
    XidMessage {
        pci: pci(random),
        gpu_instance,
        compute_instance: gpu_instance
            .and_then(|_| maybe(random, |random| random.random_range(0..8))),
        code: if random.random() {
            *codes.choose(random).unwrap()
        } else {
            random.random()
        },
        process: maybe(random, |random| Process {
            pid: maybe(random, |random| random.random()),
            name: maybe(random, |random| (*NAMES.choose(random).unwrap()).to_owned()),
        }),
        text: maybe(random, |random| text(random, 200)).unwrap_or_default(),
        caused_by: maybe(random, |random| random.random_range(0..200)),
    }
}

fn sxid(random: &mut ChaCha8Rng) -> SxidMessage {
    let classes = [
        SxidClass::Fatal,
        SxidClass::NonFatal,
        SxidClass::Correctable,
    ];
    SxidMessage {
        switch: Some(random.random_range(0..16)),
        pci: pci(random),
        code: random.random_range(0..100_000),
        class: maybe(random, |random| *classes.choose(random).unwrap()),
        link: maybe(random, |random| random.random_range(0..64)),
        severity: None,
        text: maybe(random, |random| text(random, 60)).unwrap_or_default(),
    }
}

/// A message that is printed as it must be read back, and its line.
pub fn printed(random: &mut ChaCha8Rng) -> (Message, String) {
    if random.random_ratio(3, 4) {
        let xid = xid(random);
        let line = xid.to_string();
        (Message::Xid(xid), line)
    } else {
        let sxid = sxid(random);
        let line = sxid.to_string();
        (Message::Sxid(sxid), line)
    }
}

/// A line of anybody's, which may hold any byte but the end of a line.
pub fn other(random: &mut ChaCha8Rng) -> Vec<u8> {
    if random.random_ratio(2, 3) {
        return FORMS.choose(random).unwrap().as_bytes().to_vec();
    }
    let length = random.random_range(1..300);
    let mut bytes: Vec<u8> = (0..length).map(|_| random.random()).collect();
    for byte in &mut bytes {
        if *byte == b'\n' {
            *byte = b'.';
        }
    }
    bytes
}
