//! Errors of the memory, and what was done about them.

use super::family::families;
use super::{Page, each, one};
use crate::exporter::series::write;
use crate::nvml::EccCount;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

families! {
    ECC_ERRORS: Counter "gpu_ecc_errors_total" of Gpu { type: "`corrected`, `uncorrected`", counter: "`volatile`, `aggregate`" },
        "ECC memory errors: volatile since the driver was loaded, aggregate over the life of the board.",
        from "nvmlDeviceGetTotalEccErrors",
        example "increase(gpu_ecc_errors_total{type=\"uncorrected\",counter=\"volatile\"}[1h]) > 0";
    ECC_LOCATIONS: Counter "gpu_ecc_location_errors_total" of Gpu {
            location: "`device_memory`, `sram`, `l1_cache`, `l2_cache`, `register_file`, `texture_memory`, `shared_memory`, `cbu`",
            type: "`corrected`, `uncorrected`",
            counter: "`volatile`, `aggregate`"
        },
        "ECC memory errors by where they were. Not a part of gpu_ecc_errors_total that could be added up: a GPU tells some places only.",
        from "nvmlDeviceGetMemoryErrorCounter",
        example "sum by (location) (increase(gpu_ecc_location_errors_total{counter=\"volatile\"}[1d])) > 0";
    SRAM_ERRORS: Counter "gpu_sram_ecc_errors_total" of Gpu { type: "`corrected`, `parity`, `secded`", counter: "`volatile`, `aggregate`" },
        "Errors in on-chip memory; parity and secded are uncorrected.",
        from "nvmlDeviceGetSramEccErrorStatus",
        example "gpu_sram_ecc_errors_total{type!=\"corrected\",counter=\"aggregate\"} > 0";
    SRAM_UNITS: Counter "gpu_sram_ecc_unit_errors_total" of Gpu { unit: "`l2`, `sm`, `pcie`, `mcu`, `other`" },
        "Uncorrected errors in on-chip memory over the life of the board, by the unit that they were in.",
        from "nvmlDeviceGetSramEccErrorStatus",
        example "gpu_sram_ecc_unit_errors_total > 0";
    SRAM_THRESHOLD: Gauge "gpu_sram_ecc_threshold_exceeded" of Gpu {},
        "Whether there were so many uncorrected errors in on-chip memory that the board is to be tested or replaced.",
        from "nvmlDeviceGetSramEccErrorStatus",
        example "gpu_sram_ecc_threshold_exceeded == 1";
    REMAPPED_ROWS: Gauge "gpu_remapped_rows" of Gpu { cause: "`corrected`, `uncorrected`" },
        "Memory rows that spare ones replace, as the board keeps them.",
        from "nvmlDeviceGetRemappedRows",
        example "gpu_remapped_rows{cause=\"uncorrected\"} >= 512";
    REMAP_PENDING: Gauge "gpu_row_remap_pending" of Gpu {},
        "Whether a memory row waits for the next reset to be remapped.",
        from "nvmlDeviceGetRemappedRows",
        example "gpu_row_remap_pending == 1";
    REMAP_FAILURE: Gauge "gpu_row_remap_failure" of Gpu {},
        "Whether a memory row could not be remapped: the board is to be replaced.",
        from "nvmlDeviceGetRemappedRows",
        example "gpu_row_remap_failure == 1";
    REMAP_BANKS: Gauge "gpu_row_remap_banks" of Gpu { availability: "`max`, `high`, `partial`, `low`, `none`" },
        "Memory banks by how many of their spare rows are left.",
        from "nvmlDeviceGetRowRemapperHistogram",
        example "gpu_row_remap_banks{availability=~\"low|none\"} > 0";
    RETIRED_PAGES: Gauge "gpu_retired_pages" of Gpu { cause: "`multiple_single_bit`, `double_bit`" },
        "Memory pages that are no longer used, as the board keeps them; before Ampere.",
        from "nvmlDeviceGetRetiredPages_v2",
        example "sum by (node, gpu) (gpu_retired_pages) >= 60";
    RETIRED_PENDING: Gauge "gpu_retired_pages_pending" of Gpu {},
        "Whether a memory page waits for the next reset to be retired; before Ampere.",
        from "nvmlDeviceGetRetiredPagesPendingStatus",
        example "gpu_retired_pages_pending == 1";
}

/// The labels `type` and `counter`.
fn kinds(count: &EccCount) -> [&'static str; 2] {
    let kind = match count.corrected {
        true => "corrected",
        false => "uncorrected",
    };
    let kept = match count.aggregate {
        true => "aggregate",
        false => "volatile",
    };
    [kind, kept]
}

impl Page<'_> {
    pub(in crate::exporter) fn memory(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let errors = self.samples().flat_map(|(row, sample)| {
            let counts = sample.ecc.iter();
            counts.map(move |count| (row, kinds(count), count.count))
        });
        write(encoder, &ECC_ERRORS, errors)?;
        let errors = self.details().flat_map(|(row, details)| {
            let counts = details.ecc_locations.iter();
            counts.map(move |(location, count)| {
                let [kind, kept] = kinds(count);
                (row, [*location, kind, kept], count.count)
            })
        });
        write(encoder, &ECC_LOCATIONS, errors)?;
        let sram = || (self.usage()).filter_map(|(row, usage)| Some((row, usage.sram.as_ref()?)));
        let errors = sram().flat_map(|(row, sram)| {
            let counts = sram.errors.iter();
            counts.map(move |(kind, kept, count)| (row, [*kind, *kept], *count))
        });
        write(encoder, &SRAM_ERRORS, errors)?;
        let units = sram().flat_map(|(row, sram)| each(row, &sram.units, |count| count));
        write(encoder, &SRAM_UNITS, units)?;
        let exceeded = sram().map(|(row, sram)| (row, [], one(sram.threshold_exceeded)));
        write(encoder, &SRAM_THRESHOLD, exceeded)?;
        self.rows(encoder)?;
        let pages = (self.details())
            .flat_map(|(row, details)| each(row, &details.retired_pages, f64::from));
        write(encoder, &RETIRED_PAGES, pages)?;
        let pending = self
            .details()
            .filter_map(|(row, details)| Some((row, [], one(details.retired_pages_pending?))));
        write(encoder, &RETIRED_PENDING, pending)
    }

    fn rows(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let rows = || (self.samples()).filter_map(|(row, sample)| Some((row, sample.rows?)));
        let remapped = rows().flat_map(|(row, rows)| {
            [
                (row, ["corrected"], f64::from(rows.corrected)),
                (row, ["uncorrected"], f64::from(rows.uncorrected)),
            ]
        });
        write(encoder, &REMAPPED_ROWS, remapped)?;
        let pending = rows().map(|(row, rows)| (row, [], one(rows.pending)));
        write(encoder, &REMAP_PENDING, pending)?;
        let failed = rows().map(|(row, rows)| (row, [], one(rows.failed)));
        write(encoder, &REMAP_FAILURE, failed)?;
        let banks =
            (self.details()).flat_map(|(row, details)| each(row, &details.row_banks, f64::from));
        write(encoder, &REMAP_BANKS, banks)
    }
}
