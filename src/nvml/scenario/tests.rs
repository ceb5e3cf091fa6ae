//! What the driver, its events and the log tell of a scenario.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::nvml::{Driver, DriverError, DriverSource, Event};
use crate::xid::{Message, Parser};
use std::sync::mpsc;
use std::time::Duration;

/// How long anything may take on a busy machine.
const SOON: Duration = Duration::from_secs(30);
const MOMENT: Duration = Duration::from_millis(20);
/// The calls that are made of a driver that hangs.
const CALLS: usize = 9;

/// A simulation whose clock stands at 0.
fn play(text: &str) -> Arc<Simulation> {
    let simulation = check::scenario(Path::new("faults.yaml"), text)
        .unwrap()
        .play("node-1");
    simulation.clock.set(Duration::ZERO);
    simulation
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn driver(simulation: &Arc<Simulation>) -> Arc<dyn Driver> {
    ScenarioDriver::new(Arc::clone(simulation)).open().unwrap()
}

#[test]
fn a_gpu_is_what_the_file_says_and_the_rest_is_made_up() {
    let simulation = play(
        "driver_version: 580.95.05\ncuda_version: 13.0\nmodel: NVIDIA H100\nmemory_gib: 80\nlinks: 2\nexpected: 4\ngpus:\n  - {}\n  - uuid: GPU-00000000-0000-4000-8000-000000000001\n    pci_bus_id: '00000000:3B:00.0'\n    serial: '165'\n    vbios: 96.00\n    model: NVIDIA B200\n    memory_gib: 180\n    links: 18\n    instances: [{gpu_instance: 7, profile: 1g.23gb}]\n",
    );
    assert_eq!(simulation.scenario.expected_gpus(), Some(4));
    let driver = driver(&simulation);
    assert_eq!(driver.version().unwrap(), "580.95.05");
    assert_eq!(driver.cuda_version().unwrap(), "13.0");
    assert_eq!(driver.gpu_count(), Ok(2));
    let first = driver.identity(0).unwrap();
    assert_eq!((first.model.as_str(), first.serial), ("NVIDIA H100", None));
    assert_eq!(first.uuid, SimulatedGpus::new(2, "node-1").identify(0).uuid);
    let second = driver.identity(1).unwrap();
    assert_eq!(second.uuid, "GPU-00000000-0000-4000-8000-000000000001");
    assert_eq!(second.pci.bus_id(), "00000000:3B:00.0");
    assert_eq!((second.model.as_str(), second.minor), ("NVIDIA B200", 1));
    assert_eq!(second.serial.as_deref(), Some("165"));
    assert_eq!(second.vbios.as_deref(), Some("96.00"));
    let (usage, _) = driver.usage(1).unwrap();
    let links = |index| driver.links(index).unwrap().0.links.len();
    assert_eq!((links(0), links(1)), (2, 18));
    assert_eq!(usage.memory.unwrap().total, 180 << 30);
    let (instances, _) = driver.instances(1).unwrap();
    assert_eq!(instances[0].profile.as_deref(), Some("1g.23gb"));
    assert_eq!(driver.details(1).unwrap().0.mig_mode, Some((true, true)));
    assert_eq!(driver.details(0).unwrap().0.mig_mode, Some((false, false)));
}

#[test]
fn a_file_without_a_timeline_is_as_a_count() {
    let simulation = play("gpus: 2\n");
    let (scenario, count) = (driver(&simulation), SimulatedGpus::new(2, "node-1"));
    for index in 0..2 {
        assert_eq!(scenario.identity(index), count.identity(index));
        assert_eq!(scenario.sample(index), count.sample(index));
        assert_eq!(scenario.usage(index), count.usage(index));
        assert_eq!(scenario.links(index), count.links(index));
        assert_eq!(scenario.instances(index), count.instances(index));
        assert_eq!(scenario.details(index), count.details(index));
    }
    assert_eq!(scenario.version(), count.version());
}

#[test]
fn a_sample_is_that_of_its_moment() {
    let simulation = play(
        "gpus: 1\ntimeline:\n  - {at: 10s, gpu: 0, temperature: {to: 90, over: 50s}}\n  - {at: 10s, gpu: 0, ecc: {corrected: {to: 500, over: 100s}, uncorrected: {to: 1}}}\n  - {at: 10s, gpu: 0, remapped_rows: {uncorrected: 1, pending: true}}\n  - {at: 10s, gpu: 0, recovery_action: gpu_reset}\n  - {at: 10s, gpu: 0, throttle: [hw_slowdown, hw_thermal_slowdown]}\n  - {at: 10s, gpu: 0, link_down: 3}\n  - {at: 10s, gpu: 0, memory_temperature: {to: 98, over: 50s}}\n  - {at: 10s, gpu: 0, pcie_replays: {to: 100, over: 50s}}\n  - {at: 10s, gpu: 0, link_errors: {link: 2, kind: crc, to: 40, over: 10s}}\n  - {at: 20s, gpu: 0, link_up: 3}\n  - {at: 20s, gpu: 0, throttle: []}\n",
    );
    let driver = driver(&simulation);
    simulation.clock.set(seconds(15));
    let sample = driver.sample(0).unwrap();
    assert_eq!(sample.temperature, Some(45));
    assert_eq!(sample.memory_temperature, Some(53));
    assert_eq!(sample.pcie_replays, Some(10));
    let errors = |link: usize| driver.links(0).unwrap().0.links[link].errors.clone();
    assert_eq!(errors(2), [("replay", 0), ("recovery", 0), ("crc", 20)]);
    assert_eq!(errors(1), [("replay", 0), ("recovery", 0), ("crc", 0)]);
    let counts: Vec<_> = sample
        .ecc
        .iter()
        .map(|count| (count.corrected, count.count))
        .collect();
    assert_eq!(counts, [(true, 25), (true, 25), (false, 1), (false, 1)]);
    let rows = sample.rows.unwrap();
    assert!(rows.pending && rows.uncorrected == 1 && !rows.failed);
    assert_eq!(sample.recovery_action.unwrap().0, 1);
    assert_eq!(sample.clock_events, Some(0x48));
    let up = |driver: &dyn Driver| driver.links(0).unwrap().0.links[3].up;
    assert_eq!(up(driver.as_ref()), Some(false));
    simulation.clock.set(seconds(20));
    assert_eq!(up(driver.as_ref()), Some(true));
    assert_eq!(driver.sample(0).unwrap().clock_events, Some(0x1));
}

#[test]
fn a_gpu_is_lost_or_gone_or_the_driver_is() {
    let simulation = play(
        "gpus: 3\ntimeline:\n  - {at: 1s, gpu: 0, lost: true}\n  - {at: 2s, gpu: 1, vanish: true}\n  - {at: 3s, driver: unloaded}\n  - {at: 4s, driver: loaded}\n  - {at: 5s, gpu: 0, back: true}\n  - {at: 5s, gpu: 1, back: true}\n",
    );
    let driver = driver(&simulation);
    let third = driver.identity(2).unwrap().uuid;
    simulation.clock.set(seconds(1));
    assert_eq!(driver.sample(0), Err(DriverError::GpuLost));
    assert_eq!(driver.identity(0), Err(DriverError::GpuLost));
    assert_eq!(driver.gpu_count(), Ok(3));
    simulation.clock.set(seconds(2));
    assert_eq!(driver.gpu_count(), Ok(2));
    let moved = driver.identity(1).unwrap();
    assert_eq!((moved.uuid, moved.index, moved.minor), (third, 1, 2));
    assert_eq!(
        driver.sample(2).unwrap_err().code(),
        "invalid_argument",
        "indices are those that are left"
    );
    simulation.clock.set(seconds(3));
    let source = ScenarioDriver::new(Arc::clone(&simulation));
    for error in [
        driver.sample(1).unwrap_err(),
        driver.gpu_count().unwrap_err(),
        source.open().map(|_| ()).unwrap_err(),
    ] {
        assert!(error.ends_session(), "{error}");
        assert_eq!(error.code(), "driver_not_loaded");
    }
    simulation.clock.set(seconds(5));
    assert_eq!(driver.gpu_count(), Ok(3));
    assert!(driver.sample(0).is_ok());
}

#[test]
fn a_call_hangs_until_the_hang_ends_and_the_others_are_answered() {
    let simulation = play(
        "gpus: 3\ntimeline:\n  - {at: 10s, gpu: 0, hang: 20s}\n  - {at: 10s, gpu: 1, hang: true}\n  - {at: 40s, gpu: 1, back: true}\n",
    );
    simulation.clock.set(seconds(10));
    let driver = driver(&simulation);
    let (sender, answers) = mpsc::channel();
    for index in 0..2 {
        let (driver, sender) = (Arc::clone(&driver), sender.clone());
        std::thread::spawn(move || sender.send((index, driver.sample(index).is_ok())));
    }
    assert!(driver.sample(2).is_ok());
    simulation.clock.set(seconds(29));
    assert!(answers.recv_timeout(MOMENT).is_err(), "they hang");
    simulation.clock.set(seconds(30));
    assert_eq!(answers.recv_timeout(SOON), Ok((0, true)));
    assert!(answers.recv_timeout(MOMENT).is_err(), "it hangs");
    simulation.clock.set(seconds(40));
    assert_eq!(answers.recv_timeout(SOON), Ok((1, true)));
}

#[test]
fn a_call_that_outlasts_hangs_finds_how_the_gpu_is_then() {
    let simulation = play(
        "gpus: 2\ntimeline:\n  - {at: 10s, gpu: 0, hang: 10s}\n  - {at: 10s, gpu: 1, hang: 10s}\n  - {at: 15s, driver: hung}\n  - {at: 30s, gpu: 0, lost: true}\n  - {at: 30s, gpu: 1, hang: 40s}\n  - {at: 60s, driver: loaded}\n",
    );
    simulation.clock.set(seconds(12));
    let driver = driver(&simulation);
    let (sender, answers) = mpsc::channel();
    for index in 0..2 {
        let (driver, sender) = (Arc::clone(&driver), sender.clone());
        std::thread::spawn(move || sender.send((index, driver.sample(index).is_ok())));
    }
    for moment in [20, 59] {
        simulation.clock.set(seconds(moment));
        assert!(answers.recv_timeout(MOMENT).is_err(), "they hang");
    }
    simulation.clock.set(seconds(60));
    assert_eq!(answers.recv_timeout(SOON), Ok((0, false)), "it is lost");
    assert!(answers.recv_timeout(MOMENT).is_err(), "it hangs anew");
    simulation.clock.set(seconds(70));
    assert_eq!(answers.recv_timeout(SOON), Ok((1, true)));
}

#[test]
fn a_driver_that_hangs_answers_no_call_until_it_does_again() {
    let simulation = play(
        "gpus: 2\ncuda_version: 13.0\ntimeline:\n  - {at: 10s, driver: hung}\n  - {at: 11s, gpu: 0, xid: 120}\n  - {at: 20s, driver: loaded}\n  - {at: 30s, driver: hung}\n  - {at: 40s, driver: unloaded}\n",
    );
    let driver = driver(&simulation);
    let mut events = Arc::clone(&driver).events(0).unwrap().unwrap();
    simulation.clock.set(seconds(10));
    let (sender, answers) = mpsc::channel();
    let ask = || {
        type Call = fn(&dyn Driver) -> bool;
        let calls: [Call; CALLS] = [
            |driver| driver.cuda_version().is_some(),
            |driver| driver.usage(0).is_ok(),
            |driver| driver.links(0).is_ok(),
            |driver| driver.instances(0).is_ok(),
            |driver| driver.details(0).is_ok(),
            |driver| driver.version().is_ok(),
            |driver| driver.gpu_count().is_ok(),
            |driver| driver.identity(0).is_ok(),
            |driver| driver.sample(1).is_ok(),
        ];
        for call in calls {
            let (driver, sender) = (Arc::clone(&driver), sender.clone());
            std::thread::spawn(move || sender.send(call(driver.as_ref())));
        }
    };
    ask();
    let (source, opened) = (ScenarioDriver::new(Arc::clone(&simulation)), sender.clone());
    std::thread::spawn(move || opened.send(source.open().is_ok()));
    let (told, event) = mpsc::channel();
    std::thread::spawn(move || told.send(events.next(Duration::ZERO)));
    simulation.clock.set(seconds(19));
    assert!(answers.recv_timeout(MOMENT).is_err(), "they hang");
    assert!(event.recv_timeout(MOMENT).is_err(), "who waits hangs, too");
    simulation.clock.set(seconds(20));
    for _ in 0..=CALLS {
        assert_eq!(answers.recv_timeout(SOON), Ok(true));
    }
    assert_eq!(event.recv_timeout(SOON), Ok(Ok(Some(xid(120)))));
    simulation.clock.set(seconds(30));
    ask();
    assert!(answers.recv_timeout(MOMENT).is_err(), "they hang");
    simulation.clock.set(seconds(40));
    for _ in 0..CALLS {
        assert_eq!(
            answers.recv_timeout(SOON),
            Ok(false),
            "it went while they hung"
        );
    }
}

#[test]
fn a_running_clock_ends_a_hang() {
    let text = "gpus: 1\ntimeline: [{at: 0s, gpu: 0, hang: 50ms}]\n";
    let simulation = check::scenario(Path::new("faults.yaml"), text)
        .unwrap()
        .play("node-1");
    let driver = driver(&simulation);
    assert!(driver.sample(0).is_ok());
    assert!(simulation.clock.elapsed() >= Duration::from_millis(50));
}

const TOLD: &str = "gpus: 2\ntimeline:\n  - {at: 1s, gpu: 0, xid: 95}\n  - {at: 5s, gpu: 0, xid: 79}\n  - {at: 5s, gpu: 1, xid: 48}\n  - {at: 6s, gpu: 0, xid: 94, gpu_instance: 7, compute_instance: 0, pid: 7, name: trainer, text: Contained, source: nvml}\n  - {at: 7s, gpu: 0, xid: 63, source: log}\n  - {at: 8s, gpu: 0, recovery_action: node_reboot}\n  - {at: 8s, gpu: 0, recovery_action: gpu_reset, source: log}\n  - {at: 9s, line: \"NVRM: The NVIDIA GPU 0000:11:00.0\\nNVRM: fallen off the bus and is not responding to commands.\"}\n  - {at: 10s, driver: unloaded}\n";

fn xid(code: u32) -> Event {
    Event::Xid {
        code,
        gpu_instance: None,
        compute_instance: None,
    }
}

#[test]
fn events_are_those_of_a_gpu_since_it_was_registered_for() {
    let simulation = play(TOLD);
    let driver = driver(&simulation);
    simulation.clock.set(seconds(1));
    let mut events = Arc::clone(&driver).events(0).unwrap().unwrap();
    assert_eq!(events.others(), ["recovery_action"]);
    assert_eq!(
        events.next(Duration::ZERO),
        Ok(None),
        "what was is not told"
    );
    simulation.clock.set(seconds(9));
    let mut told = Vec::new();
    while let Some(event) = events.next(Duration::ZERO).unwrap() {
        told.push(event);
    }
    let contained = Event::Xid {
        code: 94,
        gpu_instance: Some(7),
        compute_instance: Some(0),
    };
    assert_eq!(
        told,
        [
            xid(79),
            contained,
            xid(154),
            Event::Other("recovery_action")
        ]
    );
    simulation.clock.set(seconds(10));
    let error = events.next(SOON).unwrap_err();
    assert!(error.ends_session());
}

#[test]
fn whoever_waits_for_an_event_is_woken() {
    let simulation = play(TOLD);
    let mut events = driver(&simulation).events(1).unwrap().unwrap();
    let (sender, answers) = mpsc::channel();
    std::thread::spawn(move || sender.send(events.next(Duration::from_secs(3600))));
    assert!(answers.recv_timeout(MOMENT).is_err());
    simulation.clock.set(seconds(5));
    assert_eq!(answers.recv_timeout(SOON), Ok(Ok(Some(xid(48)))));
}

#[test]
fn the_log_has_what_the_kernel_would_have_written() {
    let simulation = play(TOLD);
    let mut log = ScenarioLog::new(Arc::clone(&simulation));
    assert_eq!(log.next(Duration::ZERO), None);
    simulation.clock.set(seconds(20));
    let records: Vec<String> = std::iter::from_fn(|| log.next(Duration::ZERO)).collect();
    assert_eq!(
        records[1],
        "4,1,5000000,-;NVRM: Xid (PCI:0000:10:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    );
    assert!(records.iter().all(|record| {
        record.is_ascii() && record.ends_with('\n') && record.matches('\n').count() == 1
    }));
    let mut parser = Parser::default();
    let mut told = Vec::new();
    for record in &records {
        let text = record.split_once(';').unwrap().1.replace("\\x0a", "\n");
        for message in parser.parse(&text) {
            told.push(match message {
                Message::Xid(xid) => (xid.pci.bus, xid.code, xid.recovery_change()),
                Message::BusLoss(loss) => (loss.pci.bus, 0, None),
                other => panic!("{other:?}"),
            });
        }
    }
    let change = |from, to| {
        Some(crate::xid::RecoveryChange {
            from: crate::xid::RecoveryAction(from),
            to: crate::xid::RecoveryAction(to),
        })
    };
    assert_eq!(
        told,
        [
            (0x10, 95, None),
            (0x10, 79, None),
            (0x11, 48, None),
            (0x10, 63, None),
            (0x10, 154, change(0, 2)),
            (0x10, 154, change(2, 1)),
            (0x11, 0, None),
        ]
    );
}

#[test]
fn an_xid_reads_as_the_step_says() {
    let simulation = play(
        "gpus: 1\ntimeline: [{at: 0s, gpu: 0, xid: 94, gpu_instance: 7, compute_instance: 0, pid: 7, name: trainer, text: 'Contained: é'}]\n",
    );
    let record = ScenarioLog::new(simulation).next(Duration::ZERO).unwrap();
    assert_eq!(
        record,
        "4,0,0,-;NVRM: Xid (PCI:0000:10:00 GPU-I:07 GPU-CI:00): 94, pid=7, name=trainer, Contained: \\xc3\\xa9\n"
    );
}
