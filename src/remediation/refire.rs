//! A rule that fires anew on a fault that is known already.

use jiff::Timestamp;

use super::draft::Draft;
use super::world::Fault;
use crate::api::GpuFaultStatus;
use crate::api::conditions;
use crate::api::fault_status::{Action, Outcome, Phase};

/// What a firing rule means for a fault that is known already.
#[derive(Clone, Debug, PartialEq)]
pub enum Refire {
    /// Nothing: the fault is there, or it is the same activation as before.
    Nothing,
    /// The node is being given back at this moment; ask again when that is over.
    Busy,
    /// A new activation: this is the status to write.
    Again(Box<GpuFaultStatus>),
}

/// What an activation does to the fault. It is a new one only if the rule has been silent in between: the same
/// activation, seen again after a restart or under other labels, never does anything.
///
/// A fault that had ended is reopened. One whose health is being proven has returned before it had recovered: its
/// steps are run again. One that has not got so far is simply still there.
pub fn refire(fault: &Fault, was_silent: bool, active_at: Timestamp, now: Timestamp) -> Refire {
    let status = &fault.status;
    let is_new = was_silent || status.timeline.rule_silent_at.is_some();
    let known = status.active_at.is_some_and(|known| active_at <= known);
    if fault.deleting || status.occurrence == 0 || known || !is_new {
        return Refire::Nothing;
    }
    let mut draft = Draft::new(fault, now);
    match status.phase {
        Phase::Recovered | Phase::Cancelled => draft.reopen(active_at, "The rule fires again"),
        Phase::Handled | Phase::Recovering if draft.running(Action::Uncordon, None).is_some() => {
            return Refire::Busy;
        }
        Phase::Handled | Phase::Recovering => {
            draft.status.round += 1;
            draft.status.active_at = Some(active_at);
            draft.status.healthy_since = None;
            draft.status.timeline.rule_silent_at = None;
            for i in 0..draft.status.attempts.len() {
                if draft.status.attempts[i].outcome == Outcome::Running {
                    draft.finish(i, Outcome::Cancelled, "The fault has returned");
                }
            }
            let message =
                "The rule fires again before recovery was complete: the steps are run again";
            draft.condition(conditions::HEALTHY, Some(false), "Returned", message);
            draft.phase(Phase::Processing, "Returned", message);
        }
        _ => return Refire::Nothing,
    }
    Refire::Again(Box::new(draft.status))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use crate::api::fault_status::Timeline;
    use crate::api::{GpuFaultSpec, GpuFaultStatus};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn fault(phase: Phase, ended: Option<i64>) -> Fault {
        let spec = serde_json::json!({"nodeName": "a", "policyRef": {"name": "p"}});
        Fault {
            name: "f".into(),
            uid: "u".into(),
            generation: Some(1),
            created: at(90),
            deleting: false,
            retry_requested: false,
            spec: serde_json::from_value::<GpuFaultSpec>(spec).unwrap(),
            status: GpuFaultStatus {
                phase,
                occurrence: 1,
                round: 1,
                active_at: Some(at(100)),
                timeline: Timeline {
                    ended_at: ended.map(at),
                    ..Timeline::default()
                },
                ..GpuFaultStatus::default()
            },
        }
    }

    fn again(refire: Refire) -> GpuFaultStatus {
        match refire {
            Refire::Again(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_same_activation_never_reopens() {
        let ended = fault(Phase::Recovered, Some(200));
        assert_eq!(refire(&ended, true, at(100), at(300)), Refire::Nothing);
        // Another beginning, but no silence: other labels, or a process that has forgotten.
        assert_eq!(refire(&ended, false, at(250), at(300)), Refire::Nothing);
    }

    #[test]
    fn a_new_activation_reopens_what_has_ended() {
        for phase in [Phase::Recovered, Phase::Cancelled] {
            let status = again(refire(&fault(phase, Some(200)), true, at(250), at(251)));
            assert_eq!(
                (
                    status.phase,
                    status.occurrence,
                    status.active_at,
                    status.timeline.rule_silent_at
                ),
                (Phase::Pending, 2, Some(at(250)), None)
            );
        }
    }

    #[test]
    fn the_silence_may_have_been_written_down() {
        let mut ended = fault(Phase::Cancelled, Some(200));
        ended.status.timeline.rule_silent_at = Some(at(220));
        assert_eq!(again(refire(&ended, false, at(250), at(251))).occurrence, 2);
    }

    #[test]
    fn a_fault_that_returns_before_recovery_runs_its_steps_again() {
        let status = again(refire(
            &fault(Phase::Recovering, None),
            true,
            at(250),
            at(251),
        ));
        assert_eq!(
            (status.phase, status.occurrence, status.round),
            (Phase::Processing, 1, 2)
        );
    }

    #[test]
    fn while_the_node_is_given_back_it_is_asked_again_later() {
        let mut recovering = fault(Phase::Recovering, None);
        let mut draft = Draft::new(&recovering, at(240));
        draft.begin(Action::Uncordon, None);
        recovering.status = draft.status;
        assert_eq!(refire(&recovering, true, at(250), at(251)), Refire::Busy);
    }

    #[test]
    fn what_is_under_way_goes_on() {
        for phase in [Phase::Pending, Phase::Processing, Phase::Failed] {
            assert_eq!(
                refire(&fault(phase, None), true, at(250), at(251)),
                Refire::Nothing
            );
        }
    }
}
