//! The stories that can be told.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

/// One story.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// The whole loop.
    #[default]
    #[serde(rename = "xid-79")]
    #[value(name = "xid-79")]
    Xid79,
    /// A PodDisruptionBudget holds the drain.
    PdbBlocks,
    /// A `pauseIf` guard holds the fault.
    GuardPauses,
    /// A `stopIf` guard latches.
    StopGuard,
    /// A pod stays.
    EvictionFails,
    /// Xid 31.
    ApplicationError,
    /// Prometheus is gone while health is being proven.
    PrometheusDown,
    /// The leader dies in the middle of a drain.
    ControllerCrash,
}

impl Scenario {
    /// Every story.
    pub const ALL: [Self; 8] = [
        Self::Xid79,
        Self::PdbBlocks,
        Self::GuardPauses,
        Self::StopGuard,
        Self::EvictionFails,
        Self::ApplicationError,
        Self::PrometheusDown,
        Self::ControllerCrash,
    ];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Xid79 => "xid-79",
            Self::PdbBlocks => "pdb-blocks",
            Self::GuardPauses => "guard-pauses",
            Self::StopGuard => "stop-guard",
            Self::EvictionFails => "eviction-fails",
            Self::ApplicationError => "application-error",
            Self::PrometheusDown => "prometheus-down",
            Self::ControllerCrash => "controller-crash",
        }
    }

    /// What happens in it, in one sentence.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Self::Xid79 => {
                "A GPU falls off the bus: its node is cordoned, the GPU pods move, and the node comes back once health is proven."
            }
            Self::PdbBlocks => {
                "A PodDisruptionBudget allows no disruption: the drain waits until a person adds a replica, and no attempt is spent."
            }
            Self::GuardPauses => {
                "A service suffers: a pauseIf guard holds the fault, and lets it act once the service is well."
            }
            Self::StopGuard => {
                "Capacity is too low: a stopIf guard stops the policy, the cordon is undone, and a person resumes."
            }
            Self::EvictionFails => {
                "A pod hangs while it ends: the step times out, the fault is Failed, and the node stays cordoned for people."
            }
            Self::ApplicationError => {
                "An application makes a mistake (Xid 31): it is counted, and nothing is isolated."
            }
            Self::PrometheusDown => {
                "Prometheus is gone while health is being proven: nothing is given back until it answers and the proof is made anew."
            }
            Self::ControllerCrash => {
                "The controller dies after its first eviction: another takes over, and no pod is evicted twice."
            }
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_has_one_name_everywhere() {
        for scenario in Scenario::ALL {
            let value = scenario.to_possible_value().unwrap();
            assert_eq!(value.get_name(), scenario.name());
            assert_eq!(
                serde_json::to_value(scenario).unwrap(),
                serde_json::json!(scenario.name())
            );
        }
        assert_eq!(Scenario::value_variants(), Scenario::ALL);
        assert_eq!(Scenario::default(), Scenario::Xid79);
    }
}
