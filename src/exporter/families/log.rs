//! How the reading of the kernel log goes.

use super::family::families;
use super::one;
use crate::exporter::series::{Row, write};
use crate::kmsg::Counters;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;
use std::sync::atomic::Ordering;

families! {
    OPEN: Gauge "gpu_exporter_kernel_log_open" of Node {},
        "Whether the kernel log is being read.",
        from "the exporter",
        example "gpu_exporter_kernel_log_open == 0";
    LINES: Counter "gpu_exporter_kernel_log_lines_total" of Node {},
        "Lines of the kernel log that were read.",
        from "the exporter",
        example "rate(gpu_exporter_kernel_log_lines_total[5m])";
    LOST: Counter "gpu_exporter_kernel_log_lost_records_total" of Node {},
        "Records of the kernel log that were overwritten before they were read.",
        from "the exporter",
        example "increase(gpu_exporter_kernel_log_lost_records_total[10m]) > 0";
    ERRORS: Counter "gpu_exporter_kernel_log_errors_total" of Node {},
        "Failed attempts to open or read the kernel log.",
        from "the exporter",
        example "increase(gpu_exporter_kernel_log_errors_total[10m]) > 0";
}

pub(in crate::exporter) fn write_all(
    encoder: &mut DescriptorEncoder<'_>,
    node: &Row,
    log: &Counters,
) -> fmt::Result {
    let open = log.open.load(Ordering::Relaxed);
    write(encoder, &OPEN, [(node, [], one(open))])?;
    for (family, value) in [
        (&LINES, &log.lines),
        (&LOST, &log.lost),
        (&ERRORS, &log.errors),
    ] {
        write(encoder, family, [(node, [], value.load(Ordering::Relaxed))])?;
    }
    Ok(())
}
