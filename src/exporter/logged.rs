//! The families about what only the kernel log tells: NVSwitches, GPUs that do not start, lines that cannot be read.

use super::series::{Row, counter, gauge};
use super::state::State;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

/// Writes them.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    node: &str,
    state: &State,
) -> fmt::Result {
    let switches: Vec<_> = (state.switches.seen())
        .map(|(key, count)| {
            let row = Row::logged(node, key.pci, None);
            (row, key.code.to_string(), key.class.as_str(), count)
        })
        .collect();
    counter(
        encoder,
        "gpu_sxid_errors",
        "SXid messages of NVSwitches in the kernel log.",
        switches.iter().map(|(row, code, class, count)| {
            let labels = [("sxid", code.as_str()), ("class", *class)];
            (row, labels, count.events)
        }),
    )?;
    gauge(
        encoder,
        "gpu_sxid_last_timestamp_seconds",
        "When this SXid was last logged; absent until it is, and where the log does not tell when it was.",
        switches.iter().filter_map(|(row, code, class, count)| {
            let labels = [("sxid", code.as_str()), ("class", *class)];
            Some((row, labels, count.last?.as_duration().as_secs_f64()))
        }),
    )?;
    let failures: Vec<_> = (state.init_failures.iter())
        .map(|(pci, count)| match pci {
            Some(pci) => (Row::logged(node, *pci, state.logged_uuids.get(pci)), *count),
            None => (Row::node(node), *count),
        })
        .collect();
    counter(
        encoder,
        "gpu_init_failures",
        "How often the driver logged that it could not start a GPU.",
        failures.iter().map(|(row, count)| (row, [], *count)),
    )?;
    let node = Row::node(node);
    counter(
        encoder,
        "gpu_exporter_kernel_log_malformed_lines",
        "Lines of the kernel log that begin as an Xid or an SXid and cannot be read as one.",
        [(&node, [], state.malformed)],
    )
}
