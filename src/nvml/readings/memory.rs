//! Errors of the memory, and what the GPU did about them.

use super::Reader;
use crate::nvml::sample::{Details, EccCount, RemappedRows, Sram};
use crate::nvml::{DriverError, raw};
use nvml_wrapper::enum_wrappers::device::{
    EccCounter, MemoryError, MemoryLocation, RetirementCause,
};

/// Corrected or not, over the life of the board or not: in the order in which they are shown.
const COUNTS: [(bool, bool); 4] = [(true, false), (true, true), (false, false), (false, true)];

const LOCATIONS: [(&str, MemoryLocation); 8] = [
    ("device_memory", MemoryLocation::Device),
    ("sram", MemoryLocation::SRAM),
    ("l1_cache", MemoryLocation::L1Cache),
    ("l2_cache", MemoryLocation::L2Cache),
    ("register_file", MemoryLocation::RegisterFile),
    ("texture_memory", MemoryLocation::Texture),
    ("shared_memory", MemoryLocation::Shared),
    ("cbu", MemoryLocation::Cbu),
];

fn kinds(corrected: bool, aggregate: bool) -> (MemoryError, EccCounter) {
    let error = match corrected {
        true => MemoryError::Corrected,
        false => MemoryError::Uncorrected,
    };
    let counter = match aggregate {
        true => EccCounter::Aggregate,
        false => EccCounter::Volatile,
    };
    (error, counter)
}

impl Reader<'_> {
    pub(super) fn ecc_errors(&mut self) -> Result<Vec<EccCount>, DriverError> {
        let mut counts = Vec::with_capacity(COUNTS.len());
        for (corrected, aggregate) in COUNTS {
            let (error, counter) = kinds(corrected, aggregate);
            let count = self.readings.take(
                "nvmlDeviceGetTotalEccErrors",
                self.device.total_ecc_errors(error, counter),
            )?;
            counts.extend(count.map(|count| EccCount {
                corrected,
                aggregate,
                count,
            }));
        }
        Ok(counts)
    }

    pub(super) fn remapped_rows(&mut self) -> Result<Option<RemappedRows>, DriverError> {
        self.readings.take(
            "nvmlDeviceGetRemappedRows",
            raw::remapped_rows(self.nvml, &self.device),
        )
    }

    pub(super) fn sram(&mut self) -> Result<Option<Sram>, DriverError> {
        let status = self.readings.take(
            "nvmlDeviceGetSramEccErrorStatus",
            raw::sram_errors(self.nvml, &self.device),
        )?;
        Ok(status.map(|status| Sram {
            threshold_exceeded: status.bThresholdExceeded != 0,
            errors: vec![
                ("corrected", "volatile", status.volatileCor),
                ("corrected", "aggregate", status.aggregateCor),
                ("parity", "volatile", status.volatileUncParity),
                ("parity", "aggregate", status.aggregateUncParity),
                ("secded", "volatile", status.volatileUncSecDed),
                ("secded", "aggregate", status.aggregateUncSecDed),
            ],
            units: vec![
                ("l2", status.aggregateUncBucketL2),
                ("sm", status.aggregateUncBucketSm),
                ("pcie", status.aggregateUncBucketPcie),
                ("mcu", status.aggregateUncBucketMcu),
                ("other", status.aggregateUncBucketOther),
            ],
        }))
    }

    pub(super) fn memory_details(&mut self, details: &mut Details) -> Result<(), DriverError> {
        for (label, cause) in [
            (
                "multiple_single_bit",
                RetirementCause::MultipleSingleBitEccErrors,
            ),
            ("double_bit", RetirementCause::DoubleBitEccError),
        ] {
            let pages = self.device.retired_pages(cause);
            self.push(
                &mut details.retired_pages,
                label,
                "nvmlDeviceGetRetiredPages_v2",
                pages,
                |pages| u32::try_from(pages.len()).unwrap_or(u32::MAX),
            )?;
        }
        details.retired_pages_pending = self.readings.take(
            "nvmlDeviceGetRetiredPagesPendingStatus",
            self.device.are_pages_pending_retired(),
        )?;
        let banks = self.readings.take(
            "nvmlDeviceGetRowRemapperHistogram",
            raw::row_remapper_histogram(self.nvml, &self.device),
        )?;
        if let Some(banks) = banks {
            details.row_banks = vec![
                ("max", banks.max),
                ("high", banks.high),
                ("partial", banks.partial),
                ("low", banks.low),
                ("none", banks.none),
            ];
        }
        for (corrected, aggregate) in COUNTS {
            let (error, counter) = kinds(corrected, aggregate);
            for (label, location) in LOCATIONS {
                let count = self.readings.take(
                    "nvmlDeviceGetMemoryErrorCounter",
                    self.device.memory_error_counter(error, counter, location),
                )?;
                let count = count.map(|count| EccCount {
                    corrected,
                    aggregate,
                    count,
                });
                details
                    .ecc_locations
                    .extend(count.map(|count| (label, count)));
            }
        }
        Ok(())
    }
}
