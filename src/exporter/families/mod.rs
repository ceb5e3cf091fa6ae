//! The metric families by subject. Each file declares its own, and writes them.

mod collection;
mod driver;
pub(super) mod family;
mod health;
mod instances;
mod links;
mod load;
pub(super) mod log;
mod memory;
mod pods;
mod presence;
mod switches;
mod thermal;
mod xids;

use super::series::Row;
use super::state::{Gpu, State};
use crate::nvml::{Details, Instance, Labelled, Links, Sample, Usage};
use std::time::Instant;

/// A scrape.
pub(super) struct Page<'a> {
    state: &'a State,
    now: Instant,
    node: &'a str,
    /// What concerns the whole node.
    pub(super) row: Row,
    gpus: Vec<Shown<'a>>,
    /// Indices that never told who they are; with the lost ones among them marked.
    nameless: Vec<(u32, bool, Row)>,
    /// GPUs that the kernel sees and the driver does not have.
    unlisted: Vec<Row>,
}

/// A GPU on it.
struct Shown<'a> {
    gpu: &'a Gpu,
    row: Row,
    /// Its last sample, while that is current.
    sample: Option<&'a Sample>,
}

impl<'a> Page<'a> {
    pub(super) fn new(node: &'a str, state: &'a State, now: Instant) -> Self {
        let gpus = (state.gpus.values()).filter(|gpu| !state.is_handed_over(gpu));
        let gpus = gpus.map(|gpu| Shown {
            gpu,
            row: Row::gpu(node, gpu),
            sample: state.current(gpu, now),
        });
        let nameless = state.nameless(now).into_iter();
        let unlisted = state.unlisted(now).into_iter();
        Self {
            state,
            now,
            node,
            row: Row::node(node),
            gpus: gpus.collect(),
            nameless: nameless
                .map(|(index, lost)| (index, lost, Row::nameless(node, index)))
                .collect(),
            unlisted: unlisted
                .map(|pci| Row::logged(node, pci, state.logged_uuids.get(&pci)))
                .collect(),
        }
    }

    /// The GPUs that have a current sample.
    fn samples(&self) -> impl Iterator<Item = (&Row, &'a Sample)> {
        let gpus = self.gpus.iter();
        gpus.filter_map(|shown| Some((&shown.row, shown.sample?)))
    }

    fn usage(&self) -> impl Iterator<Item = (&Row, &'a Usage)> {
        self.samples()
            .filter_map(|(row, sample)| Some((row, sample.usage.as_deref()?)))
    }

    fn nvlinks(&self) -> impl Iterator<Item = (&Row, &'a Links)> {
        self.samples()
            .filter_map(|(row, sample)| Some((row, sample.links.as_deref()?)))
    }

    fn divided(&self) -> impl Iterator<Item = (&Row, &'a [Instance])> {
        self.samples()
            .filter_map(|(row, sample)| Some((row, sample.instances.as_deref()?.as_slice())))
    }

    fn details(&self) -> impl Iterator<Item = (&Row, &'a Details)> {
        self.samples()
            .filter_map(|(row, sample)| Some((row, sample.details.as_deref()?)))
    }
}

fn one(yes: bool) -> f64 {
    f64::from(u8::from(yes))
}

/// One series for each number of a list, with its label.
fn each<'r, 'v, T: Copy + 'v, V>(
    row: &'r Row,
    list: &'v Labelled<T>,
    convert: impl Fn(T) -> V,
) -> impl Iterator<Item = (&'r Row, [&'v str; 1], V)> {
    list.iter()
        .map(move |(label, value)| (row, [*label], convert(*value)))
}

/// What is on now, and what will be after the next reset.
fn both(row: &Row, (current, pending): (bool, bool)) -> [(&Row, [&'static str; 1], f64); 2] {
    [
        (row, ["current"], one(current)),
        (row, ["pending"], one(pending)),
    ]
}

#[cfg(test)]
#[path = "documentation_tests.rs"]
mod documentation;
