#![allow(clippy::unwrap_used)]
use super::super::messages::{CdiDevice, ClaimedDevice, Devices};
use super::*;
use proptest::prelude::*;

const GPU: &str = "GPU-00000000-1111-2222-3333-44444444aaaa";

fn plugin(resource: &str, ids: &[&str]) -> Devices {
    Devices {
        resource: resource.to_owned(),
        ids: ids.iter().map(|id| (*id).to_owned()).collect(),
    }
}

fn pod(name: &str, devices: Vec<Devices>, claims: Vec<Claim>) -> Pod {
    Pod {
        name: name.to_owned(),
        namespace: "inference".to_owned(),
        containers: vec![Container {
            name: "server".to_owned(),
            devices,
            claims,
        }],
    }
}

/// A field of the outermost message with a length.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    prost::encode_length_delimiter(bytes.len(), &mut field).unwrap();
    field.extend_from_slice(bytes);
    field
}

fn answer(pods: &[Pod]) -> Vec<u8> {
    let fields = pods.iter().map(|pod| field(1, &pod.encode_to_vec()));
    fields.collect::<Vec<_>>().concat()
}

#[test]
fn only_pods_with_devices_that_may_be_gpus_are_kept() {
    let bytes = answer(&[
        pod("web", vec![], vec![]),
        pod(
            "fuse",
            vec![plugin("example.com/fuse", &["fuse-1"])],
            vec![],
        ),
        pod(
            "llm",
            vec![
                plugin("nvidia.com/gpu", &[GPU, ""]),
                plugin("nvidia.com/hostdev", &["0000:3b:00.0"]),
                plugin("cpu", &["1"]),
            ],
            vec![],
        ),
    ]);
    let pods = decode(&bytes[..]).unwrap();
    let device = |of_gpus, id: &str| Device::Plugin {
        of_gpus,
        id: id.to_owned(),
    };
    let expected = PodDevices {
        namespace: "inference".to_owned(),
        name: "llm".to_owned(),
        containers: vec![ContainerDevices {
            name: "server".to_owned(),
            devices: vec![device(true, GPU), device(false, "0000:3b:00.0")],
        }],
    };
    assert_eq!(pods, [expected]);
    assert_eq!(decode(&b""[..]), Ok(Vec::new()));
}

/// As kubelets up to 1.36 at least write it: the second device of a claim has the CDI names of the first as well.
#[test]
fn each_device_of_a_claim_has_its_own_cdi_names_only() {
    let device = |driver: &str, name: &str, cdi: &[&str]| ClaimedDevice {
        cdi: cdi
            .iter()
            .map(|name| CdiDevice {
                name: (*name).to_owned(),
            })
            .collect(),
        driver: driver.to_owned(),
        name: name.to_owned(),
    };
    let claim = Claim {
        devices: vec![
            device("gpu.nvidia.com", "gpu-0", &["x/device=gpu-0"]),
            device(
                "gpu.nvidia.com",
                "gpu-1",
                &["x/device=gpu-0", "x/device=gpu-1"],
            ),
            device("compute-domain.nvidia.com", "channel-0", &["y/channel=0"]),
        ],
    };
    let pods = decode(&answer(&[pod("llm", vec![], vec![claim])])[..]).unwrap();
    let claimed = |name: &str, cdi: &str| Device::Claimed {
        name: name.to_owned(),
        cdi: vec![cdi.to_owned()],
    };
    assert_eq!(
        pods[0].containers[0].devices,
        [
            claimed("gpu-0", "x/device=gpu-0"),
            claimed("gpu-1", "x/device=gpu-1")
        ]
    );
}

#[test]
fn fields_of_a_later_version_are_skipped() {
    let with_gpu = answer(&[pod("llm", vec![plugin("nvidia.com/gpu", &[GPU])], vec![])]);
    let mut bytes = vec![2 << 3, 0x96, 1];
    bytes.extend([3 << 3 | 1, 1, 2, 3, 4, 5, 6, 7, 8]);
    bytes.extend(field(4, b"later"));
    bytes.extend([5 << 3 | 5, 1, 2, 3, 4]);
    bytes.extend(&with_gpu);
    assert_eq!(decode(&bytes[..]), decode(&with_gpu[..]));
    assert_eq!(decode(&bytes[..]).unwrap().len(), 1);
}

#[test]
fn half_an_answer_is_none() {
    let bytes = answer(&[pod("llm", vec![plugin("nvidia.com/gpu", &[GPU])], vec![])]);
    for end in 1..bytes.len() {
        assert_eq!(
            decode(&bytes[..end]),
            Err(AnswerError::NotProtobuf),
            "{end}"
        );
    }
    for group in [1 << 3 | 3, 1 << 3 | 4, 6, 7] {
        assert_eq!(decode(&[group][..]), Err(AnswerError::NotProtobuf));
    }
    let not_a_pod = decode(&field(1, &[0xff])[..]);
    assert!(
        matches!(not_a_pod, Err(AnswerError::Pod(_))),
        "{not_a_pod:?}"
    );
    let not_text = field(1, &field(1, &[0xff]));
    assert!(matches!(decode(&not_text[..]), Err(AnswerError::Pod(_))));
}

#[test]
fn what_no_kubelet_says_is_refused() {
    let length = LARGEST_POD + 1;
    let large = field(1, &vec![0; length]);
    assert_eq!(decode(&large[..]), Err(AnswerError::LargePod(length)));
    let many = |count: usize| {
        let pods = vec![pod("p", vec![plugin("nvidia.com/gpu", &["a"; 64])], vec![]); count];
        decode(&answer(&pods)[..])
    };
    assert_eq!(many(64).unwrap().len(), 64);
    assert_eq!(many(65), Err(AnswerError::TooMany));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = decode(&bytes[..]);
        let _ = decode(&field(1, &bytes)[..]);
        let _ = decode(&field(1, &field(3, &bytes))[..]);
        let _ = decode(&field(1, &field(3, &field(2, &bytes)))[..]);
        let _ = decode(&field(1, &field(3, &field(5, &bytes)))[..]);
    }

    #[test]
    fn what_was_written_is_read_back(
        names in prop::collection::vec(("[a-z0-9-]{1,20}", prop::collection::vec("[!-~]{1,50}", 1..4)), 0..5),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let pods: Vec<_> = (names.iter())
            .map(|(name, ids)| {
                let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                pod(name, vec![plugin("nvidia.com/gpu", &ids)], vec![])
            })
            .collect();
        let mut bytes = answer(&pods);
        let read = decode(&bytes[..]).unwrap();
        prop_assert_eq!(read.len(), names.len());
        for (pod, (name, ids)) in read.iter().zip(&names) {
            prop_assert_eq!(&pod.name, name);
            prop_assert_eq!(pod.containers[0].devices.len(), ids.len());
        }
        // One wrong byte in it, and still nothing panics.
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = decode(&bytes[..]);
        }
    }
}
