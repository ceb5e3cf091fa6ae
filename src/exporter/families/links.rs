//! NVLinks, and the fabric that they make.

use super::family::families;
use super::{Page, each, one};
use crate::exporter::series::{Row, write};
use crate::nvml::{Fabric, Link};
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

families! {
    UP: Gauge "gpu_nvlink_up" of Gpu { link: "its number" },
        "Whether this NVLink is up.",
        from "nvmlDeviceGetNvLinkState",
        example "gpu_nvlink_up == 0";
    INFO: Gauge "gpu_nvlink_info" of Gpu { link: "its number", peer: "`gpu`, `switch`, `cpu`, `unknown`" },
        "Always 1; what is at the other end of this NVLink, as a label.",
        from "nvmlDeviceGetNvLinkRemoteDeviceType",
        example "count by (node, gpu, peer) (gpu_nvlink_info)";
    SPEED: Gauge "gpu_nvlink_speed_bytes_per_second" of Gpu { link: "its number" },
        "Speed of this NVLink in one direction.",
        from "field 164",
        example "gpu_nvlink_speed_bytes_per_second < on () group_left () max(gpu_nvlink_speed_bytes_per_second)";
    ERRORS: Counter "gpu_nvlink_errors_total" of Gpu {
            link: "its number",
            type: "`replay`, `recovery`, `crc` up to Hopper (`crc_flit`, `crc_data` with older drivers); `recovery_successful`, `recovery_failed`, `effective`, `symbol` after it"
        },
        "Errors of this NVLink since the driver was loaded. Replays and CRC errors below 100 per second mean nothing.",
        from "fields 161 to 163; 213, 214, 219, 221; nvmlDeviceGetNvLinkErrorCounter",
        example "sum by (node, gpu, link) (increase(gpu_nvlink_errors_total{type=~\"recovery|recovery_failed\"}[10m])) > 0";
    BYTES: Counter "gpu_nvlink_bytes_total" of Gpu { direction: "`transmitted`, `received`" },
        "Data over all NVLinks of this GPU since the driver was loaded.",
        from "fields 138, 139",
        example "rate(gpu_nvlink_bytes_total{direction=\"received\"}[5m])";
    FABRIC_STATE: Gauge "gpu_fabric_state" of Gpu {},
        "Registration of this GPU in its NVLink fabric: 1 not begun, 2 under way, 3 ended. Absent where there is none.",
        from "nvmlDeviceGetGpuFabricInfoV",
        example "gpu_fabric_state != 3";
    FABRIC_STATUS: Gauge "gpu_fabric_status" of Gpu {},
        "NVML code with which that registration ended; 0 is success. Absent until it has ended.",
        from "nvmlDeviceGetGpuFabricInfoV",
        example "gpu_fabric_status != 0";
    FABRIC_FAULT: Gauge "gpu_fabric_fault" of Gpu {
            fault: "`degraded_bandwidth`, `route_recovery`, `route_unhealthy`, `access_timeout_recovery`, `incorrect_configuration`"
        },
        "Whether this is wrong with the fabric of this GPU; only what the driver knows.",
        from "nvmlDeviceGetGpuFabricInfoV",
        example "gpu_fabric_fault == 1";
}

/// `NVML_GPU_FABRIC_STATE_COMPLETED`.
const ENDED: u32 = 3;

impl Page<'_> {
    pub(in crate::exporter) fn links(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let most = self.nvlinks().map(|(_, all)| all.links.len()).max();
        let names: Vec<String> = (0..most.unwrap_or(0)).map(|n| n.to_string()).collect();
        let name = |number: u32| names.get(number as usize).map(String::as_str);
        let links = || {
            self.nvlinks().flat_map(move |(row, all)| {
                (all.links.iter()).filter_map(move |link| Some((row, name(link.number)?, link)))
            })
        };
        type Shown<'a> = (&'a Row, &'a str, &'a Link);
        let up =
            links().filter_map(|(row, name, link): Shown<'_>| Some((row, [name], one(link.up?))));
        write(encoder, &UP, up)?;
        let peers = self.nvlinks().flat_map(|(row, all)| {
            (all.peers.iter())
                .filter_map(move |(number, peer)| Some((row, [name(*number)?, *peer], 1.0)))
        });
        write(encoder, &INFO, peers)?;
        let speeds = links().filter_map(|(row, name, link)| Some((row, [name], link.speed?)));
        write(encoder, &SPEED, speeds)?;
        let errors = links().flat_map(|(row, name, link)| {
            (link.errors.iter()).map(move |(kind, count)| (row, [name, *kind], *count))
        });
        write(encoder, &ERRORS, errors)?;
        let bytes = self
            .nvlinks()
            .flat_map(|(row, all)| each(row, &all.bytes, |bytes| bytes));
        write(encoder, &BYTES, bytes)?;
        let fabrics =
            || (self.nvlinks()).filter_map(|(row, all)| Some((row, all.fabric.as_ref()?)));
        let states =
            fabrics().map(|(row, fabric): (_, &Fabric)| (row, [], f64::from(fabric.state)));
        write(encoder, &FABRIC_STATE, states)?;
        let statuses = fabrics()
            .filter(|(_, fabric)| fabric.state == ENDED)
            .map(|(row, fabric)| (row, [], f64::from(fabric.status)));
        write(encoder, &FABRIC_STATUS, statuses)?;
        let faults = fabrics().flat_map(|(row, fabric)| each(row, &fabric.faults, one));
        write(encoder, &FABRIC_FAULT, faults)
    }
}
