//! From what a file says to a scenario that can be played.

use super::error::ScenarioError;
use super::form::{File, Gpu, Gpus, Instance, Rise};
use super::state::fold;
use super::step::{Action, Step, What};
use super::timeline::{SHORTEST_ROUND, Timeline};
use super::{Board, Scenario};
use crate::nvml;
use crate::nvml::simulated::{self, SimulatedGpus};
use crate::xid::PciAddress;
use crate::yaml::Place;
use serde_saphyr::Spanned;
use std::collections::BTreeSet;
use std::path::Path;

/// NVML's own limit (`NVML_NVLINK_MAX_LINKS`).
const MOST_LINKS: u32 = 18;
/// More memory than any board has.
const MOST_MEMORY_GIB: u64 = 4096;
/// The limit of `--expected-gpus`.
const MOST_EXPECTED: u32 = 1024;
/// The code whose text is a recovery action.
const RECOVERY_XID: u32 = 154;

/// Makes an error of a part of the file.
struct Refuse<'a> {
    path: &'a Path,
}

impl Refuse<'_> {
    fn at<T>(
        &self,
        place: &Spanned<T>,
        subject: impl Into<String>,
        problem: impl Into<String>,
    ) -> ScenarioError {
        ScenarioError::Value {
            place: Place::new(self.path, Some(place.referenced)),
            subject: subject.into(),
            problem: problem.into(),
        }
    }
}

/// Reads the text of the file at a path.
pub(super) fn scenario(path: &Path, text: &str) -> Result<Scenario, ScenarioError> {
    let file = File::parse(path, text)?;
    let refuse = Refuse { path };
    if let Some(expected) = &file.expected
        && expected.value > MOST_EXPECTED
    {
        let problem = format!("must be from 0 to {MOST_EXPECTED}");
        return Err(refuse.at(expected, "expected", problem));
    }
    let boards = boards(&refuse, &file)?;
    let mut steps = Vec::new();
    for (number, step) in (1..).zip(file.timeline) {
        let subject = format!("step {number}");
        let place = Spanned::new((), step.referenced, step.defined);
        let refused = |problem| refuse.at(&place, subject.as_str(), problem);
        let step = Step::read(step.value, boards.len()).map_err(refused)?;
        could_be(&step, &boards).map_err(refused)?;
        if let Some(repeat) = &file.repeat
            && step.at >= repeat.value.0
        {
            return Err(refused(format!(
                "is at {:?}, and all begins anew after {:?} (`repeat`)",
                step.at, repeat.value.0
            )));
        }
        steps.push((place, number, step));
    }
    if let Some(repeat) = &file.repeat
        && repeat.value.0 < SHORTEST_ROUND
    {
        let problem = format!("must be at least {SHORTEST_ROUND:?}");
        return Err(refuse.at(repeat, "repeat", problem));
    }
    steps.sort_by_key(|(_, _, step)| step.at);
    let mut known: Vec<Step> = Vec::new();
    for (place, number, mut step) in steps {
        after(&mut step, &known, boards.len())
            .map_err(|problem| refuse.at(&place, format!("step {number}"), problem))?;
        known.push(step);
    }
    let temperatures = (0..).take(boards.len()).map(simulated::temperature);
    Ok(Scenario {
        driver_version: file.driver_version,
        cuda_version: file.cuda_version,
        expected: file.expected.map(|expected| expected.value),
        timeline: Timeline::new(
            temperatures.collect(),
            known,
            file.repeat.map(|repeat| repeat.value.0),
        ),
        boards,
    })
}

/// What can be said of a step by the GPU that it is of.
fn could_be(step: &Step, boards: &[Board]) -> Result<(), String> {
    let What::Gpu { slot, action } = &step.what else {
        return Ok(());
    };
    match action {
        Action::Xid(xid) if xid.code == 0 => Err("there is no Xid 0".to_owned()),
        Action::Xid(xid) if xid.code == RECOVERY_XID && xid.text.is_none() => Err(
            "an Xid 154 says what a GPU needs; use `recovery_action`, or give its `text`"
                .to_owned(),
        ),
        Action::LinkDown(link) | Action::LinkUp(link) | Action::LinkErrors { link, .. } => {
            let links = boards.get(*slot).map_or(0, |board| board.links);
            if *link < links {
                return Ok(());
            }
            Err(format!(
                "there is no link {link} on GPU {slot}, which has {links} (`links`), counted from 0"
            ))
        }
        _ => Ok(()),
    }
}

/// What can be said of a step by what was before it, and what it has from there.
fn after(step: &mut Step, before: &[Step], gpus: usize) -> Result<(), String> {
    let What::Gpu { slot, action } = &mut step.what else {
        return Ok(());
    };
    if !matches!(
        action,
        Action::Ecc { .. }
            | Action::PcieReplays(_)
            | Action::LinkErrors { .. }
            | Action::Recovery { .. }
    ) {
        return Ok(());
    }
    let temperatures = (0..).take(gpus).map(simulated::temperature);
    let moment = fold(temperatures, before, step.at);
    let Some(gpu) = moment.gpus.get(*slot) else {
        return Ok(());
    };
    match action {
        Action::Recovery { change, .. } => change.from = gpu.recovery_action,
        Action::Ecc {
            corrected,
            uncorrected,
        } => {
            for (what, now, rise) in [
                ("`ecc`: corrected", gpu.corrected, corrected),
                ("`ecc`: uncorrected", gpu.uncorrected, uncorrected),
            ] {
                if let Some(rise) = rise {
                    rises(&format!("{what} errors"), now.volatile, rise)?;
                }
            }
        }
        Action::PcieReplays(rise) => rises("`pcie_replays`: they", gpu.pcie_replays, rise)?,
        Action::LinkErrors { link, kind, rise } => {
            let now = gpu.link_errors.get(&(*link, *kind)).copied();
            let what = format!("`link_errors`: those of kind {kind} on link {link}");
            rises(&what, now.unwrap_or_default(), rise)?;
        }
        _ => {}
    }
    Ok(())
}

/// Counts go up only.
fn rises(what: &str, now: u64, rise: &Rise) -> Result<(), String> {
    if rise.to >= now {
        return Ok(());
    }
    Err(format!(
        "{what} are at {now} by then and never fall; {} is less",
        rise.to
    ))
}

fn boards(refuse: &Refuse<'_>, file: &File) -> Result<Vec<Board>, ScenarioError> {
    let count = match &file.gpus.value {
        Gpus::Count(count) => *count,
        Gpus::List(list) => list.len() as u64,
    };
    let most = u64::from(simulated::MOST);
    if !(1..=most).contains(&count) {
        return Err(refuse.at(&file.gpus, "gpus", format!("must be from 1 to {most} GPUs")));
    }
    let base = Board {
        model: file.model.clone(),
        memory: memory(refuse, "memory_gib", file.memory_gib.as_ref())?,
        links: links(refuse, "links", file.links.as_ref())?.unwrap_or(simulated::LINKS),
        ..Board::default()
    };
    let list = match &file.gpus.value {
        Gpus::Count(count) => {
            let count = usize::try_from(*count).unwrap_or(usize::MAX);
            return Ok(vec![base; count]);
        }
        Gpus::List(list) => list,
    };
    let mut boards: Vec<Board> = Vec::new();
    let (mut uuids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for (index, gpu) in (0..).zip(list) {
        let subject = format!("GPU {index}");
        let board = board(refuse, &subject, &base, gpu)?;
        if let Some(uuid) = &board.uuid
            && !uuids.insert(uuid.clone())
        {
            return Err(refuse.at(gpu, subject, format!("another GPU has the UUID {uuid}")));
        }
        let place = board.pci.unwrap_or_else(|| SimulatedGpus::place(index));
        if !places.insert(place) {
            let problem = format!(
                "another GPU is at {}; give both a `pci_bus_id`",
                place.bus_id()
            );
            return Err(refuse.at(gpu, subject, problem));
        }
        boards.push(board);
    }
    Ok(boards)
}

fn board(
    refuse: &Refuse<'_>,
    subject: &str,
    base: &Board,
    place: &Spanned<Gpu>,
) -> Result<Board, ScenarioError> {
    let gpu = &place.value;
    let refused = |problem: String| refuse.at(place, subject, problem);
    let uuid = gpu.uuid.as_deref();
    if let Some(uuid) = uuid.filter(|uuid| !is_uuid("GPU-", uuid)) {
        return Err(refused(format!(
            "`uuid`: {uuid} is not `GPU-` and groups of 8, 4, 4, 4 and 12 hexadecimal digits"
        )));
    }
    let pci: Option<Result<PciAddress, _>> = gpu.pci_bus_id.as_deref().map(str::parse);
    let pci = pci
        .transpose()
        .map_err(|error| refused(format!("`pci_bus_id`: {error}")))?;
    let mut instances = Vec::new();
    for instance in &gpu.instances {
        instances.push(
            self::instance(&instance.value)
                .map_err(|problem| refuse.at(instance, subject, problem))?,
        );
    }
    Ok(Board {
        model: gpu.model.clone().or_else(|| base.model.clone()),
        uuid: gpu.uuid.clone(),
        pci,
        serial: gpu.serial.clone(),
        vbios: gpu.vbios.clone(),
        memory: memory(refuse, subject, gpu.memory_gib.as_ref())?.or(base.memory),
        links: links(refuse, subject, gpu.links.as_ref())?.unwrap_or(base.links),
        instances,
    })
}

fn instance(form: &Instance) -> Result<nvml::Instance, String> {
    let compute = form.compute_instance.unwrap_or(0);
    let uuid = form.uuid.clone().unwrap_or_else(|| {
        format!(
            "MIG-00000000-0000-4000-8000-{:06x}{compute:06x}",
            form.gpu_instance
        )
    });
    if !is_uuid("MIG-", &uuid) {
        return Err(format!(
            "`uuid`: {uuid} is not `MIG-` and groups of 8, 4, 4, 4 and 12 hexadecimal digits"
        ));
    }
    Ok(nvml::Instance {
        uuid,
        gpu_instance: Some(form.gpu_instance),
        compute_instance: Some(compute),
        profile: form.profile.clone(),
        memory: None,
    })
}

fn is_uuid(prefix: &str, text: &str) -> bool {
    let Some(digits) = text.strip_prefix(prefix) else {
        return false;
    };
    let groups: Vec<&str> = digits.split('-').collect();
    groups.len() == 5
        && groups
            .iter()
            .zip([8, 4, 4, 4, 12])
            .all(|(group, length)| group.len() == length)
        && digits.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

fn memory(
    refuse: &Refuse<'_>,
    subject: &str,
    memory: Option<&Spanned<u64>>,
) -> Result<Option<u64>, ScenarioError> {
    let Some(memory) = memory else {
        return Ok(None);
    };
    if !(1..=MOST_MEMORY_GIB).contains(&memory.value) {
        let problem = format!("a GPU has from 1 to {MOST_MEMORY_GIB} GiB (`memory_gib`)");
        return Err(refuse.at(memory, subject, problem));
    }
    Ok(Some(memory.value << 30))
}

fn links(
    refuse: &Refuse<'_>,
    subject: &str,
    links: Option<&Spanned<u32>>,
) -> Result<Option<u32>, ScenarioError> {
    match links {
        Some(links) if links.value > MOST_LINKS => {
            let problem = format!("a GPU has at most {MOST_LINKS} NVLinks (`links`)");
            Err(refuse.at(links, subject, problem))
        }
        links => Ok(links.map(|links| links.value)),
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
