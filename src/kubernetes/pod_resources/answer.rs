//! Taking the answer to `List` apart. Pods are decoded one at a time, and what is no GPU is dropped at once, so that the
//! memory that an answer takes has a bound, whatever is in it.

use super::messages::{Claim, Container, POD_KEY, Pod};
use crate::kubernetes::claims::GPU_DRIVERS;
use crate::kubernetes::pods::is_gpu_resource;
use hyper::body::{Buf, Bytes};
use prost::{DecodeError, Message, decode_length_delimiter};
use std::collections::BTreeSet;

/// Pods are far smaller. An empty message in Protobuf takes two bytes and a hundred in memory, so this much becomes at most
/// 16 MiB for a moment.
const LARGEST_POD: usize = 256 * 1024;
/// More than any node can have: 16 GPUs, in 7 instances each, shared by 36 pods.
const MOST_DEVICES: usize = 4096;

/// A pod with devices that may be GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodDevices {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// Its containers with such devices.
    pub containers: Vec<ContainerDevices>,
}

/// A container with devices that may be GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerDevices {
    /// The container's name.
    pub name: String,
    /// What it holds; the same device may be there more than once.
    pub devices: Vec<Device>,
}

/// One device of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// From a device plugin.
    Plugin {
        /// Whether the extended resource is GPUs and nothing else, as `nvidia.com/gpu` is. Others under `nvidia.com/` may be
        /// network cards.
        of_gpus: bool,
        /// The plugin's name for the device.
        id: String,
    },
    /// From a ResourceClaim of NVIDIA's DRA driver.
    Claimed {
        /// The driver's name for the device, as in its ResourceSlice.
        name: String,
        /// The names in the Container Device Interface that came with this device.
        cdi: Vec<String>,
    },
}

/// Why an answer is of no use.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum AnswerError {
    /// It is not Protobuf.
    #[error("the answer breaks off or is not Protobuf")]
    NotProtobuf,
    /// A pod in it is not a pod.
    #[error("a pod in the answer cannot be decoded")]
    Pod(#[from] DecodeError),
    /// A pod in it is larger than any.
    #[error("a pod in the answer has {0} bytes; at most {LARGEST_POD} are read")]
    LargePod(usize),
    /// There are more devices than a node can have.
    #[error("the answer has more than {MOST_DEVICES} GPU devices")]
    TooMany,
}

/// The pods that may hold GPUs, of a `ListPodResourcesResponse`.
///
/// # Errors
///
/// See [`AnswerError`]; half of an answer is none.
pub fn decode(mut answer: impl Buf) -> Result<Vec<PodDevices>, AnswerError> {
    let mut pods = Vec::new();
    let mut devices = 0;
    while answer.has_remaining() {
        if let Some(pod) = next_pod(&mut answer)?
            && let Some(pod) = with_gpus(Pod::decode(pod)?)
        {
            devices += (pod.containers.iter())
                .map(|container| container.devices.len())
                .sum::<usize>();
            if devices > MOST_DEVICES {
                return Err(AnswerError::TooMany);
            }
            pods.push(pod);
        }
    }
    Ok(pods)
}

/// Reads one field of the outermost message: the bytes of a pod, or something else, which is skipped.
fn next_pod(answer: &mut impl Buf) -> Result<Option<Bytes>, AnswerError> {
    let mut varint = || decode_length_delimiter(&mut *answer).map_err(|_| AnswerError::NotProtobuf);
    let key = varint()?;
    // The wire types; groups are not in this version of Protobuf.
    let length = match key & 7 {
        0 => varint().map(|_| 0)?,
        1 => 8,
        2 => varint()?,
        5 => 4,
        _ => return Err(AnswerError::NotProtobuf),
    };
    if length > answer.remaining() {
        return Err(AnswerError::NotProtobuf);
    }
    if key != POD_KEY {
        answer.advance(length);
        return Ok(None);
    }
    if length > LARGEST_POD {
        return Err(AnswerError::LargePod(length));
    }
    Ok(Some(answer.copy_to_bytes(length)))
}

fn with_gpus(pod: Pod) -> Option<PodDevices> {
    let containers: Vec<_> = pod.containers.into_iter().filter_map(devices).collect();
    (!containers.is_empty()).then_some(PodDevices {
        namespace: pod.namespace,
        name: pod.name,
        containers,
    })
}

fn devices(container: Container) -> Option<ContainerDevices> {
    let mut devices = Vec::new();
    for plugin in container.devices {
        if !plugin.resource.starts_with("nvidia.com/") {
            continue;
        }
        let of_gpus = is_gpu_resource(&plugin.resource);
        let ids = plugin.ids.into_iter().filter(|id| !id.is_empty());
        devices.extend(ids.map(|id| Device::Plugin { of_gpus, id }));
    }
    devices.extend(container.claims.into_iter().flat_map(claimed));
    (!devices.is_empty()).then_some(ContainerDevices {
        name: container.name,
        devices,
    })
}

/// The GPUs of a claim. The kubelet gives each device the CDI names of those before it as well; only the new ones are its own.
fn claimed(claim: Claim) -> Vec<Device> {
    let mut before = BTreeSet::new();
    let mut devices = Vec::new();
    for device in claim.devices {
        let names = device.cdi.into_iter().map(|cdi| cdi.name);
        let own: Vec<_> = names.filter(|name| before.insert(name.clone())).collect();
        if GPU_DRIVERS.contains(&device.driver.as_str()) {
            devices.push(Device::Claimed {
                name: device.name,
                cdi: own,
            });
        }
    }
    devices
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
