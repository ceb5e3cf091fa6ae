//! The metric families, written from the state at each scrape. A GPU that is not in the state has no series.

use super::pod_info;
use super::series::{Row, counter, gauge};
use super::state::{Gpu, Health, State};
use crate::kmsg::Counters;
use crate::xid;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Writes everything that the node process knows.
#[derive(Debug)]
pub(super) struct NodeCollector {
    pub(super) node: String,
    pub(super) state: Arc<Mutex<State>>,
    pub(super) log: Arc<Counters>,
}

impl Collector for NodeCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_at(encoder, Instant::now())
    }
}

impl NodeCollector {
    /// Writes everything as it is at a moment.
    pub(super) fn encode_at(
        &self,
        mut encoder: DescriptorEncoder<'_>,
        now: Instant,
    ) -> fmt::Result {
        let state = super::sampler::lock(&self.state);
        let page = Page {
            node: Row::node(&self.node),
            gpus: state
                .gpus
                .values()
                .map(|gpu| (gpu, Row::gpu(&self.node, gpu)))
                .collect(),
            nameless: (state.nameless(now).into_iter())
                .map(|(index, lost)| (index, lost, Row::nameless(&self.node, index)))
                .collect(),
            state: &state,
            now,
        };
        page.driver(&mut encoder)?;
        page.health(&mut encoder)?;
        page.readings(&mut encoder)?;
        // Before that a 0 would be a guess, and history, once it is counted, would look like an increase.
        let caught_up = self.log.caught_up.load(Ordering::Acquire);
        page.xids(&mut encoder, &self.node, caught_up)?;
        pod_info::families(&mut encoder, &self.node, &state, now)?;
        page.collection(&mut encoder)?;
        log_families(&mut encoder, &page.node, &self.log)
    }
}

fn one(yes: bool) -> f64 {
    f64::from(u8::from(yes))
}

struct Page<'a> {
    state: &'a State,
    now: Instant,
    node: Row,
    gpus: Vec<(&'a Gpu, Row)>,
    nameless: Vec<(u32, bool, Row)>,
}

impl Page<'_> {
    fn driver(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let error = self.state.driver_error(self.now);
        let node = &self.node;
        gauge(
            encoder,
            "gpu_driver_up",
            "Whether the driver answers: 1 it does, 0 it does not.",
            [(node, [], one(error.is_none()))],
        )?;
        gauge(
            encoder,
            "gpu_driver_error",
            "Always 1; present while the driver does not answer, with the reason as a label.",
            error.map(|code| (node, [("code", code)], 1.0)),
        )?;
        let present = error
            .is_none()
            .then(|| f64::from(self.state.driver.gpu_count));
        gauge(
            encoder,
            "gpu_present",
            "GPUs that the driver has; absent while it does not answer.",
            present.map(|count| (node, [], count)),
        )
    }

    fn health(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let up = self
            .gpus
            .iter()
            .map(|(gpu, row)| (row, [], one(self.state.current(gpu, self.now).is_some())));
        let nameless = self.nameless.iter().map(|(_, _, row)| (row, [], 0.0));
        gauge(
            encoder,
            "gpu_up",
            "Whether the driver answers for this GPU: 1 it does, 0 it is lost, fails or hangs.",
            up.chain(nameless),
        )?;
        let lost = self
            .gpus
            .iter()
            .map(|(gpu, row)| (row, [], one(gpu.health == Health::Lost)));
        let nameless = self
            .nameless
            .iter()
            .map(|(_, lost, row)| (row, [], one(*lost)));
        gauge(
            encoder,
            "gpu_lost",
            "Whether the driver says that this GPU is lost or must be reset.",
            lost.chain(nameless),
        )?;
        let version = self.state.driver.version.as_deref().unwrap_or_default();
        let infos = self.gpus.iter().map(|(gpu, row)| {
            let serial = gpu.identity.serial.as_deref().unwrap_or_default();
            let vbios = gpu.identity.vbios.as_deref().unwrap_or_default();
            (
                row,
                [
                    ("driver_version", version),
                    ("serial", serial),
                    ("vbios_version", vbios),
                ],
                1.0,
            )
        });
        gauge(
            encoder,
            "gpu_info",
            "Always 1; what does not change about this GPU, as labels.",
            infos,
        )?;
        let actions = self.gpus.iter().filter_map(|(gpu, row)| {
            let action = self.state.recovery_action(gpu, self.now)?;
            Some((row, [], f64::from(action.0)))
        });
        gauge(
            encoder,
            "gpu_recovery_action",
            "What this GPU needs, as the driver says: 0 nothing, 1 GPU reset, 2 node reboot, 3 drain peer-to-peer, \
             4 drain and reset, 5 recover IMEX domain, 6 bus reset, 7 system reboot.",
            actions,
        )
    }

    fn readings(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let current = || {
            (self.gpus.iter()).filter_map(|(gpu, row)| {
                self.state
                    .current(gpu, self.now)
                    .map(|sample| (row, sample))
            })
        };
        let temperatures = current().filter_map(|(row, sample)| {
            let temperature = sample.temperature?;
            Some((row, [("sensor", "gpu")], f64::from(temperature)))
        });
        gauge(
            encoder,
            "gpu_temperature_celsius",
            "Temperature of this GPU.",
            temperatures,
        )?;
        let errors = current().flat_map(|(row, sample)| {
            sample.ecc.iter().map(move |ecc| {
                let kind = if ecc.corrected {
                    "corrected"
                } else {
                    "uncorrected"
                };
                let kept = if ecc.aggregate {
                    "aggregate"
                } else {
                    "volatile"
                };
                (row, [("type", kind), ("counter", kept)], ecc.count)
            })
        });
        counter(
            encoder,
            "gpu_ecc_errors",
            "ECC memory errors: volatile since the driver was loaded, aggregate over the life of the board.",
            errors,
        )
    }

    fn xids(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        node: &str,
        caught_up: bool,
    ) -> fmt::Result {
        let ledger = &self.state.ledger;
        let logged: Vec<_> = (ledger.seen())
            .map(|(pci, _, _)| pci)
            .filter(|pci| !self.state.gpus.contains_key(pci))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .map(|pci| {
                (
                    pci,
                    Row::logged(node, pci, self.state.logged_uuids.get(&pci)),
                )
            })
            .collect();
        let known = self.gpus.iter().map(|(gpu, row)| (gpu.identity.pci, row));
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
            Some((row, [("xid", name.as_str())], events))
        });
        counter(
            encoder,
            "gpu_xid_errors",
            "Xid messages of the driver in the kernel log.",
            counts,
        )?;
        let times = pairs().filter_map(|(pci, row, code, name)| {
            let last = ledger.get(pci, code)?.last?;
            Some((
                row,
                [("xid", name.as_str())],
                last.as_duration().as_secs_f64(),
            ))
        });
        gauge(
            encoder,
            "gpu_xid_last_timestamp_seconds",
            "When this Xid was last logged; absent until it is, and where the log does not tell when it was.",
            times,
        )
    }

    fn collection(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let hung = self
            .gpus
            .iter()
            .map(|(gpu, row)| (row, [], one(self.state.is_hung(gpu, self.now))));
        let nameless = self
            .nameless
            .iter()
            .map(|(index, _, row)| (row, [], one(self.state.is_index_hung(*index, self.now))));
        gauge(
            encoder,
            "gpu_collect_hung",
            "Whether a driver call for this GPU takes longer than the call deadline.",
            hung.chain(nameless),
        )?;
        const COLLECTOR: (&str, &str) = ("collector", "nvml");
        const POD_RESOURCES: (&str, &str) = ("collector", "pod_resources");
        let kubelet = self.state.kubelet.as_ref();
        let success = kubelet.and_then(|kubelet| kubelet.success(self.now));
        let took = kubelet.and_then(|kubelet| kubelet.took());
        let last = kubelet.and_then(|kubelet| kubelet.last_success);
        let of_kubelet = |value: f64| (&self.node, [POD_RESOURCES], value);
        let successes = self.gpus.iter().map(|(gpu, row)| {
            (
                row,
                [COLLECTOR],
                one(self.state.current(gpu, self.now).is_some()),
            )
        });
        gauge(
            encoder,
            "gpu_exporter_collector_success",
            "Whether the last collection succeeded and is not too old.",
            successes.chain(success.map(|success| of_kubelet(one(success)))),
        )?;
        let durations = self.gpus.iter().filter_map(|(gpu, row)| {
            gpu.asked
                .map(|(_, took)| (row, [COLLECTOR], took.as_secs_f64()))
        });
        gauge(
            encoder,
            "gpu_exporter_collector_duration_seconds",
            "How long the last collection took.",
            durations.chain(took.map(|took| of_kubelet(took.as_secs_f64()))),
        )?;
        let times = (self.gpus.iter()).filter_map(|(gpu, row)| {
            gpu.last_success
                .map(|at| (row, [COLLECTOR], at.as_duration().as_secs_f64()))
        });
        gauge(
            encoder,
            "gpu_exporter_collector_last_success_timestamp_seconds",
            "When a collection last succeeded.",
            times.chain(last.map(|at| of_kubelet(at.as_duration().as_secs_f64()))),
        )?;
        let failures = (self.gpus.iter()).flat_map(|(gpu, row)| {
            gpu.failures
                .iter()
                .map(move |((call, code), count)| (row, [("call", *call), ("code", *code)], *count))
        });
        counter(
            encoder,
            "gpu_nvml_errors",
            "Driver calls that failed, other than for not being supported.",
            failures,
        )
    }
}

fn log_families(encoder: &mut DescriptorEncoder<'_>, node: &Row, log: &Counters) -> fmt::Result {
    gauge(
        encoder,
        "gpu_exporter_kernel_log_open",
        "Whether the kernel log is being read.",
        [(node, [], one(log.open.load(Ordering::Relaxed)))],
    )?;
    for (name, help, value) in [
        (
            "gpu_exporter_kernel_log_lines",
            "Lines of the kernel log that were read.",
            &log.lines,
        ),
        (
            "gpu_exporter_kernel_log_lost_records",
            "Records of the kernel log that were overwritten before they were read.",
            &log.lost,
        ),
        (
            "gpu_exporter_kernel_log_errors",
            "Failed attempts to open or read the kernel log.",
            &log.errors,
        ),
    ] {
        counter(
            encoder,
            name,
            help,
            [(node, [], value.load(Ordering::Relaxed))],
        )?;
    }
    Ok(())
}
