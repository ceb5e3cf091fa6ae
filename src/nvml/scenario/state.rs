//! How each GPU is at a moment.

use super::form::{Driver, Rows};
use super::step::{Action, Step, What};
use crate::nvml::RemappedRows;
use crate::nvml::simulated::MEMORY_WARMER;
use crate::xid::RecoveryAction;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How everything is at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moment {
    /// Whether the driver is there, and answers.
    pub(super) driver: Driver,
    /// The GPUs in the file's order.
    pub(super) gpus: Vec<GpuState>,
}

/// How a GPU is at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GpuState {
    pub(super) presence: Presence,
    /// Calls hang: until then, or until it is back.
    pub(super) hang: Option<Hang>,
    pub(super) recovery_action: RecoveryAction,
    /// The bits of `nvmlClocksEventReason*`.
    pub(super) throttle: u64,
    pub(super) rows: RemappedRows,
    pub(super) links_down: BTreeSet<u32>,
    /// By link and kind; what is not there is 0.
    pub(super) link_errors: BTreeMap<(u32, &'static str), u64>,
    /// Degrees Celsius.
    pub(super) temperature: u32,
    /// Degrees Celsius.
    pub(super) memory_temperature: u32,
    pub(super) pcie_replays: u64,
    pub(super) corrected: Errors,
    pub(super) uncorrected: Errors,
}

/// Whether a GPU is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// It answers.
    Answers,
    /// The driver says that it is lost.
    Lost,
    /// The driver has one GPU less.
    Vanished,
}

/// When calls that hang return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hang {
    /// At that time since the start.
    Until(Duration),
    /// When the GPU is back.
    Open,
}

/// ECC errors of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Errors {
    /// Since the GPU was reset or the driver loaded.
    pub(super) volatile: u64,
    /// Over the life of the board.
    pub(super) aggregate: u64,
}

/// A number that goes evenly from one value to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Curve {
    from: u64,
    to: u64,
    start: Duration,
    over: Duration,
}

impl Curve {
    /// A number that stays.
    pub(super) fn flat(value: u64) -> Self {
        Self {
            from: value,
            to: value,
            start: Duration::ZERO,
            over: Duration::ZERO,
        }
    }

    /// Goes on from where it is at a moment.
    pub(super) fn towards(self, to: u64, start: Duration, over: Duration) -> Self {
        Self {
            from: self.at(start),
            to,
            start,
            over,
        }
    }

    /// Where it is at a moment: between its ends, and at its second end from then on.
    pub(super) fn at(&self, at: Duration) -> u64 {
        let gone = at.saturating_sub(self.start);
        if gone >= self.over {
            return self.to;
        }
        let way = u128::from(self.from.abs_diff(self.to));
        // `gone` is less than `over`, so what has been gone of the way is less than the way.
        let gone = way.saturating_mul(gone.as_nanos()) / self.over.as_nanos();
        let gone = u64::try_from(gone).unwrap_or(u64::MAX);
        if self.to >= self.from {
            self.from + gone
        } else {
            self.from - gone
        }
    }
}

/// A count of ECC errors that begins anew now and then.
#[derive(Debug, Clone, Copy)]
struct Counter {
    /// Before it last began.
    before: u64,
    since: Curve,
}

impl Counter {
    fn at(&self, at: Duration) -> Errors {
        let volatile = self.since.at(at);
        Errors {
            volatile,
            aggregate: self.before.saturating_add(volatile),
        }
    }

    fn begin_anew(&mut self, at: Duration) {
        self.before = self.at(at).aggregate;
        self.since = Curve::flat(0);
    }
}

/// What the steps so far have made of a GPU.
#[derive(Debug, Clone)]
struct Course {
    /// As it is, except for what goes on by itself.
    state: GpuState,
    healthy_temperature: u32,
    temperature: Curve,
    memory_temperature: Curve,
    pcie_replays: Curve,
    link_errors: BTreeMap<(u32, &'static str), Curve>,
    corrected: Counter,
    uncorrected: Counter,
}

impl Course {
    fn healthy(temperature: u32) -> Self {
        let none = Counter {
            before: 0,
            since: Curve::flat(0),
        };
        Self {
            state: GpuState {
                presence: Presence::Answers,
                hang: None,
                recovery_action: RecoveryAction::NONE,
                throttle: 0,
                rows: RemappedRows::default(),
                links_down: BTreeSet::new(),
                link_errors: BTreeMap::new(),
                temperature,
                memory_temperature: temperature + MEMORY_WARMER,
                pcie_replays: 0,
                corrected: Errors::default(),
                uncorrected: Errors::default(),
            },
            healthy_temperature: temperature,
            temperature: Curve::flat(temperature.into()),
            memory_temperature: Curve::flat((temperature + MEMORY_WARMER).into()),
            pcie_replays: Curve::flat(0),
            link_errors: BTreeMap::new(),
            corrected: none,
            uncorrected: none,
        }
    }

    /// The GPU or the driver was started anew: what is counted since then is 0.
    fn begin_counting(&mut self, at: Duration) {
        self.corrected.begin_anew(at);
        self.uncorrected.begin_anew(at);
        self.pcie_replays = Curve::flat(0);
        self.link_errors.clear();
    }

    /// It was reset or reseated and is as new, but for what the board keeps: its aggregate counts and its remapped rows.
    fn back(&mut self, at: Duration) {
        self.begin_counting(at);
        let kept = RemappedRows {
            pending: false,
            failed: false,
            ..self.state.rows
        };
        let (corrected, uncorrected) = (self.corrected, self.uncorrected);
        *self = Self::healthy(self.healthy_temperature);
        self.state.rows = kept;
        self.corrected = corrected;
        self.uncorrected = uncorrected;
    }

    fn take(&mut self, at: Duration, action: &Action) {
        let state = &mut self.state;
        match action {
            Action::Xid { .. } => {}
            Action::Lost => state.presence = Presence::Lost,
            Action::Vanish => state.presence = Presence::Vanished,
            Action::Back => self.back(at),
            Action::Hang(None) => state.hang = Some(Hang::Open),
            Action::Hang(Some(time)) => state.hang = Some(Hang::Until(at.saturating_add(*time))),
            Action::Ecc {
                corrected,
                uncorrected,
            } => {
                for (counter, rise) in [
                    (&mut self.corrected, corrected),
                    (&mut self.uncorrected, uncorrected),
                ] {
                    if let Some(rise) = rise {
                        counter.since = counter.since.towards(rise.to, at, rise.over.0);
                    }
                }
            }
            Action::RemappedRows(change) => change.make(&mut state.rows),
            Action::Temperature(rise) => {
                self.temperature = self.temperature.towards(rise.to, at, rise.over.0);
            }
            Action::MemoryTemperature(rise) => {
                self.memory_temperature = self.memory_temperature.towards(rise.to, at, rise.over.0);
            }
            Action::PcieReplays(rise) => {
                self.pcie_replays = self.pcie_replays.towards(rise.to, at, rise.over.0);
            }
            Action::Recovery { change, .. } => state.recovery_action = change.to,
            Action::Throttle(bits) => state.throttle = *bits,
            Action::LinkDown(link) => {
                state.links_down.insert(*link);
            }
            Action::LinkUp(link) => {
                state.links_down.remove(link);
            }
            Action::LinkErrors { link, kind, rise } => {
                let errors = self.link_errors.entry((*link, *kind));
                let errors = errors.or_insert_with(|| Curve::flat(0));
                *errors = errors.towards(rise.to, at, rise.over.0);
            }
        }
    }

    fn at(&self, at: Duration) -> GpuState {
        let over = |hang: &Hang| matches!(hang, Hang::Until(end) if *end <= at);
        GpuState {
            hang: self.state.hang.filter(|hang| !over(hang)),
            temperature: u32::try_from(self.temperature.at(at)).unwrap_or(u32::MAX),
            memory_temperature: u32::try_from(self.memory_temperature.at(at)).unwrap_or(u32::MAX),
            pcie_replays: self.pcie_replays.at(at),
            link_errors: (self.link_errors.iter())
                .map(|(of, errors)| (*of, errors.at(at)))
                .collect(),
            corrected: self.corrected.at(at),
            uncorrected: self.uncorrected.at(at),
            ..self.state.clone()
        }
    }
}

impl Rows {
    fn make(self, rows: &mut RemappedRows) {
        rows.corrected = self.corrected.unwrap_or(rows.corrected);
        rows.uncorrected = self.uncorrected.unwrap_or(rows.uncorrected);
        rows.pending = self.pending.unwrap_or(rows.pending);
        rows.failed = self.failed.unwrap_or(rows.failed);
    }
}

/// How everything is at a moment, after the steps up to then. The steps are in the order of their times.
pub(super) fn fold<'a>(
    temperatures: impl Iterator<Item = u32>,
    steps: impl IntoIterator<Item = &'a Step>,
    at: Duration,
) -> Moment {
    let mut gpus: Vec<_> = temperatures.map(Course::healthy).collect();
    let mut driver = Driver::Loaded;
    for step in steps.into_iter().take_while(|step| step.at <= at) {
        match &step.what {
            What::Line(_) => {}
            What::Driver(next) => {
                if driver == Driver::Unloaded && *next != Driver::Unloaded {
                    for gpu in &mut gpus {
                        gpu.begin_counting(step.at);
                    }
                }
                driver = *next;
            }
            What::Gpu { slot, action } => {
                if let Some(gpu) = gpus.get_mut(*slot) {
                    gpu.take(step.at, action);
                }
            }
        }
    }
    Moment {
        driver,
        gpus: gpus.iter().map(|gpu| gpu.at(at)).collect(),
    }
}
