//! How the asking itself goes.

use super::family::families;
use super::{Page, one};
use crate::exporter::collectors::Collector;
use crate::exporter::outcome::Outcome;
use crate::exporter::series::{Row, write};
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;
use std::time::Duration;

families! {
    HUNG: Gauge "gpu_collect_hung" of Gpu {},
        "Whether a driver call for this GPU takes longer than the call deadline.",
        from "the exporter",
        example "gpu_collect_hung == 1";
    SUCCESS: Gauge "gpu_exporter_collector_success" of Gpu { collector: "`nvml`, `usage`, `nvlink`, `mig`, `details`, `nvml_events`; and of the node `kernel_log`, `pci_bus`, `pod_resources`" },
        "Whether the last collection succeeded and is not too old; of what comes by itself, whether it is listened to. Absent for what is off, and before the first.",
        from "the exporter",
        example "gpu_exporter_collector_success == 0";
    DURATION: Gauge "gpu_exporter_collector_duration_seconds" of Gpu { collector: "as above, but what comes by itself" },
        "How long the last collection took.",
        from "the exporter",
        example "max by (node) (gpu_exporter_collector_duration_seconds)";
    LAST_SUCCESS: Gauge "gpu_exporter_collector_last_success_timestamp_seconds" of Gpu { collector: "as above, but what comes by itself" },
        "When a collection last succeeded.",
        from "the exporter",
        example "time() - gpu_exporter_collector_last_success_timestamp_seconds > 60";
    NVML_ERRORS: Counter "gpu_nvml_errors_total" of Gpu { call: "the function", code: "its error" },
        "Driver calls that failed, other than for not being supported.",
        from "every call for the GPU",
        example "sum by (call, code) (increase(gpu_nvml_errors_total[1h])) > 0";
}

impl Page<'_> {
    pub(in crate::exporter) fn collection(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        log_is_open: bool,
    ) -> fmt::Result {
        let hung = self.gpus.iter().map(|shown| {
            let hung = self.state.is_hung(shown.gpu, self.now);
            (&shown.row, [], one(hung))
        });
        let nameless = self
            .nameless
            .iter()
            .map(|(index, _, row)| (row, [], one(self.state.is_index_hung(*index, self.now))));
        write(encoder, &HUNG, hung.chain(nameless))?;
        let successes = self.successes(log_is_open);
        let successes = successes
            .iter()
            .map(|(row, collector, success)| (*row, [collector.name()], one(*success)));
        write(encoder, &SUCCESS, successes)?;
        let asked = self.asked();
        let durations = asked.iter().map(|(row, collector, outcome)| {
            (*row, [collector.name()], outcome.took.as_secs_f64())
        });
        write(encoder, &DURATION, durations)?;
        let times = asked.iter().filter_map(|(row, collector, outcome)| {
            let at = outcome.last_success?.as_duration().as_secs_f64();
            Some((*row, [collector.name()], at))
        });
        write(encoder, &LAST_SUCCESS, times)?;
        let failures = self.gpus.iter().flat_map(|shown| {
            (shown.gpu.failures.iter())
                .map(move |((call, code), count)| (&shown.row, [*call, *code], *count))
        });
        write(encoder, &NVML_ERRORS, failures)
    }

    /// What was asked for at least once, and how that went.
    fn asked(&self) -> Vec<(&Row, Collector, Outcome)> {
        let of_gpus = self.gpus.iter().flat_map(|shown| {
            let health = shown.gpu.asked.map(|outcome| (Collector::Nvml, outcome));
            let groups = shown.gpu.groups.iter();
            let all = health
                .into_iter()
                .chain(groups.map(|(group, outcome)| (*group, *outcome)));
            all.map(move |(collector, outcome)| (&shown.row, collector, outcome))
        });
        let of_node = self.asked_of_node();
        let of_node = of_node.map(|(collector, outcome)| (&self.row, collector, outcome));
        of_gpus.chain(of_node).collect()
    }

    /// Whether each collection succeeded.
    fn successes(&self, log_is_open: bool) -> Vec<(&Row, Collector, bool)> {
        let state = self.state;
        let success = |collector: Collector, outcome: &Outcome| {
            let interval = state.collectors.interval(collector);
            // What is asked of a GPU is asked no more often than the GPU is.
            let least = match collector.needs_nvml() {
                true => state.collectors.interval(Collector::Nvml),
                false => Duration::ZERO,
            };
            outcome.success(interval.max(least), state.deadline, self.now)
        };
        let mut successes = Vec::new();
        for shown in &self.gpus {
            // While the GPU does not answer, nothing of it is current.
            let up = shown.sample.is_some();
            successes.push((&shown.row, Collector::Nvml, up));
            for (group, outcome) in &shown.gpu.groups {
                successes.push((&shown.row, *group, up && success(*group, outcome)));
            }
            if let Some(listening) = state.listening.get(&shown.gpu.identity.pci) {
                // Nothing is to be heard of a GPU whose driver does not come back.
                let heard = *listening && !state.is_hung(shown.gpu, self.now);
                successes.push((&shown.row, Collector::NvmlEvents, heard));
            }
        }
        if state.collectors.is_on(Collector::KernelLog) {
            successes.push((&self.row, Collector::KernelLog, log_is_open));
        }
        let of_node = self.asked_of_node();
        successes.extend(
            of_node
                .map(|(collector, outcome)| (&self.row, collector, success(collector, &outcome))),
        );
        successes
    }

    fn asked_of_node(&self) -> impl Iterator<Item = (Collector, Outcome)> {
        let bus = self.state.bus.map(|outcome| (Collector::PciBus, outcome));
        let kubelet = self
            .state
            .kubelet
            .as_ref()
            .and_then(|kubelet| kubelet.asked);
        let kubelet = kubelet.map(|outcome| (Collector::PodResources, outcome));
        bus.into_iter().chain(kubelet)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::exporter::state::State;
    use crate::exporter::state::tests::{A, B, DEADLINE, at, healthy, sample};
    use std::time::Instant;

    /// Whether a collection succeeded, of each GPU.
    fn of(state: &State, now: Instant, collector: Collector) -> Vec<bool> {
        let page = Page::new("a", state, now);
        let successes = page.successes(true).into_iter();
        let ours = successes.filter(|(_, other, _)| *other == collector);
        ours.map(|(_, _, success)| success).collect()
    }

    #[test]
    fn a_group_is_as_old_as_the_slower_asking_of_its_gpu_lets_it_be() {
        let (mut state, now) = healthy();
        let interval = Duration::from_secs(30);
        state.collectors = state.collectors.every(Collector::Nvml, interval);
        state.gpu_answered(0, Ok(sample(None)), now, at(1));
        let usage = (Collector::Usage, Duration::ZERO, true);
        state.groups_answered(0, &[usage], now, at(1));
        let success = |later| of(&state, now + later, Collector::Usage);
        assert_eq!(success(interval + DEADLINE), [true]);
        assert_eq!(success(2 * interval + 2 * DEADLINE), [false]);
    }

    #[test]
    fn a_gpu_whose_asking_hangs_is_not_heard_either() {
        let (mut state, now) = healthy();
        for place in [A, B] {
            state.listening.insert(place.parse().unwrap(), true);
        }
        let heard = |state: &State, now| of(state, now, Collector::NvmlEvents);
        assert_eq!(heard(&state, now), [true, true]);
        state.gpu_asked(0, now);
        assert_eq!(heard(&state, now + DEADLINE), [true, true]);
        assert_eq!(heard(&state, now + 2 * DEADLINE), [false, true]);
    }
}
