//! The Xids that were seen.

use super::Page;
use super::family::families;
use crate::exporter::series::{Row, write};
use crate::xid;
use prometheus_client::encoding::DescriptorEncoder;
use std::collections::BTreeSet;
use std::fmt;

families! {
    ERRORS: Counter "gpu_xid_errors_total" of Gpu { xid: "the code" },
        "Xids of the driver. The watched codes start at 0, once the kernel log has been read to its end or could not be opened; until then only what was found is there.",
        from "kernel log, NVML events: what both tell within a second is one",
        example "sum by (xid) (increase(gpu_xid_errors_total[1d])) > 0";
    LAST: Gauge "gpu_xid_last_timestamp_seconds" of Gpu { xid: "the code" },
        "When this Xid last happened; absent until it has, and where the log does not tell when it was.",
        from "kernel log, NVML events",
        example "time() - gpu_xid_last_timestamp_seconds{xid=\"79\"} < 300";
    EVENTS: Counter "gpu_driver_events_total" of Gpu {
            event: "`double_bit_ecc`, `single_bit_ecc_storm`, `dram_retirement`, `dram_retirement_failure`, `nonfatal_poison`, `fatal_poison`, `gpu_unavailable`, `recovery_action`"
        },
        "Events of the driver that are no Xids. Those that this GPU can tell start at 0.",
        from "nvmlEventSetWait_v2",
        example "increase(gpu_driver_events_total{event=\"gpu_unavailable\"}[10m]) > 0";
    TOLD: Counter "gpu_exporter_xid_source_events_total" of Node { source: "`kernel_log`, `nvml`" },
        "Xids and losses as each source told of them, before what both told was taken for one.",
        from "kernel log, nvmlEventSetWait_v2",
        example "increase(gpu_exporter_xid_source_events_total{source=\"nvml\"}[1d])";
}

impl Page<'_> {
    pub(in crate::exporter) fn xids(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        caught_up: bool,
    ) -> fmt::Result {
        let ledger = &self.state.ledger;
        // Before that a GPU would have one series without its name, and soon another with it.
        let known = self.state.knows_its_gpus(self.now);
        let logged: Vec<_> = (ledger.seen())
            .map(|(pci, _, _)| pci)
            .filter(|pci| known && !self.state.gpus.contains_key(pci))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .map(|pci| {
                let uuid = self.state.logged_uuids.get(&pci);
                (pci, Row::logged(self.node, pci, uuid))
            })
            .collect();
        let known = (self.gpus.iter()).map(|shown| (shown.gpu.identity.pci, &shown.row));
        let rows: Vec<_> = known
            .chain(logged.iter().map(|(pci, row)| (*pci, row)))
            .collect();
        let codes: BTreeSet<u32> = xid::watched()
            .chain(ledger.seen().map(|(_, code, _)| code))
            .collect();
        let names: Vec<_> = codes
            .into_iter()
            .map(|code| (code, code.to_string()))
            .collect();
        let pairs = || {
            rows.iter().flat_map(|(pci, row)| {
                names
                    .iter()
                    .map(move |(code, name)| (*pci, *row, *code, name))
            })
        };
        let counts = pairs().filter_map(|(pci, row, code, name)| {
            let watched = || {
                caught_up
                    && self.state.gpus.contains_key(&pci)
                    && xid::find(code).is_some_and(xid::Entry::is_watched)
            };
            let events = match ledger.get(pci, code) {
                Some(count) => count.events,
                None if watched() => 0,
                None => return None,
            };
            Some((row, [name.as_str()], events))
        });
        write(encoder, &ERRORS, counts)?;
        let times = pairs().filter_map(|(pci, row, code, name)| {
            let last = ledger.get(pci, code)?.last?;
            Some((row, [name.as_str()], last.as_duration().as_secs_f64()))
        });
        write(encoder, &LAST, times)?;
        let others = self.gpus.iter().flat_map(|shown| {
            let events = ledger.others(shown.gpu.identity.pci);
            events.map(move |(name, count)| (&shown.row, [name], count))
        });
        write(encoder, &EVENTS, others)?;
        let told = ledger.told();
        let told = told.map(|(source, count)| (&self.row, [source], count));
        write(encoder, &TOLD, told)
    }
}
