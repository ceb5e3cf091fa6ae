//! Which pod holds which GPU: what the kubelet says about devices, brought together with the GPUs that the driver has.

use super::state::{Gpu, Health};
use crate::kubernetes::pod_resources::{Device, PodDevices};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// What the driver has told of a GPU that device names may mean.
#[derive(Debug, Clone)]
pub(super) struct KnownGpu<'a> {
    /// The index that the driver gave it.
    pub(super) index: u32,
    /// The number in `/dev/nvidiaN`.
    pub(super) minor: u32,
    /// Its UUID, with `GPU-`.
    pub(super) uuid: &'a str,
    /// The MIG instances that it is divided into.
    pub(super) instances: Vec<KnownInstance<'a>>,
}

/// What the driver has told of a MIG instance.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownInstance<'a> {
    /// Its UUID, with `MIG-`.
    pub(super) uuid: &'a str,
    /// The number of the GPU instance.
    pub(super) gpu_instance: Option<u32>,
}

impl<'a> From<&'a Gpu> for KnownGpu<'a> {
    fn from(gpu: &'a Gpu) -> Self {
        let instances = match &gpu.health {
            Health::Up(sample) => sample.instances.as_deref(),
            _ => None,
        };
        let instances = instances.into_iter().flatten();
        Self {
            index: gpu.identity.index,
            minor: gpu.identity.minor,
            uuid: &gpu.identity.uuid,
            instances: instances
                .map(|instance| KnownInstance {
                    uuid: &instance.uuid,
                    gpu_instance: instance.gpu_instance,
                })
                .collect(),
        }
    }
}

/// One container that holds one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Holding<'a> {
    namespace: &'a str,
    pod: &'a str,
    container: &'a str,
    place: Place<'a>,
}

/// The GPU, as far as the device's name tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Place<'a> {
    index: Option<u32>,
    uuid: Option<&'a str>,
    /// The MIG GPU instance.
    instance: Option<u32>,
    /// The device's own name, where it says more than the others here.
    device: Option<&'a str>,
}

impl<'a> Place<'a> {
    fn known(gpu: &KnownGpu<'a>) -> Self {
        Self {
            index: Some(gpu.index),
            uuid: Some(gpu.uuid),
            ..Self::default()
        }
    }

    /// A GPU that the driver need not know: it may be lost since before we started.
    fn of_uuid(uuid: &'a str, gpus: &[KnownGpu<'a>]) -> Self {
        let known = gpus.iter().find(|gpu| gpu.uuid == uuid);
        known.map_or(
            Self {
                uuid: Some(uuid),
                ..Self::default()
            },
            Self::known,
        )
    }

    /// A device of which nothing is known but its name.
    fn unknown(device: &'a str) -> Self {
        Self {
            device: Some(device),
            ..Self::default()
        }
    }
}

/// Who holds what, each once: a container with two shares of a GPU holds that GPU.
pub(super) fn holdings<'a>(pods: &'a [PodDevices], gpus: &[KnownGpu<'a>]) -> BTreeSet<Holding<'a>> {
    let mut holdings = BTreeSet::new();
    for pod in pods {
        for container in &pod.containers {
            let places = container.devices.iter().filter_map(|d| place(d, gpus));
            holdings.extend(places.map(|place| Holding {
                namespace: &pod.namespace,
                pod: &pod.name,
                container: &container.name,
                place,
            }));
        }
    }
    holdings
}

/// Where a device is; `None` where it is no GPU.
fn place<'a>(device: &'a Device, gpus: &[KnownGpu<'a>]) -> Option<Place<'a>> {
    match device {
        Device::Plugin { of_gpus, id } => {
            // With time slicing and MPS, what follows is the number of the share.
            let id = id.split_once("::").map_or(id.as_str(), |(id, _)| id);
            by_id(id, gpus).or_else(|| {
                of_gpus.then(|| {
                    number(id)
                        .and_then(|number| by_number(number, gpus))
                        .map_or(Place::unknown(id), Place::known)
                })
            })
        }
        Device::Claimed { name, cdi } => {
            let values = cdi.iter().filter_map(|cdi| Some(cdi.rsplit_once('=')?.1));
            let told: BTreeSet<_> = values.filter_map(|value| by_uuid(value, gpus)).collect();
            match told.first() {
                Some(place) if told.len() == 1 => Some(*place),
                _ => Some(by_dra_name(name, gpus)),
            }
        }
    }
}

/// What a device plugin calls a GPU or a part of one.
fn by_id<'a>(id: &'a str, gpus: &[KnownGpu<'a>]) -> Option<Place<'a>> {
    by_uuid(id, gpus).or_else(|| by_device_file(id, gpus))
}

/// `GPU-<uuid>`, `MIG-<uuid>`, and as it was before driver 470, `MIG-GPU-<uuid>/<instance>/<compute instance>`.
fn by_uuid<'a>(id: &'a str, gpus: &[KnownGpu<'a>]) -> Option<Place<'a>> {
    if let Some(gpu) = id.strip_prefix("MIG-")
        && let Some((uuid, rest)) = gpu_uuid(gpu)
    {
        let (instance, compute) = rest.strip_prefix('/')?.split_once('/')?;
        number(compute)?;
        return Some(Place {
            instance: Some(number(instance)?),
            ..Place::of_uuid(uuid, gpus)
        });
    }
    if id.strip_prefix("MIG-").is_some_and(is_uuid) {
        return Some(by_instance(id, gpus).unwrap_or(Place::unknown(id)));
    }
    let (uuid, rest) = gpu_uuid(id)?;
    // HAMi numbers its shares with a hyphen.
    let whole = rest.is_empty() || rest.strip_prefix('-').and_then(number).is_some();
    whole.then(|| Place::of_uuid(uuid, gpus))
}

fn by_instance<'a>(uuid: &str, gpus: &[KnownGpu<'a>]) -> Option<Place<'a>> {
    gpus.iter().find_map(|gpu| {
        let instance = gpu.instances.iter().find(|known| known.uuid == uuid)?;
        Some(Place {
            instance: instance.gpu_instance,
            ..Place::known(gpu)
        })
    })
}

/// The UUID with `GPU-` at the beginning of a name, and what follows it.
fn gpu_uuid(id: &str) -> Option<(&str, &str)> {
    let (uuid, rest) = id.split_at_checked("GPU-".len() + UUID_LENGTH)?;
    uuid.strip_prefix("GPU-")
        .is_some_and(is_uuid)
        .then_some((uuid, rest))
}

const UUID_LENGTH: usize = 36;

fn is_uuid(text: &str) -> bool {
    let is_right = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == UUID_LENGTH && text.bytes().enumerate().all(is_right)
}

/// GKE's names: `nvidia0`, `nvidia0/gi1`, each with `/vgpu2` where it is shared.
fn by_device_file<'a>(id: &'a str, gpus: &[KnownGpu<'a>]) -> Option<Place<'a>> {
    let mut parts = id.strip_prefix("nvidia")?.split('/');
    let minor = number(parts.next()?)?;
    let mut instance = None;
    for part in parts {
        match part.strip_prefix("gi") {
            Some(text) if instance.is_none() => instance = Some(number(text)?),
            _ => drop(number(part.strip_prefix("vgpu")?)?),
        }
    }
    let place = only(gpus, |gpu| gpu.minor == minor).map_or(Place::unknown(id), Place::known);
    Some(Place { instance, ..place })
}

/// The names of NVIDIA's DRA driver: `gpu-0`, `gpu-0-mig-1g10gb-15-0` (profile, its number, first slice) and, as it was
/// before, `gpu-0-mig-15-0-1`. Only the one with the profile's name is surely numbered by the device file; the others were by
/// the index once.
fn by_dra_name<'a>(name: &'a str, gpus: &[KnownGpu<'a>]) -> Place<'a> {
    let gpu = || {
        let rest = name.strip_prefix("gpu-")?;
        let Some((gpu, mig)) = rest.split_once("-mig-") else {
            return by_number(number(rest)?, gpus).map(Place::known);
        };
        let minor = number(gpu)?;
        let has_profile = mig.bytes().any(|byte| byte.is_ascii_alphabetic());
        let gpu = match has_profile {
            true => only(gpus, |gpu| gpu.minor == minor)?,
            false => by_number(minor, gpus)?,
        };
        // Which instance the driver made of it is not told.
        Some(Place {
            device: Some(name),
            ..Place::known(gpu)
        })
    };
    gpu().unwrap_or(Place::unknown(name))
}

/// A number of which is not known whether it is an index or of a device file: only where both are the same GPU.
fn by_number<'g, 'a>(number: u32, gpus: &'g [KnownGpu<'a>]) -> Option<&'g KnownGpu<'a>> {
    let by_index = only(gpus, |gpu| gpu.index == number)?;
    let by_minor = only(gpus, |gpu| gpu.minor == number)?;
    (by_index.uuid == by_minor.uuid).then_some(by_index)
}

/// The GPU for which that holds, if it is one. A GPU that is lost keeps the index that another may have got since.
fn only<'g, 'a>(
    gpus: &'g [KnownGpu<'a>],
    is: impl Fn(&KnownGpu<'a>) -> bool,
) -> Option<&'g KnownGpu<'a>> {
    let mut matching = gpus.iter().filter(|gpu| is(gpu));
    let first = matching.next()?;
    matching.next().is_none().then_some(first)
}

/// A number in digits alone: no sign, no space.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

impl Holding<'_> {
    /// The labels of its series; what is not known is empty.
    pub(super) fn labels(&self) -> [Cow<'_, str>; 7] {
        let Place {
            index,
            uuid,
            instance,
            device,
        } = self.place;
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        [
            number(index).unwrap_or_default().into(),
            uuid.unwrap_or_default().into(),
            number(instance).unwrap_or_default().into(),
            self.namespace.into(),
            self.pod.into(),
            self.container.into(),
            device.unwrap_or_default().into(),
        ]
    }
}

#[cfg(test)]
#[path = "pod_info_tests.rs"]
mod tests;
