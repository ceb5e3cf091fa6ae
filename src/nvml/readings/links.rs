//! NVLinks, and the fabric that they make.

use super::{FIELDS, Reader};
use crate::nvml::sample::{Fabric, Link, Links};
use crate::nvml::{DriverError, raw};
use nvml_wrapper::enum_wrappers::nv_link::ErrorCounter;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS,
    NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS,
    NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS,
    NVML_FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS, NVML_FI_DEV_NVLINK_ERROR_DL_CRC,
    NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY, NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY,
    NVML_FI_DEV_NVLINK_GET_SPEED, NVML_FI_DEV_NVLINK_LINK_COUNT,
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
};

use nvml_wrapper_sys::bindings::{
    nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_GPU as GPU,
    nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_IBMNPU as IBMNPU,
    nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_SWITCH as SWITCH,
};

/// More links than any GPU has (`NVML_NVLINK_MAX_LINKS` is 18).
const MOST_LINKS: u32 = 64;
/// The scope that stands for all links together.
const ALL_LINKS: u32 = u32::MAX;
/// Megabytes per second, as `NVML_FI_DEV_NVLINK_GET_SPEED` has them.
const MEGABYTES: f64 = 1e6;
/// `NVML_FI_DEV_NVLINK_THROUGHPUT_*` count so many bytes at once.
const KIBIBYTE: u64 = 1024;

/// What is asked of each link. The first is its speed; the first three errors are of the generations up to Hopper, the others
/// of those after it.
const PER_LINK: [(&str, u32); 8] = [
    ("", NVML_FI_DEV_NVLINK_GET_SPEED),
    ("replay", NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY),
    ("recovery", NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY),
    ("crc", NVML_FI_DEV_NVLINK_ERROR_DL_CRC),
    (
        "recovery_successful",
        NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS,
    ),
    (
        "recovery_failed",
        NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS,
    ),
    ("effective", NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS),
    ("symbol", NVML_FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS),
];

/// The errors of drivers that do not tell them as fields.
const COUNTERS: [(&str, ErrorCounter); 4] = [
    ("replay", ErrorCounter::DlReplay),
    ("recovery", ErrorCounter::DlRecovery),
    ("crc_flit", ErrorCounter::DlCrcFlit),
    ("crc_data", ErrorCounter::DlCrcData),
];

/// The bits of the health mask (`NVML_GPU_FABRIC_HEALTH_MASK_*`): where a question begins, how wide it is, and which answers
/// mean that all is well. 0 is no answer.
const FAULTS: [(&str, u32, u32, u32); 5] = [
    ("degraded_bandwidth", 0, 0x3, 2),
    ("route_recovery", 2, 0x3, 2),
    ("route_unhealthy", 4, 0x3, 2),
    ("access_timeout_recovery", 6, 0x3, 2),
    ("incorrect_configuration", 8, 0xf, 1),
];

impl Reader<'_> {
    fn link_count(&mut self) -> Result<u32, DriverError> {
        let [count] = self.fields([NVML_FI_DEV_NVLINK_LINK_COUNT])?;
        let count = count.and_then(|count| u32::try_from(count).ok());
        Ok(count.unwrap_or(0).min(MOST_LINKS))
    }

    pub(super) fn link_readings(&mut self, links: &mut Links) -> Result<(), DriverError> {
        let count = self.link_count()?;
        if count == 0 {
            return Ok(());
        }
        let per_link = (0..count).flat_map(|link| PER_LINK.map(|(_, field)| (field, link)));
        let both = [
            (NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS),
            (NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS),
        ];
        // One call for all links: each call is a way into the kernel.
        let asked: Vec<_> = both.into_iter().chain(per_link).collect();
        let answered = raw::fields(self.nvml, &self.device, &asked);
        let mut values = self
            .readings
            .take(FIELDS, answered)?
            .unwrap_or_default()
            .into_iter();
        for label in ["transmitted", "received"] {
            let kibibytes = self.value(values.next())?;
            links.bytes.extend(kibibytes.map(|n| (label, n * KIBIBYTE)));
        }
        for number in 0..count {
            let up = self.readings.take(
                "nvmlDeviceGetNvLinkState",
                self.device.link_wrapper_for(number).is_active(),
            )?;
            let mut link = Link {
                number,
                up,
                ..Link::default()
            };
            for (label, field) in PER_LINK {
                let value = self.value(values.next())?;
                if field == NVML_FI_DEV_NVLINK_GET_SPEED {
                    link.speed = value.map(|megabytes| megabytes as f64 * MEGABYTES);
                } else {
                    link.errors.extend(value.map(|count| (label, count)));
                }
            }
            if link.errors.is_empty() {
                for (label, counter) in COUNTERS {
                    let count = self.device.link_wrapper_for(number).error_counter(counter);
                    let call = "nvmlDeviceGetNvLinkErrorCounter";
                    self.push(&mut link.errors, label, call, count, |count| count)?;
                }
            }
            links.links.push(link);
        }
        links.peers = self.link_peers(count)?;
        Ok(())
    }

    fn value(&mut self, value: Option<Result<i64, NvmlError>>) -> Result<Option<u64>, DriverError> {
        let value = match value {
            // A link that is not there is no failure.
            None | Some(Err(NvmlError::InvalidArg)) => return Ok(None),
            Some(value) => self.readings.take(FIELDS, value)?,
        };
        Ok(value.and_then(|value| u64::try_from(value).ok()))
    }

    fn link_peers(&mut self, count: u32) -> Result<Vec<(u32, &'static str)>, DriverError> {
        let mut peers = Vec::new();
        for number in 0..count {
            let peer = self.readings.take(
                "nvmlDeviceGetNvLinkRemoteDeviceType",
                raw::link_peer(self.nvml, &self.device, number),
            )?;
            peers.extend(peer.map(|peer| {
                let name = match peer {
                    GPU => "gpu",
                    SWITCH => "switch",
                    IBMNPU => "cpu",
                    _ => "unknown",
                };
                (number, name)
            }));
        }
        Ok(peers)
    }

    pub(super) fn fabric(&mut self) -> Result<Option<Fabric>, DriverError> {
        let info = self.readings.take(
            "nvmlDeviceGetGpuFabricInfoV",
            raw::fabric_info(self.nvml, &self.device),
        )?;
        // State 0: this GPU is in no fabric.
        Ok(info.filter(|info| info.state != 0).map(|info| Fabric {
            state: u32::from(info.state),
            status: info.status,
            faults: faults(info.healthMask),
        }))
    }
}

fn faults(mask: u32) -> Vec<(&'static str, bool)> {
    let answers = FAULTS.map(|(label, shift, width, well)| (label, (mask >> shift) & width, well));
    let told = answers.into_iter().filter(|(_, answer, _)| *answer != 0);
    told.map(|(label, answer, well)| (label, answer != well))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::faults;

    #[test]
    fn a_health_mask_tells_what_is_wrong_and_what_it_does_not_know() {
        assert_eq!(faults(0), []);
        // Degraded bandwidth: yes; route recovery: no; two not told; configuration: no partition.
        let mask = 1 | (2 << 2) | (4 << 8);
        let expected = [
            ("degraded_bandwidth", true),
            ("route_recovery", false),
            ("incorrect_configuration", true),
        ];
        assert_eq!(faults(mask), expected);
        assert_eq!(faults(1 << 8), [("incorrect_configuration", false)]);
    }
}
