//! The driver of a scenario.

use super::events::ScenarioEvents;
use super::state::{GpuState, Moment, Presence};
use super::{Board, Simulation, form};
use crate::nvml::{
    CallFailure, Details, Driver, DriverError, DriverSource, EccCount, Events, Identity, Instance,
    Links, Memory, Sample, Usage, simulated,
};
use std::sync::Arc;
use std::time::Duration;

/// How NVML names that the kernel driver has gone.
pub(super) const NOT_LOADED: &str = "driver_not_loaded";

/// The driver of a simulation, and where it comes from.
#[derive(Debug, Clone)]
pub struct ScenarioDriver(pub(super) Arc<Simulation>);

/// A GPU of the driver's list.
struct Listed<'a> {
    slot: u32,
    board: &'a Board,
    state: GpuState,
}

impl ScenarioDriver {
    /// The driver of a simulation.
    #[must_use]
    pub fn new(simulation: Arc<Simulation>) -> Self {
        Self(simulation)
    }

    /// When the driver answers, and how everything is then.
    fn loaded(&self, call: &'static str) -> Result<(Duration, Moment), DriverError> {
        let (now, moment) = self.0.answering();
        if moment.driver == form::Driver::Loaded {
            return Ok((now, moment));
        }
        Err(DriverError::Gone {
            call,
            code: NOT_LOADED,
        })
    }

    /// A call for one GPU: it hangs for as long as the scenario says, and then finds how the GPU is.
    fn call(&self, index: u32, call: &'static str) -> Result<Listed<'_>, DriverError> {
        let (_, moment) = self.loaded(call)?;
        let slot = slot(&moment, index)?;
        let gone = || DriverError::GpuLost;
        // The driver may hang while the GPU does, and the GPU again: what is told is of the moment when neither does.
        let state = loop {
            let (now, mut moment) = self.loaded(call)?;
            if slot >= moment.gpus.len() {
                return Err(gone());
            }
            let gpu = moment.gpus.swap_remove(slot);
            if gpu.hang.is_none() {
                break gpu;
            }
            self.0.wait_for_change(now);
        };
        if state.presence != Presence::Answers {
            return Err(gone());
        }
        Ok(Listed {
            slot: u32::try_from(slot).map_err(|_| gone())?,
            board: self.0.scenario.boards.get(slot).ok_or_else(gone)?,
            state,
        })
    }
}

/// The place in the file of the GPU at an index of the driver's list.
fn slot(moment: &Moment, index: u32) -> Result<usize, DriverError> {
    let mut listed = moment
        .gpus
        .iter()
        .enumerate()
        .filter(|(_, gpu)| gpu.presence != Presence::Vanished);
    let at = usize::try_from(index).ok().and_then(|at| listed.nth(at));
    at.map(|(slot, _)| slot).ok_or(DriverError::Call {
        call: "nvmlDeviceGetHandleByIndex_v2",
        code: "invalid_argument",
    })
}

impl DriverSource for ScenarioDriver {
    fn open(&self) -> Result<Arc<dyn Driver>, DriverError> {
        self.loaded("nvmlInit_v2")?;
        // Each session is counted by those who hold it.
        Ok(Arc::new(self.clone()))
    }
}

impl Driver for ScenarioDriver {
    fn version(&self) -> Result<String, DriverError> {
        self.loaded("nvmlSystemGetDriverVersion")?;
        let told = self.0.scenario.driver_version.as_deref();
        Ok(told.unwrap_or(simulated::VERSION).to_owned())
    }

    fn cuda_version(&self) -> Option<String> {
        self.loaded("nvmlSystemGetCudaDriverVersion_v2").ok()?;
        self.0.scenario.cuda_version.clone()
    }

    fn gpu_count(&self) -> Result<u32, DriverError> {
        let (_, moment) = self.loaded("nvmlDeviceGetCount_v2")?;
        let listed = moment
            .gpus
            .iter()
            .filter(|gpu| gpu.presence != Presence::Vanished);
        Ok(u32::try_from(listed.count()).unwrap_or(u32::MAX))
    }

    fn identity(&self, index: u32) -> Result<Identity, DriverError> {
        let listed = self.call(index, "nvmlDeviceGetUUID")?;
        let identity = self.0.identity(listed.slot as usize);
        let identity = identity.ok_or(DriverError::GpuLost)?;
        Ok(Identity { index, ..identity })
    }

    fn sample(&self, index: u32) -> Result<Sample, DriverError> {
        let Listed { slot, state, .. } = self.call(index, "nvmlDeviceGetTemperature")?;
        let healthy = self.0.gpus.sample(slot)?;
        let count = |corrected, aggregate| {
            let errors = match corrected {
                true => state.corrected,
                false => state.uncorrected,
            };
            EccCount {
                corrected,
                aggregate,
                count: match aggregate {
                    true => errors.aggregate,
                    false => errors.volatile,
                },
            }
        };
        let ecc = healthy.ecc.iter();
        Ok(Sample {
            recovery_action: Some(state.recovery_action),
            ecc: ecc
                .map(|kind| count(kind.corrected, kind.aggregate))
                .collect(),
            rows: Some(state.rows),
            temperature: Some(state.temperature),
            memory_temperature: Some(state.memory_temperature),
            pcie_replays: Some(u32::try_from(state.pcie_replays).unwrap_or(u32::MAX)),
            clock_events: Some(state.throttle)
                .filter(|bits| *bits != 0)
                .or(healthy.clock_events),
            ..healthy
        })
    }

    fn usage(&self, index: u32) -> Result<(Usage, Vec<CallFailure>), DriverError> {
        let Listed { slot, board, .. } = self.call(index, "nvmlDeviceGetUtilizationRates")?;
        let (mut usage, failures) = self.0.gpus.usage(slot)?;
        if let Some(total) = board.memory {
            usage.memory = Some(Memory {
                total,
                used: 0,
                free: total,
                reserved: Some(0),
            });
        }
        Ok((usage, failures))
    }

    fn links(&self, index: u32) -> Result<(Links, Vec<CallFailure>), DriverError> {
        let Listed { slot, board, state } = self.call(index, "nvmlDeviceGetNvLinkState")?;
        let (healthy, failures) = self.0.gpus.links(slot)?;
        let link = |number| {
            let mut link = simulated::link(number);
            for (kind, count) in &mut link.errors {
                let counted = state.link_errors.get(&(number, *kind));
                *count = counted.copied().unwrap_or_default();
            }
            if state.links_down.contains(&number) {
                link.up = Some(false);
                link.speed = None;
            }
            link
        };
        let links = Links {
            links: (0..board.links).map(link).collect(),
            ..healthy
        };
        Ok((links, failures))
    }

    fn instances(&self, index: u32) -> Result<(Vec<Instance>, Vec<CallFailure>), DriverError> {
        let Listed { board, .. } = self.call(index, "nvmlDeviceGetMigDeviceHandleByIndex")?;
        Ok((board.instances.clone(), Vec::new()))
    }

    fn events(self: Arc<Self>, index: u32) -> Result<Option<Box<dyn Events>>, DriverError> {
        let Listed { slot, .. } = self.call(index, "nvmlDeviceRegisterEvents")?;
        Ok(Some(Box::new(ScenarioEvents::register(
            self,
            slot as usize,
        ))))
    }

    fn details(&self, index: u32) -> Result<(Details, Vec<CallFailure>), DriverError> {
        let Listed { slot, board, .. } = self.call(index, "nvmlDeviceGetTemperatureThreshold")?;
        let (mut details, failures) = self.0.gpus.details(slot)?;
        if !board.instances.is_empty() {
            details.mig_mode = Some((true, true));
        }
        Ok((details, failures))
    }
}
