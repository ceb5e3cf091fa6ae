//! What only the kernel log tells, beside Xids: NVSwitches, GPUs that do not start, lines that cannot be read.

use super::Page;
use super::family::families;
use crate::exporter::series::write;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

families! {
    SXIDS: Counter "gpu_sxid_errors_total" of Node { pci_bus_id: "of the NVSwitch", sxid: "the code", class: "`Fatal`, `Non-fatal`, `Correctable`" },
        "SXids of NVSwitches. Lines that only tell more about one are not counted.",
        from "kernel log",
        example "sum by (node, pci_bus_id, sxid) (increase(gpu_sxid_errors_total{class=\"Fatal\"}[1h])) > 0";
    SXID_LAST: Gauge "gpu_sxid_last_timestamp_seconds" of Node { pci_bus_id: "of the NVSwitch", sxid: "the code", class: "`Fatal`, `Non-fatal`, `Correctable`" },
        "When this SXid was last logged; absent until it is, and where the log does not tell when it was.",
        from "kernel log",
        example "time() - gpu_sxid_last_timestamp_seconds{class=\"Fatal\"} < 300";
    INIT_FAILURES: Counter "gpu_init_failures_total" of Node { pci_bus_id: "absent where the driver does not tell", UUID: "where the log tells" },
        "How often the driver logged that it could not start a GPU.",
        from "kernel log: RmInitAdapter failed",
        example "increase(gpu_init_failures_total[1h]) > 0";
    MALFORMED: Counter "gpu_exporter_kernel_log_malformed_lines_total" of Node {},
        "Lines of the kernel log that begin as an Xid or an SXid and cannot be read as one.",
        from "kernel log",
        example "increase(gpu_exporter_kernel_log_malformed_lines_total[1d]) > 0";
}

impl Page<'_> {
    pub(in crate::exporter) fn switches(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let row = &self.row;
        let seen: Vec<_> = (self.state.switches.seen())
            .map(|(key, count)| (key.pci.bus_id(), key.code.to_string(), key.class, count))
            .collect();
        let events = seen.iter().map(|(pci, code, class, count)| {
            let labels = [pci.as_str(), code.as_str(), class.as_str()];
            (row, labels, count.events)
        });
        write(encoder, &SXIDS, events)?;
        let times = seen.iter().filter_map(|(pci, code, class, count)| {
            let labels = [pci.as_str(), code.as_str(), class.as_str()];
            Some((row, labels, count.last?.as_duration().as_secs_f64()))
        });
        write(encoder, &SXID_LAST, times)?;
        let failures: Vec<_> = (self.state.init_failures.iter())
            .map(|(pci, count)| {
                let uuid = pci.and_then(|pci| self.state.logged_uuids.get(&pci));
                let pci = pci.map(|pci| pci.bus_id()).unwrap_or_default();
                (pci, uuid.map(String::as_str).unwrap_or_default(), *count)
            })
            .collect();
        let failures = failures
            .iter()
            .map(|(pci, uuid, count)| (row, [pci.as_str(), *uuid], *count));
        write(encoder, &INIT_FAILURES, failures)?;
        write(encoder, &MALFORMED, [(row, [], self.state.malformed)])
    }
}
