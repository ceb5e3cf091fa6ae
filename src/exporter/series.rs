//! Writing one metric family: rows of labels and their values.

use super::families::family::{Family, Kind, Label};
use super::state::Gpu;
use crate::xid::PciAddress;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabel, EncodeLabelSet,
    LabelSetEncoder, NoLabelSet,
};
use std::fmt;

/// The labels that identify a series. What is not known has no label, which is the same to Prometheus as an empty one.
#[derive(Debug)]
pub(super) struct Row {
    labels: Vec<(&'static str, String)>,
}

impl Row {
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
    names: &'static [Label; N],
    values: [&'a str; N],
}

impl<const N: usize> EncodeLabelSet for Labels<'_, N> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        for (name, value) in &self.row.labels {
            (*name, value.as_str()).encode(encoder.encode_label())?;
        }
        let more = self.names.iter().zip(self.values);
        for (label, value) in more.filter(|(_, value)| !value.is_empty()) {
            (label.name, value).encode(encoder.encode_label())?;
        }
        Ok(())
    }
}

/// A row, the values of the family's own labels, and the value.
pub(super) type Series<'a, V, const N: usize> = (&'a Row, [&'a str; N], V);

/// Writes a family, if it has any series. An empty label is left out.
pub(super) fn write<'a, V, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    family: &Family<N>,
    samples: impl IntoIterator<Item = Series<'a, V, N>>,
) -> fmt::Result
where
    V: EncodeGaugeValue + EncodeCounterValue,
{
    let mut samples = samples.into_iter().peekable();
    if samples.peek().is_none() {
        return Ok(());
    }
    // The encoder adds the ending of a counter by itself.
    let name = family.name.strip_suffix("_total").unwrap_or(family.name);
    let kind = family.kind.metric_type();
    let mut metric = encoder.encode_descriptor(name, family.help, None, kind)?;
    for (row, values, value) in samples {
        let labels = Labels {
            row,
            names: family.labels,
            values,
        };
        let mut metric = metric.encode_family(&labels)?;
        match family.kind {
            Kind::Gauge => metric.encode_gauge(&value)?,
            Kind::Counter => metric.encode_counter::<NoLabelSet, V, f64>(&value, None)?,
        }
    }
    Ok(())
}
