//! Looking, in the background, at what the kernel sees on the PCI bus.

use super::collectors::Collector;
use super::outcome::Outcome;
use super::sampler::{Shared, lock};
use crate::nvml::PciBus;
use jiff::Timestamp;
use std::time::Instant;

/// Looks at what the kernel sees, for as long as the process lives.
pub(super) fn watch(shared: &Shared, bus: &PciBus) {
    let mut said = false;
    loop {
        let began = Instant::now();
        let devices = bus.devices();
        let now = Instant::now();
        if let Err(error) = &devices
            && !said
        {
            said = true;
            tracing::info!(%error, "the kernel does not show its PCI devices; a GPU that the driver never had is not seen");
        }
        let mut state = lock(shared.state_mutex());
        let took = now.duration_since(began);
        let outcome = Outcome::after(state.bus, devices.is_ok(), took, now, Timestamp::now());
        state.bus = Some(outcome);
        state.presence.kernel_sees(devices.ok());
        drop(state);
        if !shared.wait(shared.pace().collectors.interval(Collector::PciBus)) {
            return;
        }
    }
}
