//! What a file may say, and what is said of one that is wrong.
#![allow(clippy::unwrap_used)]

use super::*;
use std::time::Duration;

fn read(text: &str) -> Result<Scenario, ScenarioError> {
    scenario(Path::new("faults.yaml"), text)
}

fn refused(text: &str) -> String {
    match read(text) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("this is accepted:\n{text}"),
    }
}

/// A file with one step on two GPUs.
fn step(step: &str) -> String {
    format!("gpus: 2\ntimeline:\n  - {step}\n")
}

#[test]
fn a_mistake_in_the_form_is_told_with_its_place_and_a_mend() {
    let mut wrong = Vec::new();
    for (text, expected) in [
        (
            "gpus: 2\nrepat: 1m\n",
            "faults.yaml:2:1: unknown key `repat`; known here are gpus, model,",
        ),
        (
            "gpus: [{modell: x}]\n",
            "faults.yaml:1:9: unknown key `modell`; known here are model, uuid,",
        ),
        (
            &step("{at: 1s, gpu: 0, xit: 79}"),
            "faults.yaml:3:22: unknown key `xit`; known here are at, gpu, xid,",
        ),
        (
            &step("{at: soon, gpu: 0, xid: 79}"),
            "`soon` is not a duration such as 500ms, 30s or 1m30s",
        ),
        (
            &step("{at: 30, gpu: 0, xid: 79}"),
            "faults.yaml:3:10: `30` is not a duration",
        ),
        (
            &step("{at: -1s, gpu: 0, xid: 79}"),
            "`-1s` is not a duration",
        ),
        (&step("{gpu: 0, xid: 79}"), "the key `at` is missing"),
        (
            &step("{at: 1s, gpu: 0, hang: ever}"),
            "`ever` is neither true nor a duration",
        ),
        (
            &step("{at: 1s, driver: gone}"),
            "`gone` is none of the values that are known here: unloaded, loaded, hung",
        ),
        (
            &step("{at: 1s, gpu: 0, xid: 79, source: kmsg}"),
            "both, log, nvml",
        ),
        (
            &step("{at: 1s, gpu: 0, recovery_action: reset}"),
            "none, gpu_reset, node_reboot, drain_p2p, drain_and_reset",
        ),
        (
            &step("{at: 1s, gpu: 0, temperature: {over: 1m}}"),
            "the key `to` is missing",
        ),
        (
            &step("{at: 1s, gpu: 0, xid: 79, xid: 80}"),
            "`xid` is there twice",
        ),
        ("model: x\n", "the key `gpus` is missing"),
        (
            "gpus: many\n",
            "faults.yaml:1:1: expected how many GPUs there are, or a list of them",
        ),
        ("gpus: [\n", "faults.yaml:"),
        ("", "faults.yaml:"),
    ] {
        let told = refused(text);
        let one_line = told.starts_with("faults.yaml:") && told.lines().count() == 1;
        if !one_line || !told.contains(expected) {
            wrong.push(format!("{text}{told}\n{expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_step_that_cannot_be_is_told_with_its_number_and_place() {
    for (wrong, expected) in [
        (
            "{at: 1s, gpu: 2, xid: 79}",
            "there is no GPU 2; they are 0 to 1",
        ),
        (
            "{at: 1s, xid: 79}",
            "`xid` is of one GPU; say which, such as `gpu: 0`",
        ),
        (
            "{at: 1s, gpu: 0, driver: unloaded}",
            "`driver` is of no single GPU; leave out `gpu`",
        ),
        (
            "{at: 1s, gpu: 0}",
            "nothing happens; it needs one of xid, line,",
        ),
        (
            "{at: 1s, gpu: 0, xid: 79, lost: true}",
            "`xid` and `lost` are two things; make two steps of it",
        ),
        (
            "{at: 1s, gpu: 0, lost: true, pid: 7}",
            "`pid` is of an Xid, and this is `lost`",
        ),
        (
            "{at: 1s, gpu: 0, lost: true, source: log}",
            "`source` is of `xid` and `recovery_action`",
        ),
        (
            "{at: 1s, gpu: 0, lost: false}",
            "`lost` can only be true; `back: true` ends",
        ),
        ("{at: 1s, gpu: 0, hang: false}", "`hang` can only be true"),
        (
            "{at: 1s, gpu: 0, hang: 0s}",
            "`hang` needs more time than none",
        ),
        (
            "{at: 1s, gpu: 0, ecc: {}}",
            "`ecc` needs `corrected` or `uncorrected`",
        ),
        (
            "{at: 1s, gpu: 0, temperature: {to: 900}}",
            "`temperature` ends at 900 °C; the most is 200",
        ),
        (
            "{at: 1s, gpu: 0, throttle: [heat]}",
            "`throttle` has the unknown `heat`; known are gpu_idle,",
        ),
        (
            "{at: 1s, gpu: 0, link_down: 4}",
            "there is no link 4 on GPU 0, which has 4 (`links`)",
        ),
        (
            "{at: 1s, gpu: 0, link_errors: {link: 4, kind: crc, to: 1}}",
            "there is no link 4 on GPU 0, which has 4 (`links`)",
        ),
        (
            "{at: 1s, gpu: 0, link_errors: {link: 0, kind: ecc, to: 1}}",
            "`link_errors` has the unknown kind `ecc`; known are replay, recovery, crc",
        ),
        (
            "{at: 1s, gpu: 0, memory_temperature: {to: 201}}",
            "`memory_temperature` ends at 201 °C; the most is 200",
        ),
        (
            "{at: 1s, gpu: 0, pcie_replays: {to: 4294967296}}",
            "`pcie_replays` ends at 4294967296; the most is 4294967295",
        ),
        ("{at: 1s, gpu: 0, xid: 0}", "there is no Xid 0"),
        ("{at: 1s, gpu: 0, xid: 154}", "use `recovery_action`"),
    ] {
        let told = refused(&format!(
            "gpus: 2\ntimeline:\n  - {{at: 5s, gpu: 1, lost: true}}\n  - {wrong}\n"
        ));
        assert!(
            told.starts_with("faults.yaml:4:5: step 2: ") && told.contains(expected),
            "{told}"
        );
    }
}

#[test]
fn counts_do_not_fall_and_rounds_hold_their_steps() {
    let told = refused(
        "gpus: 1\ntimeline:\n  - {at: 9s, gpu: 0, ecc: {corrected: {to: 4}}}\n  - {at: 1s, gpu: 0, ecc: {corrected: {to: 8, over: 8s}}}\n",
    );
    assert!(
        told.contains(
            ":3:5: step 1: `ecc`: corrected errors are at 8 by then and never fall; 4 is less"
        ),
        "{told}"
    );
    for (more, less, expected) in [
        (
            "pcie_replays: {to: 8}",
            "pcie_replays: {to: 4}",
            "`pcie_replays`: they are at 8 by then and never fall; 4 is less",
        ),
        (
            "link_errors: {link: 2, kind: crc, to: 8}",
            "link_errors: {link: 2, kind: crc, to: 4}",
            "`link_errors`: those of kind crc on link 2 are at 8 by then and never fall; 4 is less",
        ),
    ] {
        let told = refused(&format!(
            "gpus: 1\ntimeline:\n  - {{at: 1s, gpu: 0, {more}}}\n  - {{at: 2s, gpu: 0, {less}}}\n"
        ));
        assert!(
            told.contains(":4:5: step 2: ") && told.contains(expected),
            "{told}"
        );
    }
    // Each kind and each link counts for itself.
    read("gpus: 1\ntimeline:\n  - {at: 1s, gpu: 0, link_errors: {link: 2, kind: crc, to: 8}}\n  - {at: 2s, gpu: 0, link_errors: {link: 1, kind: crc, to: 4}}\n  - {at: 2s, gpu: 0, link_errors: {link: 2, kind: replay, to: 4}}\n").unwrap();
    let told = refused("gpus: 1\nrepeat: 10s\ntimeline:\n  - {at: 10s, gpu: 0, lost: true}\n");
    assert!(
        told.contains(":4:5: step 1: is at 10s, and all begins anew after 10s (`repeat`)"),
        "{told}"
    );
    assert!(refused("gpus: 1\nrepeat: 10ms\n").contains(":2:9: repeat: must be at least 1s"));
    // After a reset the count begins anew.
    read("gpus: 1\ntimeline:\n  - {at: 1s, gpu: 0, ecc: {corrected: {to: 8}}}\n  - {at: 2s, gpu: 0, back: true}\n  - {at: 3s, gpu: 0, ecc: {corrected: {to: 4}}}\n").unwrap();
}

#[test]
fn gpus_that_cannot_be() {
    for (text, expected) in [
        ("gpus: 0\n", ":1:7: gpus: must be from 1 to 64 GPUs"),
        ("gpus: 65\n", "must be from 1 to 64 GPUs"),
        ("gpus: -1\n", "must be from 1 to 64 GPUs"),
        ("gpus: []\n", "must be from 1 to 64 GPUs"),
        (
            "gpus: 1\nlinks: 19\n",
            ":2:8: links: a GPU has at most 18 NVLinks",
        ),
        (
            "gpus: 1\nmemory_gib: 0\n",
            ":2:13: memory_gib: a GPU has from 1 to 4096 GiB",
        ),
        (
            "gpus: 1\nexpected: 5000\n",
            ":2:11: expected: must be from 0 to 1024",
        ),
        (
            "gpus:\n  - uuid: GPU-1\n",
            ":2:5: GPU 0: `uuid`: GPU-1 is not `GPU-` and groups of",
        ),
        (
            "gpus:\n  - model: x\n  - pci_bus_id: here\n",
            ":3:5: GPU 1: `pci_bus_id`: \"here\" is not a PCI address",
        ),
        (
            "gpus:\n  - pci_bus_id: '0000:11:00'\n  - model: x\n",
            "GPU 1: another GPU is at 00000000:11:00.0",
        ),
        (
            "gpus:\n  - instances: [{gpu_instance: 1, uuid: MIG-1}]\n",
            "GPU 0: `uuid`: MIG-1 is not `MIG-`",
        ),
    ] {
        let told = refused(text);
        assert!(told.contains(expected), "{told}");
    }
    let uuid = "uuid: GPU-00000000-0000-4000-8000-000000000001";
    let told = refused(&format!("gpus:\n  - {uuid}\n  - {uuid}\n"));
    assert!(told.contains("GPU 1: another GPU has the UUID"), "{told}");
}

#[test]
fn a_file_that_is_not_there() {
    let error = Scenario::read(Path::new("/nonexistent/faults.yaml")).unwrap_err();
    assert!(matches!(error, ScenarioError::Read { .. }));
    assert!(error.to_string().contains("/nonexistent/faults.yaml"));
}

#[test]
fn the_example_plays_what_it_says() {
    let text = include_str!("../../../docs/examples/simulated-gpus.yaml");
    let example = read(text).unwrap();
    assert_eq!(example.boards.len(), 8);
    let at = |seconds| example.timeline.at(Duration::from_secs(seconds));
    let healthy = at(0);
    // Everything that goes wrong is over before it begins anew.
    let mut end = at(15 * 60 - 1);
    for (gpu, new) in end.gpus.iter_mut().zip(&healthy.gpus) {
        gpu.rows = new.rows;
        (gpu.corrected, gpu.uncorrected) = (new.corrected, new.uncorrected);
    }
    assert_eq!(end, healthy);
    let every = (0..900).map(at);
    let some = |is: &dyn Fn(&super::super::state::GpuState) -> bool| {
        every.clone().any(|moment| moment.gpus.iter().any(is))
    };
    assert!(some(&|gpu| gpu.uncorrected.volatile > 0 && gpu.rows.pending));
    assert!(some(&|gpu| gpu.temperature > 90 && gpu.throttle != 0));
    assert!(some(&|gpu| gpu.hang.is_some()));
    assert!(some(&|gpu| gpu.memory_temperature > 100));
    assert!(some(&|gpu| gpu.pcie_replays > 100));
    assert!(some(&|gpu| gpu
        .link_errors
        .values()
        .any(|errors| *errors > 100)));
    let hung =
        |moment: super::super::state::Moment| moment.driver == super::super::form::Driver::Hung;
    assert!(every.clone().any(hung));
}

/// The keys of a part of the file, as the code knows them.
fn keys(text: &str) -> BTreeSet<String> {
    let told = refused(text);
    let (_, known) = told.split_once("known here are ").unwrap();
    known.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_documentation_has_each_key() {
    let page = include_str!("../../../docs/simulated-gpus.md");
    for (heading, text) in [
        ("## The file", "none: 1\n".to_owned()),
        ("## A GPU", "gpus: [{none: 1}]\n".to_owned()),
        (
            "## A MIG instance",
            "gpus: [{instances: [{none: 1}]}]\n".to_owned(),
        ),
        ("## A step", step("{none: 1}")),
        (
            "## A number that goes up or down",
            step("{at: 0s, temperature: {none: 1}}"),
        ),
        ("## ECC errors", step("{at: 0s, ecc: {none: 1}}")),
        (
            "## Errors of a link",
            step("{at: 0s, link_errors: {none: 1}}"),
        ),
        (
            "## Remapped rows",
            step("{at: 0s, remapped_rows: {none: 1}}"),
        ),
    ] {
        let (_, section) = page
            .split_once(&format!("{heading}\n"))
            .unwrap_or_else(|| panic!("no {heading}"));
        let section = section.split("\n## ").next().unwrap();
        let documented: BTreeSet<String> = section
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
            .map(str::to_owned)
            .collect();
        assert_eq!(documented, keys(&text), "{heading}");
    }
}
