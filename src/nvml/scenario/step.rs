//! The steps of a timeline, and what is wrong with one.

use super::form::{self, Driver, Ecc, Hang, LinkErrors, Rise, Rows, Source};
use crate::nvml::CLOCK_EVENTS;
use crate::nvml::simulated::LINK_ERRORS;
use crate::xid::{Process, RecoveryAction, RecoveryChange};
use std::time::Duration;

/// No GPU that works on is hotter, and no sensor shows more.
const HOTTEST: u64 = 200;

/// Something that happens.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// Since the start of the timeline.
    pub(super) at: Duration,
    pub(super) what: What,
}

/// What happens, and to whom.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// The kernel log has a line more.
    Line(String),
    /// The driver comes, goes, or answers no more.
    Driver(Driver),
    /// Something happens to a GPU.
    Gpu {
        /// Its place in the file.
        slot: usize,
        action: Action,
    },
}

/// What happens to a GPU.
#[derive(Debug, Clone)]
pub(super) enum Action {
    Xid(Xid),
    Lost,
    Vanish,
    Back,
    /// For so long, or until it is back.
    Hang(Option<Duration>),
    Ecc {
        corrected: Option<Rise>,
        uncorrected: Option<Rise>,
    },
    RemappedRows(Rows),
    Temperature(Rise),
    MemoryTemperature(Rise),
    PcieReplays(Rise),
    /// The driver asks for something else than before, and says so in an Xid 154.
    Recovery {
        change: RecoveryChange,
        source: Source,
    },
    /// The bits of `nvmlClocksEventReason*`.
    Throttle(u64),
    LinkDown(u32),
    LinkUp(u32),
    LinkErrors {
        link: u32,
        /// One of [`LINK_ERRORS`].
        kind: &'static str,
        rise: Rise,
    },
}

/// An Xid; what is `None` is as it usually is.
#[derive(Debug, Clone)]
pub(super) struct Xid {
    pub(super) code: u32,
    pub(super) text: Option<String>,
    pub(super) process: Option<Process>,
    pub(super) gpu_instance: Option<u32>,
    pub(super) compute_instance: Option<u32>,
    pub(super) source: Source,
}

impl Source {
    pub(super) fn has_log(self) -> bool {
        self != Self::Nvml
    }

    pub(super) fn has_nvml(self) -> bool {
        self != Self::Log
    }
}

/// The keys of which a step has one.
const ACTIONS: &str = "xid, line, lost, vanish, back, hang, ecc, remapped_rows, temperature, memory_temperature, \
                       pcie_replays, recovery_action, throttle, link_down, link_up, link_errors, driver";

/// What a key asks for.
enum Asked {
    OfGpu(Action),
    Line(String),
    Driver(Driver),
}

impl Step {
    /// Reads a step; says what is wrong with it alone.
    pub(super) fn read(form: form::Step, gpus: usize) -> Result<Self, String> {
        let (at, gpu) = (form.at.0, form.gpu);
        let what = match asked(form)? {
            (key, Asked::OfGpu(action)) => What::Gpu {
                slot: slot(gpu, gpus, key)?,
                action,
            },
            (key, _) if gpu.is_some() => {
                return Err(format!("`{key}` is of no single GPU; leave out `gpu`"));
            }
            (_, Asked::Line(line)) => What::Line(line),
            (_, Asked::Driver(driver)) => What::Driver(driver),
        };
        Ok(Self { at, what })
    }
}

/// The one key that says what happens.
fn asked(form: form::Step) -> Result<(&'static str, Asked), String> {
    let source = form.source.unwrap_or_default();
    let about_xid = [
        ("text", form.text.is_some()),
        ("pid", form.pid.is_some()),
        ("name", form.name.is_some()),
        ("gpu_instance", form.gpu_instance.is_some()),
        ("compute_instance", form.compute_instance.is_some()),
    ];
    let process = (form.pid.is_some() || form.name.is_some()).then_some(Process {
        pid: form.pid,
        name: form.name,
    });
    let xid = form.xid.map(|code| {
        Action::Xid(Xid {
            code,
            text: form.text,
            process,
            gpu_instance: form.gpu_instance,
            compute_instance: form.compute_instance,
            source,
        })
    });
    let rest = [
        ("xid", xid.map(Ok)),
        ("lost", form.lost.map(|set| only_true(set, Action::Lost))),
        (
            "vanish",
            form.vanish.map(|set| only_true(set, Action::Vanish)),
        ),
        ("back", form.back.map(|set| only_true(set, Action::Back))),
        ("hang", form.hang.map(hang)),
        ("ecc", form.ecc.map(ecc)),
        (
            "remapped_rows",
            form.remapped_rows
                .map(|rows| Ok(Action::RemappedRows(rows))),
        ),
        (
            "temperature",
            form.temperature
                .map(|rise| temperature(rise).map(Action::Temperature)),
        ),
        (
            "memory_temperature",
            form.memory_temperature
                .map(|rise| temperature(rise).map(Action::MemoryTemperature)),
        ),
        ("pcie_replays", form.pcie_replays.map(pcie_replays)),
        (
            "recovery_action",
            form.recovery_action.map(|to| {
                let change = RecoveryChange {
                    // Set when it is known what was before.
                    from: RecoveryAction::NONE,
                    to: RecoveryAction(to as u32),
                };
                Ok(Action::Recovery { change, source })
            }),
        ),
        ("throttle", form.throttle.map(throttle)),
        (
            "link_down",
            form.link_down.map(|link| Ok(Action::LinkDown(link))),
        ),
        ("link_up", form.link_up.map(|link| Ok(Action::LinkUp(link)))),
        ("link_errors", form.link_errors.map(link_errors)),
    ];
    let of_gpu = rest
        .into_iter()
        .filter_map(|(key, action)| Some((key, action?.map(Asked::OfGpu))));
    let line = form.line.map(|line| ("line", Ok(Asked::Line(line))));
    let driver = form.driver.map(|it| ("driver", Ok(Asked::Driver(it))));
    let mut all = of_gpu.chain(line).chain(driver);
    let Some((key, asked)) = all.next() else {
        return Err(format!("nothing happens; it needs one of {ACTIONS}"));
    };
    if let Some((other, _)) = all.next() {
        return Err(format!(
            "`{key}` and `{other}` are two things; make two steps of it, which may be at the same time"
        ));
    }
    drop(all);
    if let Some((more, _)) = about_xid.iter().find(|(_, there)| *there)
        && key != "xid"
    {
        return Err(format!("`{more}` is of an Xid, and this is `{key}`"));
    }
    if form.source.is_some() && !matches!(key, "xid" | "recovery_action") {
        return Err(format!(
            "`source` is of `xid` and `recovery_action`, and this is `{key}`"
        ));
    }
    match asked {
        Ok(asked) => Ok((key, asked)),
        Err(problem) => Err(format!("`{key}` {problem}")),
    }
}

fn slot(gpu: Option<u64>, gpus: usize, key: &str) -> Result<usize, String> {
    let Some(gpu) = gpu else {
        return Err(format!(
            "`{key}` is of one GPU; say which, such as `gpu: 0`"
        ));
    };
    let slot = usize::try_from(gpu).ok().filter(|slot| *slot < gpus);
    slot.ok_or_else(|| match gpus {
        1 => format!("there is no GPU {gpu}; there is GPU 0 alone"),
        _ => format!("there is no GPU {gpu}; they are 0 to {}", gpus - 1),
    })
}

fn only_true(set: bool, action: Action) -> Result<Action, String> {
    if set {
        return Ok(action);
    }
    Err("can only be true; `back: true` ends what is wrong with a GPU".to_owned())
}

fn hang(hang: Hang) -> Result<Action, String> {
    match hang {
        Hang::Open(set) => only_true(set, Action::Hang(None)),
        Hang::For(time) if time.is_zero() => Err("needs more time than none".to_owned()),
        Hang::For(time) => Ok(Action::Hang(Some(time))),
    }
}

fn ecc(ecc: Ecc) -> Result<Action, String> {
    let Ecc {
        corrected,
        uncorrected,
    } = ecc;
    if corrected.is_none() && uncorrected.is_none() {
        return Err(
            "needs `corrected` or `uncorrected`, such as `corrected: {to: 500, over: 10m}`"
                .to_owned(),
        );
    }
    Ok(Action::Ecc {
        corrected,
        uncorrected,
    })
}

fn temperature(rise: Rise) -> Result<Rise, String> {
    if rise.to > HOTTEST {
        return Err(format!("ends at {} °C; the most is {HOTTEST}", rise.to));
    }
    Ok(rise)
}

fn pcie_replays(rise: Rise) -> Result<Action, String> {
    // The driver's counter has 32 bits.
    if rise.to > u32::MAX.into() {
        return Err(format!("ends at {}; the most is {}", rise.to, u32::MAX));
    }
    Ok(Action::PcieReplays(rise))
}

fn link_errors(errors: LinkErrors) -> Result<Action, String> {
    let known = LINK_ERRORS.into_iter().find(|kind| *kind == errors.kind);
    let kind = known.ok_or_else(|| {
        format!(
            "has the unknown kind `{}`; known are {}",
            errors.kind,
            LINK_ERRORS.join(", ")
        )
    })?;
    Ok(Action::LinkErrors {
        link: errors.link,
        kind,
        rise: Rise {
            to: errors.to,
            over: errors.over,
        },
    })
}

fn throttle(names: Vec<String>) -> Result<Action, String> {
    let mut bits = 0;
    for name in names {
        let Some((_, bit)) = CLOCK_EVENTS.iter().find(|(known, _)| *known == name) else {
            let known = CLOCK_EVENTS.map(|(known, _)| known);
            return Err(format!(
                "has the unknown `{name}`; known are {}",
                known.join(", ")
            ));
        };
        bits |= bit;
    }
    Ok(Action::Throttle(bits))
}
