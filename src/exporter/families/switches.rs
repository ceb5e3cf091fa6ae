//! What only the kernel log tells, beside Xids: NVSwitches, GPUs that do not start, lines that cannot be read.

use super::Page;
use super::family::families;
use crate::exporter::series::write;
use crate::exporter::switches::SxidKey;
use crate::xid::{self, PciAddress, SxidClass};
use prometheus_client::encoding::DescriptorEncoder;
use std::collections::BTreeMap;
use std::fmt;

families! {
    SXIDS: Counter "gpu_sxid_errors_total" of Node { pci_bus_id: "of the NVSwitch", sxid: "the code", class: "`Fatal`, `Non-fatal`, `Correctable`" },
        "SXids of NVSwitches. Lines that only tell more about one are not counted. Those that NVIDIA calls fatal start at 0 for each NVSwitch on the PCI bus, once the kernel log has been read to its end.",
        from "kernel log; sysfs",
        example "sum by (node, pci_bus_id, sxid) (increase(gpu_sxid_errors_total{class=\"Fatal\"}[1h])) > 0";
    SXID_LAST: Gauge "gpu_sxid_last_timestamp_seconds" of Node { pci_bus_id: "of the NVSwitch", sxid: "the code", class: "`Fatal`, `Non-fatal`, `Correctable`" },
        "When this SXid was last logged; absent until it is, and where the log does not tell when it was.",
        from "kernel log",
        example "time() - gpu_sxid_last_timestamp_seconds{class=\"Fatal\"} < 300";
    INIT_FAILURES: Counter "gpu_init_failures_total" of Node { pci_bus_id: "absent where the driver does not tell", UUID: "where the driver or the log tells" },
        "How often the driver logged that it could not start a GPU. Starts at 0 for each GPU that is known, and for those that the driver does not name, once the kernel log has been read to its end.",
        from "kernel log: RmInitAdapter failed",
        example "increase(gpu_init_failures_total[1h]) > 0";
    MALFORMED: Counter "gpu_exporter_kernel_log_malformed_lines_total" of Node {},
        "Lines of the kernel log that begin as an Xid or an SXid and cannot be read as one.",
        from "kernel log",
        example "increase(gpu_exporter_kernel_log_malformed_lines_total[1d]) > 0";
}

impl Page<'_> {
    pub(in crate::exporter) fn switches(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        caught_up: bool,
    ) -> fmt::Result {
        let row = &self.row;
        let mut events: BTreeMap<SxidKey, u64> = (self.state.switches.seen())
            .map(|(key, count)| (key, count.events))
            .collect();
        if caught_up {
            for key in self.watched() {
                events.entry(key).or_default();
            }
        }
        let events: Vec<_> = (events.into_iter())
            .map(|(key, events)| (Names::of(key), events))
            .collect();
        let events = events
            .iter()
            .map(|(names, events)| (row, names.labels(), *events));
        write(encoder, &SXIDS, events)?;
        let times: Vec<_> = (self.state.switches.seen())
            .filter_map(|(key, count)| Some((Names::of(key), count.last?)))
            .collect();
        let times = times
            .iter()
            .map(|(names, last)| (row, names.labels(), last.as_duration().as_secs_f64()));
        write(encoder, &SXID_LAST, times)?;
        let failures: Vec<_> = (self.init_failures(caught_up).into_iter())
            .map(|(pci, count)| {
                let uuid = pci.and_then(|pci| self.state.uuid_of(pci));
                let pci = pci.map(|pci| pci.bus_id()).unwrap_or_default();
                (pci, uuid.map(String::as_str).unwrap_or_default(), count)
            })
            .collect();
        let failures = failures
            .iter()
            .map(|(pci, uuid, count)| (row, [pci.as_str(), *uuid], *count));
        write(encoder, &INIT_FAILURES, failures)?;
        write(encoder, &MALFORMED, [(row, [], self.state.malformed)])
    }

    /// What each NVSwitch of the machine may say that ends its work.
    fn watched(&self) -> impl Iterator<Item = SxidKey> {
        let switches = self.state.presence.switches();
        switches.flat_map(|pci| {
            let fatal = xid::all_sxids().filter(|entry| entry.fatal);
            fatal.map(move |entry| SxidKey {
                pci,
                code: entry.code,
                class: SxidClass::Fatal,
            })
        })
    }

    /// How often each GPU could not be started, with those that could be always.
    fn init_failures(&self, caught_up: bool) -> BTreeMap<Option<PciAddress>, u64> {
        let mut failures = self.state.init_failures.clone();
        // Before that a GPU would have one series without its name, and soon another with it.
        if caught_up && self.state.knows_its_gpus(self.now) {
            let identified = self.gpus.iter().map(|shown| shown.gpu.identity.pci);
            let places = identified.chain(self.state.presence.should_be());
            for place in places.map(Some).chain([None]) {
                failures.entry(place).or_default();
            }
        }
        failures
    }
}

/// The labels of an SXid.
struct Names {
    pci: String,
    code: String,
    class: &'static str,
}

impl Names {
    fn of(key: SxidKey) -> Self {
        Self {
            pci: key.pci.bus_id(),
            code: key.code.to_string(),
            class: key.class.as_str(),
        }
    }

    fn labels(&self) -> [&str; 3] {
        [&self.pci, &self.code, self.class]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::exporter::state::State;
    use crate::exporter::state::tests::{A, B, at, healthy};
    use crate::nvml::BusDevices;
    use crate::xid::Parser;

    const SWITCH: &str = "0000:c1:00";
    const UNLISTED: &str = "0000:af:00";

    fn machine() -> State {
        let mut state = healthy().0;
        let places = |places: &[&str]| places.iter().map(|place| place.parse().unwrap()).collect();
        state.presence.kernel_sees(Some(BusDevices {
            ours: places(&[A, B, UNLISTED]),
            switches: places(&[SWITCH]),
            ..BusDevices::default()
        }));
        state
    }

    #[test]
    fn a_gpu_that_may_not_start_is_counted_from_0() {
        let mut state = machine();
        let failures = |state: &State, caught_up| {
            let page = Page::new("a", state, std::time::Instant::now());
            let all = page.init_failures(caught_up).into_iter();
            let name = |pci: Option<PciAddress>| pci.map(|pci| pci.to_string());
            all.map(|(pci, count)| (name(pci).unwrap_or_default(), count))
                .collect::<Vec<_>>()
        };
        let named = |place: &str, count| (place.to_owned(), count);
        assert!(failures(&state, false).is_empty());
        let none = [named("", 0), named(A, 0), named(B, 0), named(UNLISTED, 0)];
        assert_eq!(failures(&state, true), none);
        let line = "NVRM: GPU 0000:af:00.0: RmInitAdapter failed! (0x24:0x65:1477)";
        state.observe(Parser::default().parse(line).next().unwrap(), Some(at(1)));
        assert_eq!(failures(&state, true)[3], named(UNLISTED, 1));
        assert_eq!(failures(&state, false), [named(UNLISTED, 1)]);
    }

    #[test]
    fn each_switch_is_watched_for_what_is_fatal() {
        let state = machine();
        let page = Page::new("a", &state, std::time::Instant::now());
        let codes: Vec<u32> = page.watched().map(|key| key.code).collect();
        assert!(codes.contains(&12020) && !codes.contains(&12028));
        assert!(page.watched().all(|key| key.pci == SWITCH.parse().unwrap()));
    }
}
