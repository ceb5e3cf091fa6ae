//! The form of the file: its keys and the kinds of their values.

use super::error::ScenarioError;
use crate::yaml::{self, Place};
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, de::Error as _};
use serde_saphyr::{Error, Spanned};
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Everything that the file may hold.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) gpus: Spanned<Gpus>,
    pub(super) model: Option<String>,
    pub(super) memory_gib: Option<Spanned<u64>>,
    pub(super) links: Option<Spanned<u32>>,
    pub(super) driver_version: Option<String>,
    pub(super) cuda_version: Option<String>,
    pub(super) expected: Option<Spanned<u32>>,
    pub(super) repeat: Option<Spanned<Time>>,
    #[serde(default)]
    pub(super) timeline: Vec<Spanned<Step>>,
}

/// How many GPUs, or which.
#[derive(Debug)]
pub(super) enum Gpus {
    Count(u64),
    List(Vec<Spanned<Gpu>>),
}

/// One GPU; what it does not say is made up.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Gpu {
    pub(super) model: Option<String>,
    pub(super) uuid: Option<String>,
    pub(super) pci_bus_id: Option<String>,
    pub(super) serial: Option<String>,
    pub(super) vbios: Option<String>,
    pub(super) memory_gib: Option<Spanned<u64>>,
    pub(super) links: Option<Spanned<u32>>,
    pub(super) instances: Vec<Spanned<Instance>>,
}

/// One MIG instance.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Instance {
    pub(super) gpu_instance: u32,
    pub(super) compute_instance: Option<u32>,
    pub(super) profile: Option<String>,
    pub(super) uuid: Option<String>,
}

/// One step of the timeline: when, which GPU, and one key that says what happens.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    pub(super) at: Time,
    pub(super) gpu: Option<u64>,
    // What happens.
    pub(super) xid: Option<u32>,
    pub(super) line: Option<String>,
    pub(super) lost: Option<bool>,
    pub(super) vanish: Option<bool>,
    pub(super) back: Option<bool>,
    pub(super) hang: Option<Hang>,
    pub(super) ecc: Option<Ecc>,
    pub(super) remapped_rows: Option<Rows>,
    pub(super) temperature: Option<Rise>,
    pub(super) memory_temperature: Option<Rise>,
    pub(super) pcie_replays: Option<Rise>,
    pub(super) recovery_action: Option<Recovery>,
    pub(super) throttle: Option<Vec<String>>,
    pub(super) link_down: Option<u32>,
    pub(super) link_up: Option<u32>,
    pub(super) link_errors: Option<LinkErrors>,
    pub(super) driver: Option<Driver>,
    // More about an Xid.
    pub(super) text: Option<String>,
    pub(super) pid: Option<u32>,
    pub(super) name: Option<String>,
    pub(super) gpu_instance: Option<u32>,
    pub(super) compute_instance: Option<u32>,
    pub(super) source: Option<Source>,
}

/// A number that is reached in a time.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rise {
    pub(super) to: u64,
    #[serde(default)]
    pub(super) over: Time,
}

/// Errors of either kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ecc {
    pub(super) corrected: Option<Rise>,
    pub(super) uncorrected: Option<Rise>,
}

/// Errors of one kind on one NVLink.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkErrors {
    pub(super) link: u32,
    pub(super) kind: String,
    pub(super) to: u64,
    #[serde(default)]
    pub(super) over: Time,
}

/// Row remapping; what is left out stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rows {
    pub(super) corrected: Option<u32>,
    pub(super) uncorrected: Option<u32>,
    pub(super) pending: Option<bool>,
    pub(super) failed: Option<bool>,
}

/// Who tells of an Xid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Source {
    /// The kernel log and NVML.
    #[default]
    Both,
    /// The kernel log alone.
    Log,
    /// NVML alone.
    Nvml,
}

/// What the driver asks for, by NVML's names (`nvmlDeviceGpuRecoveryAction_t`).
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Recovery {
    None = 0,
    GpuReset = 1,
    NodeReboot = 2,
    DrainP2p = 3,
    DrainAndReset = 4,
}

/// Whether the driver is there, and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Driver {
    Unloaded,
    Loaded,
    Hung,
}

/// A duration such as `500ms`, `30s` or `1m30s`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Time(pub(super) Duration);

/// For how long calls hang.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hang {
    /// `true` or `false`.
    Open(bool),
    For(Duration),
}

const DURATION: &str = "a duration such as 500ms, 30s or 1m30s";

fn duration<E: de::Error>(text: &str) -> Result<Duration, E> {
    let parsed: Option<jiff::SignedDuration> = text.parse().ok();
    parsed
        .and_then(|parsed| Duration::try_from(parsed).ok())
        .ok_or_else(|| E::custom(format_args!("`{text}` is not {DURATION}")))
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        duration(&text).map(Self)
    }
}

impl<'de> Deserialize<'de> for Hang {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.as_str() {
            "true" => Ok(Self::Open(true)),
            "false" => Ok(Self::Open(false)),
            text => match duration::<D::Error>(text) {
                Ok(time) => Ok(Self::For(time)),
                Err(_) => Err(D::Error::custom(format_args!(
                    "`{text}` is neither true nor {DURATION}"
                ))),
            },
        }
    }
}

impl<'de> Deserialize<'de> for Gpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountOrList;

        impl<'de> Visitor<'de> for CountOrList {
            type Value = Gpus;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("how many GPUs there are, or a list of them")
            }

            fn visit_u64<E: de::Error>(self, count: u64) -> Result<Gpus, E> {
                Ok(Gpus::Count(count))
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Gpus, E> {
                // No number of GPUs, as 0 is not; it is refused with it.
                Ok(Gpus::Count(u64::try_from(count).unwrap_or(0)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Gpus, A::Error> {
                let mut gpus = Vec::new();
                while let Some(gpu) = list.next_element()? {
                    gpus.push(gpu);
                }
                Ok(Gpus::List(gpus))
            }
        }

        deserializer.deserialize_any(CountOrList)
    }
}

impl File {
    /// Reads the text of the file at a path.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, ScenarioError> {
        serde_saphyr::from_str(text).map_err(|error| ScenarioError::Syntax {
            place: Place::new(path, error.location()),
            problem: problem(&error),
        })
    }
}

/// What is wrong; a scenario holds no secrets.
fn problem(error: &Error) -> String {
    yaml::mistake(error).unwrap_or_else(|| match error.without_snippet() {
        Error::SerdeUnknownVariant {
            variant, expected, ..
        } => format!(
            "`{variant}` is none of the values that are known here: {}",
            expected.join(", ")
        ),
        _ => yaml::plain_message(error),
    })
}
