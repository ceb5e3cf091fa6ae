#![allow(clippy::unwrap_used)]
use super::*;
use crate::kubernetes::pod_resources::ContainerDevices;
use proptest::prelude::*;

const A: &str = "GPU-00000000-1111-2222-3333-44444444aaaa";
const B: &str = "GPU-00000000-1111-2222-3333-44444444bbbb";
const OTHER: &str = "GPU-99999999-1111-2222-3333-44444444cccc";
const MIG: &str = "MIG-55555555-1111-2222-3333-44444444dddd";

/// Two GPUs; `minors` are the numbers of their device files. The second has a MIG instance.
fn gpus(minors: [u32; 2]) -> Vec<KnownGpu<'static>> {
    let gpu = |index, minor, uuid| KnownGpu {
        index,
        minor,
        uuid,
        instances: Vec::new(),
    };
    let mut gpus = vec![gpu(0, minors[0], A), gpu(1, minors[1], B)];
    gpus[1].instances.push(KnownInstance {
        uuid: MIG,
        gpu_instance: Some(9),
    });
    gpus
}

fn pod(name: &str, container: &str, devices: Vec<Device>) -> PodDevices {
    PodDevices {
        namespace: "inference".to_owned(),
        name: name.to_owned(),
        containers: vec![ContainerDevices {
            name: container.to_owned(),
            devices,
        }],
    }
}

fn plugin(id: &str) -> Device {
    Device::Plugin {
        of_gpus: true,
        id: id.to_owned(),
    }
}

fn claimed(name: &str, cdi: &[&str]) -> Device {
    Device::Claimed {
        name: name.to_owned(),
        cdi: cdi.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// `gpu UUID GPU_I_ID device_id`, with `-` for what is not known; `None` where the device is no GPU.
fn told(device: &Device, gpus: &[KnownGpu<'_>]) -> Option<String> {
    let or_none = |text: Option<String>| text.unwrap_or("-".to_owned());
    let place = place(device, gpus)?;
    Some(format!(
        "{} {} {} {}",
        or_none(place.index.map(|index| index.to_string())),
        place.uuid.unwrap_or("-"),
        or_none(place.instance.map(|instance| instance.to_string())),
        place.device.unwrap_or("-"),
    ))
}

#[test]
fn the_devices_of_a_plugin() {
    let gpus = gpus([0, 1]);
    let uuid = B.strip_prefix("GPU-").unwrap();
    for (id, expected) in [
        (A.to_owned(), format!("0 {A} - -")),
        // Time slicing and MPS.
        (format!("{B}::3"), format!("1 {B} - -")),
        (format!("{MIG}::0"), format!("1 {B} 9 -")),
        // HAMi.
        (format!("{B}-7"), format!("1 {B} - -")),
        // A GPU that the driver does not know, or not yet.
        (OTHER.to_owned(), format!("- {OTHER} - -")),
        (format!("{OTHER}::1"), format!("- {OTHER} - -")),
        (MIG.to_owned(), format!("1 {B} 9 -")),
        (format!("MIG-{A}/2/0"), format!("0 {A} 2 -")),
        (format!("MIG-{OTHER}/2/0"), format!("- {OTHER} 2 -")),
        // GKE.
        ("nvidia1".to_owned(), format!("1 {B} - -")),
        ("nvidia1/vgpu0".to_owned(), format!("1 {B} - -")),
        ("nvidia0/gi2".to_owned(), format!("0 {A} 2 -")),
        ("nvidia0/gi2/vgpu5".to_owned(), format!("0 {A} 2 -")),
        ("nvidia7".to_owned(), "- - - nvidia7".to_owned()),
        ("nvidia7/gi2".to_owned(), "- - 2 nvidia7/gi2".to_owned()),
        // By index.
        ("1".to_owned(), format!("1 {B} - -")),
        ("1::4".to_owned(), format!("1 {B} - -")),
        ("2".to_owned(), "- - - 2".to_owned()),
        // Names that nobody is known to use are shown, and are no reason to guess.
        (format!("GPU-{uuid}x"), format!("- - - GPU-{uuid}x")),
        (format!("{B}-"), format!("- - - {B}-")),
        ("GPU-1".to_owned(), "- - - GPU-1".to_owned()),
        ("MIG-1".to_owned(), "- - - MIG-1".to_owned()),
        (format!("MIG-{A}"), format!("- - - MIG-{A}")),
        (format!("MIG-{A}/2"), format!("- - - MIG-{A}/2")),
        (format!("MIG-{A}/2/x"), format!("- - - MIG-{A}/2/x")),
        (
            "nvidia1/gi2/gi3".to_owned(),
            "- - - nvidia1/gi2/gi3".to_owned(),
        ),
        ("nvidia".to_owned(), "- - - nvidia".to_owned()),
        ("nvidiactl".to_owned(), "- - - nvidiactl".to_owned()),
        ("0:1".to_owned(), "- - - 0:1".to_owned()),
        ("+1".to_owned(), "- - - +1".to_owned()),
        (
            "99999999999999".to_owned(),
            "- - - 99999999999999".to_owned(),
        ),
        ("::".to_owned(), "- - - ".to_owned()),
        (
            "GPU-äääääääääääääääääääää".to_owned(),
            "- - - GPU-äääääääääääääääääääää".to_owned(),
        ),
    ] {
        assert_eq!(told(&plugin(&id), &gpus), Some(expected), "{id}");
    }
}

#[test]
fn what_may_be_a_network_card_is_shown_only_if_its_name_is_that_of_a_gpu() {
    let other = |id: &str| Device::Plugin {
        of_gpus: false,
        id: id.to_owned(),
    };
    let gpus = gpus([0, 1]);
    for id in ["0000:3b:00.0", "1", "65", "mlx5_0", "GPU-1", "nvidia", ""] {
        assert_eq!(told(&other(id), &gpus), None, "{id}");
    }
    for (id, expected) in [
        (A.to_owned(), format!("0 {A} - -")),
        (format!("{B}::1"), format!("1 {B} - -")),
        (MIG.to_owned(), format!("1 {B} 9 -")),
    ] {
        assert_eq!(told(&other(&id), &gpus), Some(expected), "{id}");
    }
}

#[test]
fn the_devices_of_a_claim() {
    let gpus = gpus([0, 1]);
    for (name, cdi, expected) in [
        (
            "gpu-1",
            vec!["k8s.gpu.nvidia.com/device=gpu-1".to_owned()],
            format!("1 {B} - -"),
        ),
        ("gpu-0", vec![], format!("0 {A} - -")),
        (
            "gpu-0-mig-1g10gb-15-0",
            vec![],
            format!("0 {A} - gpu-0-mig-1g10gb-15-0"),
        ),
        (
            "gpu-1-mig-15-0-1",
            vec![],
            format!("1 {B} - gpu-1-mig-15-0-1"),
        ),
        // A CDI name that is a UUID is better than any number.
        (
            "gpu-0",
            vec![format!("k8s.gpu.nvidia.com/device={B}")],
            format!("1 {B} - -"),
        ),
        (
            "gpu-0",
            vec![format!("nvidia.com/gpu={MIG}")],
            format!("1 {B} 9 -"),
        ),
        (
            "gpu-7",
            vec![format!("nvidia.com/gpu={OTHER}")],
            format!("- {OTHER} - -"),
        ),
        // Two of them are not.
        (
            "gpu-0",
            vec![
                format!("nvidia.com/gpu={B}"),
                format!("nvidia.com/gpu={OTHER}"),
            ],
            format!("0 {A} - -"),
        ),
        ("gpu-2", vec![], "- - - gpu-2".to_owned()),
        (
            "gpu-2-mig-1g10gb-15-0",
            vec![],
            "- - - gpu-2-mig-1g10gb-15-0".to_owned(),
        ),
        ("gpu-vfio-0", vec![], "- - - gpu-vfio-0".to_owned()),
        (
            "gpu-",
            vec!["=".to_owned(), "x".to_owned()],
            "- - - gpu-".to_owned(),
        ),
        ("", vec![], "- - - ".to_owned()),
    ] {
        let cdi: Vec<&str> = cdi.iter().map(String::as_str).collect();
        assert_eq!(
            told(&claimed(name, &cdi), &gpus),
            Some(expected),
            "{name} {cdi:?}"
        );
    }
}

#[test]
fn a_number_that_may_mean_two_gpus_means_none() {
    let swapped = gpus([1, 0]);
    for device in [
        plugin("0"),
        claimed("gpu-0", &[]),
        claimed("gpu-0-mig-15-0-1", &[]),
    ] {
        assert!(
            told(&device, &swapped).unwrap().starts_with("- - - "),
            "{device:?}"
        );
    }
    // These are numbers of device files and nothing else.
    let by_minor = format!("1 {B} - ");
    for device in [plugin("nvidia0"), claimed("gpu-0-mig-1g10gb-15-0", &[])] {
        assert!(
            told(&device, &swapped).unwrap().starts_with(&by_minor),
            "{device:?}"
        );
    }
}

#[test]
fn a_lost_gpu_whose_index_another_has_got_is_not_taken_for_it() {
    // The first was lost: it keeps the index 0, which the second has now.
    let mut gpus = gpus([0, 1]);
    gpus[1].index = 0;
    for device in [
        claimed("gpu-0", &[]),
        claimed("gpu-1", &[]),
        plugin("0"),
        plugin("1"),
    ] {
        assert!(
            told(&device, &gpus).unwrap().starts_with("- - - "),
            "{device:?}"
        );
    }
    assert_eq!(told(&plugin("nvidia1"), &gpus), Some(format!("0 {B} - -")));
}

#[test]
fn all_who_share_a_gpu_are_there_and_two_shares_of_one_container_are_one() {
    let gpus = gpus([0, 1]);
    let pods = [
        pod(
            "llm-0",
            "server",
            vec![plugin(&format!("{A}::0")), plugin(&format!("{A}::1"))],
        ),
        pod("llm-1", "server", vec![plugin(&format!("{A}::2"))]),
        pod(
            "llm-1",
            "sidecar",
            vec![plugin(&format!("{A}::3")), plugin(B)],
        ),
    ];
    let told: Vec<_> = holdings(&pods, &gpus)
        .into_iter()
        .map(|h| format!("{} {} {}", h.pod, h.container, h.place.uuid.unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            format!("llm-0 server {A}"),
            format!("llm-1 server {A}"),
            format!("llm-1 sidecar {A}"),
            format!("llm-1 sidecar {B}"),
        ]
    );
}

fn any_id() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "(MIG-)?(GPU-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(::|-|/)?[0-9/]{0,4}",
        "nvidia[0-9]{0,11}(/gi[0-9]{0,11})?(/vgpu[0-9]{0,3})?",
        "gpu-[0-9]{0,11}(-mig-[0-9a-z]{0,5}-?[0-9]{0,3}-?[0-9]{0,3})?",
        "[0-9]{0,12}",
    ]
}

fn any_device() -> impl Strategy<Value = Device> {
    prop_oneof![
        (any::<bool>(), any_id()).prop_map(|(of_gpus, id)| Device::Plugin { of_gpus, id }),
        (any_id(), prop::collection::vec(any_id(), 0..3)).prop_map(|(name, cdi)| Device::Claimed {
            name,
            cdi: cdi
                .iter()
                .map(|id| format!("nvidia.com/gpu={id}"))
                .collect(),
        }),
    ]
}

proptest! {
    /// Whatever the names are: nothing panics, and no device becomes a GPU whose number or UUID it does not have.
    #[test]
    fn no_name_panics_or_becomes_a_gpu_that_it_does_not_name(
        devices in prop::collection::vec(any_device(), 0..8),
        minors in [0_u32..4, 0_u32..4],
    ) {
        let gpus = gpus(minors);
        let pods = [pod("p", "c", devices.clone())];
        prop_assert!(holdings(&pods, &gpus).len() <= devices.len());
        for device in &devices {
            let Some(place) = place(device, &gpus) else {
                continue;
            };
            prop_assert!(place.uuid.is_some() || place.device.is_some());
            let names = match device {
                Device::Plugin { id, .. } => id.clone(),
                Device::Claimed { name, cdi } => format!("{name} {}", cdi.join(" ")),
            };
            if let Some(gpu) = gpus.iter().find(|gpu| Some(gpu.uuid) == place.uuid) {
                let named = [gpu.index, gpu.minor].map(|number| names.contains(&number.to_string()));
                let by_instance = gpu.instances.iter().any(|known| names.contains(known.uuid));
                prop_assert!(named.contains(&true) || by_instance || names.contains(gpu.uuid), "{names}");
                prop_assert_eq!(place.index, Some(gpu.index));
            }
        }
    }
}
