#![allow(clippy::unwrap_used)]
use super::*;

fn run_on(input: &[u8], output: Output) -> String {
    let (rules, mut out) = (Shipped::read().unwrap(), Vec::new());
    decode(input, output, &rules, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn objects(input: &[u8]) -> Vec<Value> {
    let text = run_on(input, Output::Json);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn each_kind_of_line_is_one_object() {
    let log = b"NVRM: GPU at PCI:0000:3b:00: GPU-6f3a1f9e-0000-4000-8000-00000000abcd
NVRM: GPU Board Serial Number: 1650000000000
4,12,34567890,-;NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:00): 94, pid=7, name=a b, Contained caused by previous Xid 31
NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)
NVRM: Xid (PCI:0019:01:00): 149, NETIR_LINK_EVT  Nonfatal XC0 i0 Link -1 (0x00000003 0x0 0x0)
NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.
NVRM: GPU 0000:29:00.0: RmInitAdapter failed! (0x24:0x65:1477)
2026-05-10T09:00:00+02:00 node kernel: nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS
nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Severity 1 Engine instance 46
NVRM: Xid (PCI:0000:3b:00): seven
eth0: link up

a\xff";
    let expected = [
        json!({"kind": "gpu_uuid", "pci": "0000:3b:00", "uuid": "GPU-6f3a1f9e-0000-4000-8000-00000000abcd"}),
        json!({"kind": "gpu_serial", "pci": "0000:3b:00", "serial": "1650000000000"}),
        json!({"kind": "xid", "pci": "0000:3b:00", "xid": 94, "pid": 7, "name": "a b", "gpu_instance": 5,
            "compute_instance": 0, "caused_by_xid": 31, "text": "Contained", "seconds_since_boot": 34.56789}),
        json!({"kind": "xid", "pci": "0000:3b:00", "xid": 79, "pid": null, "name": null,
            "text": "GPU has fallen off the bus."}),
        json!({"kind": "xid", "pci": "0000:3b:00", "xid": 154, "pid": null, "name": null, "recovery_from": 0,
            "recovery_to": 2, "text": "GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)"}),
        json!({"kind": "xid", "pci": "0019:01:00", "xid": 149, "pid": null, "name": null, "unit": "NETIR_LINK_EVT",
            "severity": "Nonfatal", "link": -1, "intr_info": "0x00000003", "error_status": "0x0",
            "registers": "0x00000003 0x0 0x0",
            "text": "NETIR_LINK_EVT  Nonfatal XC0 i0 Link -1 (0x00000003 0x0 0x0)"}),
        json!({"kind": "bus_lost", "pci": "0000:29:00"}),
        json!({"kind": "init_failed", "pci": "0000:29:00",
            "text": "GPU 0000:29:00.0: RmInitAdapter failed! (0x24:0x65:1477)"}),
        json!({"kind": "sxid", "pci": "0000:c1:00", "switch": 3, "sxid": 28006, "class": "Non-fatal", "link": 46,
            "text": "MC TS", "time": "2026-05-10T07:00:00Z"}),
        json!({"kind": "sxid", "pci": "0000:c1:00", "switch": 3, "sxid": 28006, "severity": 1,
            "text": "Severity 1 Engine instance 46"}),
        json!({"kind": "malformed"}),
        json!({"kind": "other"}),
        json!({"kind": "other"}),
        json!({"kind": "other"}),
    ];
    let objects = objects(log);
    for (object, expected) in objects.iter().zip(&expected) {
        assert_eq!(object, expected);
    }
    assert_eq!(objects.len(), expected.len());
}

#[test]
fn a_record_of_several_lines_is_one_input_line() {
    let objects = objects(
        b"4,1,2,-;NVRM: The NVIDIA GPU 0000:29:00.0\\x0aNVRM: (PCI ID: 10de:2330) installed in this system has\\x0aNVRM: fallen off the bus and is not responding to commands.\n4,2,3,-;NVRM: Xid (PCI:0000:3b:00): 79\\x0aNVRM: Xid (PCI:0000:5e:00): 79",
    );
    assert_eq!(objects.len(), 2);
    assert_eq!(objects[0]["kind"], "bus_lost");
    assert_eq!(objects[0]["pci"], "0000:29:00");
    assert_eq!(objects[1]["more"][0]["pci"], "0000:5e:00");
}

#[test]
fn what_is_not_the_drivers_own_line_is_another() {
    let log = b"6,100,1000000,-;process '/tmp/NVRM: Xid (PCI:0000:3b:00): 79, x' started with executable stack
6,100,1000000,-;process '/tmp/a\\x0aNVRM: Xid (PCI:0000:3b:00): 79, x' started with executable stack
6,101,1000000,-;[    1.000000] NVRM: Xid (PCI:0000:3b:00): 79, x
May 10 09:00:00 node mallory[4711]: NVRM: Xid (PCI:0000:3b:00): 79, x
May 10 09:00:00 node kernel: process '/tmp/NVRM: Xid (PCI:0000:3b:00): 79, x' started with executable stack
[    1.000000] traps: NVRM: Xid (PCI:0000:3b:00): 79, x
 NVRM: Xid (PCI:0000:3b:00): 79, x";
    for object in objects(log) {
        assert_eq!(object["kind"], "other", "{object}");
    }
    assert_eq!(objects(log).len(), 7);
}

#[test]
fn people_are_told_what_it_means_and_what_is_done() {
    let text = run_on(
        b"eth0: link up\nNVRM: Xid (PCI:0000:3b:00): 79, pid=7, name=a, GPU has fallen off the bus.\nNVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=a, MMU Fault\nNVRM: Xid (PCI:0000:3b:00): 999, x\n",
        Output::Text,
    );
    for part in [
        "line 2: Xid 79 on GPU 0000:3b:00: GPU has fallen off the bus",
        "GpuFellOffTheBus opens a fault; policy drain-node: cordon, evictPods, verify",
        "process        7 (a)",
        "line 3: Xid 31",
        "none of them acts on it: it is counted, and no node is touched",
        "line 4: Xid 999 on GPU 0000:3b:00: not in the catalogue",
        "4 lines, 3 messages of the driver",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn a_line_without_an_end_fills_no_memory_and_hides_nothing() {
    let mut log = vec![b'x'; 3 * LONGEST_LINE as usize];
    log.extend(b"\nNVRM: Xid (PCI:0000:3b:00): 79\n");
    let objects = objects(&log);
    assert_eq!(objects.len(), 2);
    assert_eq!(objects[1]["xid"], 79);
}
