//! Writing one metric family: rows of labels and their values.

use super::state::Gpu;
use crate::xid::PciAddress;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel, EncodeLabelSet, LabelSetEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use std::fmt;

/// The labels that identify a series. What is not known has no label, which is the same to Prometheus as an empty one.
#[derive(Debug)]
pub(super) struct Row {
    labels: Vec<(&'static str, String)>,
}

impl Row {
    /// With labels of its own.
    pub(super) fn new(labels: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        Self {
            labels: labels.into_iter().collect(),
        }
    }

    /// What concerns the whole node.
    pub(super) fn node(node: &str) -> Self {
        Self {
            labels: vec![("node", node.to_owned())],
        }
    }

    /// A GPU that the driver has identified.
    pub(super) fn gpu(node: &str, gpu: &Gpu) -> Self {
        let identity = &gpu.identity;
        Self {
            labels: vec![
                ("node", node.to_owned()),
                ("gpu", identity.index.to_string()),
                ("UUID", identity.uuid.clone()),
                ("pci_bus_id", identity.pci.bus_id()),
                ("device", format!("nvidia{}", identity.minor)),
                ("modelName", identity.model.clone()),
            ],
        }
    }

    /// An index that never told who it is.
    pub(super) fn nameless(node: &str, index: u32) -> Self {
        Self {
            labels: vec![("node", node.to_owned()), ("gpu", index.to_string())],
        }
    }

    /// A GPU that only the kernel log knows.
    pub(super) fn logged(node: &str, pci: PciAddress, uuid: Option<&String>) -> Self {
        let mut labels = vec![("node", node.to_owned())];
        labels.extend(uuid.map(|uuid| ("UUID", uuid.clone())));
        labels.push(("pci_bus_id", pci.bus_id()));
        Self { labels }
    }
}

/// A row and what one family adds to it.
#[derive(Debug)]
struct Labels<'a, const N: usize> {
    row: &'a Row,
    more: [(&'static str, &'a str); N],
}

impl<const N: usize> EncodeLabelSet for Labels<'_, N> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        for (name, value) in &self.row.labels {
            (*name, value.as_str()).encode(encoder.encode_label())?;
        }
        for (name, value) in self.more.into_iter().filter(|(_, value)| !value.is_empty()) {
            (name, value).encode(encoder.encode_label())?;
        }
        Ok(())
    }
}

/// A row, what the family adds to it, and the value.
pub(super) type Series<'a, V, const N: usize> = (&'a Row, [(&'static str, &'a str); N], V);

/// Writes a family of gauges, if it has any series.
pub(super) fn gauge<'a, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = Series<'a, f64, N>>,
) -> fmt::Result {
    let mut samples = samples.into_iter().peekable();
    if samples.peek().is_none() {
        return Ok(());
    }
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (row, more, value) in samples {
        family
            .encode_family(&Labels { row, more })?
            .encode_gauge(&value)?;
    }
    Ok(())
}

/// Writes a family of counters, if it has any series. The name is without `_total`, which the encoder adds.
pub(super) fn counter<'a, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = Series<'a, u64, N>>,
) -> fmt::Result {
    let mut samples = samples.into_iter().peekable();
    if samples.peek().is_none() {
        return Ok(());
    }
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (row, more, value) in samples {
        family
            .encode_family(&Labels { row, more })?
            .encode_counter::<NoLabelSet, u64, f64>(&value, None)?;
    }
    Ok(())
}
