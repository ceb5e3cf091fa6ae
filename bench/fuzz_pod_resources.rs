//! Feeds the decoder of the kubelet's answers with inputs that no kubelet writes, for as long as it is told to. It ends with an
//! error on the first input that panics, takes more memory than an answer may, or gives what an answer cannot have.
//!
//! ```sh
//! cargo run --release --example fuzz-pod-resources -- --minutes 10 --seed 1
//! ```
#![allow(clippy::unwrap_used)]

mod counted;

use clap::Parser;
use counted::{IN_USE, PEAK};
use gpu_remediator::kubernetes::pod_resources::{AnswerError, Device, decode};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What decoding may take at most, however the input is made: a pod of the largest size that consists of empty messages.
const MOST_MEMORY: usize = 32 * 1024 * 1024;
/// Larger inputs than this say nothing new: pods are decoded one by one.
const LARGEST_INPUT: usize = 1024 * 1024;

#[derive(Parser)]
struct Args {
    /// How long
    #[arg(long, default_value = "10")]
    minutes: f64,
    /// The same seed makes the same inputs
    #[arg(long, default_value = "1")]
    seed: u64,
}

/// A field with a length.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    prost::encode_length_delimiter(bytes.len(), &mut field).unwrap();
    field.extend_from_slice(bytes);
    field
}

/// The path of fields from the answer to the innermost message, such as pod, container, devices, id.
fn nested(path: &[u8], bytes: Vec<u8>) -> Vec<u8> {
    let outwards = path.iter().rev();
    outwards.fold(bytes, |bytes, number| field(*number, &bytes))
}

/// Answers as a kubelet writes them.
fn good_answers() -> Vec<Vec<u8>> {
    let uuid = b"GPU-00000000-0000-4000-8000-0000000000f0::3";
    let plugin = [field(1, b"nvidia.com/gpu"), field(2, uuid), field(3, &[])].concat();
    let claimed = [
        field(1, &field(1, b"k8s.gpu.nvidia.com/device=gpu-0")),
        field(2, b"gpu.nvidia.com"),
        field(3, b"node-1"),
        field(4, b"gpu-0"),
    ]
    .concat();
    let claim = [
        field(2, b"claim"),
        field(3, b"inference"),
        field(4, &claimed),
    ]
    .concat();
    let container = [
        field(1, b"server"),
        field(2, &plugin),
        vec![3 << 3, 0x96, 1],
        field(4, &field(1, b"memory")),
        field(5, &claim),
    ]
    .concat();
    let pod = [
        field(1, b"llm-0"),
        field(2, b"inference"),
        field(3, &container),
    ]
    .concat();
    let one = field(1, &pod);
    vec![one.repeat(20), one, field(1, &field(1, b"web")), Vec::new()]
}

const PATHS: [&[u8]; 7] = [
    &[1],
    &[1, 3],
    &[1, 3, 2],
    &[1, 3, 2, 2],
    &[1, 3, 5],
    &[1, 3, 5, 4],
    &[1, 3, 5, 4, 1],
];

fn next_input(random: &mut ChaCha8Rng, good: &[Vec<u8>]) -> Vec<u8> {
    let mut input = good.choose(random).unwrap().clone();
    if random.random_ratio(1, 50) {
        // The shortest input for the most memory.
        let empty = field(random.random_range(1..6), &[]);
        input = nested(
            PATHS.choose(random).unwrap(),
            empty.repeat(random.random_range(1..140_000)),
        );
    }
    for _ in 0..random.random_range(0..8) {
        let at = random.random_range(0..=input.len());
        let end = random.random_range(at..=input.len().min(at + 64));
        match random.random_range(0..8) {
            0 => input.truncate(at),
            1 => input.insert(at, random.random()),
            2 => drop(input.drain(at..end)),
            3 => input.extend_from_within(at..end),
            4 => input = nested(PATHS.choose(random).unwrap(), input),
            5 => input.extend_from_slice(&good.choose(random).unwrap()[..]),
            _ if at < input.len() => {
                let interesting = [
                    0,
                    1,
                    0x0a,
                    0x12,
                    0x7f,
                    0x80,
                    0xff,
                    input[at] ^ (1 << (end % 8)),
                ];
                input[at] = *interesting.choose(random).unwrap();
            }
            _ => {}
        }
    }
    input.truncate(LARGEST_INPUT);
    input
}

/// Decodes it; a name for how that ended.
fn check(input: &[u8]) -> Result<&'static str, String> {
    let before = IN_USE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let answer = decode(input);
    let taken = PEAK.load(Ordering::Relaxed) - before;
    if taken > MOST_MEMORY {
        return Err(format!("{taken} bytes of memory"));
    }
    let pods = match answer {
        Ok(pods) => pods,
        Err(AnswerError::NotProtobuf) => return Ok("not Protobuf"),
        Err(AnswerError::Pod(_)) => return Ok("no pod"),
        Err(AnswerError::LargePod(_)) => return Ok("large pod"),
        Err(AnswerError::TooMany) => return Ok("too many"),
    };
    let containers = || pods.iter().flat_map(|pod| &pod.containers);
    let devices: usize = containers().map(|container| container.devices.len()).sum();
    let nameless = |device: &Device| matches!(device, Device::Plugin { id, .. } if id.is_empty());
    if devices > 4096 || containers().any(|container| container.devices.iter().any(nameless)) {
        return Err("devices that cannot be".to_owned());
    }
    Ok(if pods.is_empty() { "no GPU" } else { "GPUs" })
}

fn main() -> std::process::ExitCode {
    let args = Args::parse();
    let mut random = ChaCha8Rng::seed_from_u64(args.seed);
    let good = good_answers();
    let mut ends: BTreeMap<&'static str, u64> = BTreeMap::new();
    let until = Instant::now() + Duration::from_secs_f64(args.minutes * 60.0);
    let mut most = 0;
    while Instant::now() < until {
        let input = next_input(&mut random, &good);
        // A panic has said where; this says with what.
        let checked = std::panic::catch_unwind(|| check(&input));
        most = most.max(PEAK.load(Ordering::Relaxed));
        match checked.unwrap_or(Err("a panic".to_owned())) {
            Ok(end) => *ends.entry(end).or_default() += 1,
            Err(wrong) => {
                eprintln!("{wrong} with seed {} and the input {input:02x?}", args.seed);
                return std::process::ExitCode::FAILURE;
            }
        }
    }
    let inputs: u64 = ends.values().sum();
    println!(
        "{inputs} inputs in {} min with seed {}: {ends:?}",
        args.minutes, args.seed
    );
    println!("no panic; at most {} KiB in use", most / 1024);
    std::process::ExitCode::SUCCESS
}
