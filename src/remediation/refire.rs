//! A rule that fires anew on a fault that is known already.

use jiff::Timestamp;

use super::draft::Draft;
use super::world::Fault;
use crate::api::GpuFaultStatus;
use crate::api::conditions;
use crate::api::fault_status::{Action, Outcome, Phase};

/// What a new activation does to the fault; `None`: nothing. The same activation, seen again, never does anything.
///
/// A fault that had ended is reopened. One whose health is being proven has returned before it had recovered: its
/// steps are run again. One that has not got so far is simply still there.
pub fn refire(fault: &Fault, active_at: Timestamp, now: Timestamp) -> Option<GpuFaultStatus> {
    let status = &fault.status;
    if fault.deleting
        || status.occurrence == 0
        || status.active_at.is_some_and(|known| active_at <= known)
    {
        return None;
    }
    let mut draft = Draft::new(fault, now);
    match status.phase {
        Phase::Recovered | Phase::Cancelled => {
            // An activation that began before the end belongs to what has ended.
            if status.timeline.ended_at.is_some_and(|end| active_at <= end) {
                return None;
            }
            draft.reopen(active_at, "The rule fires again");
        }
        Phase::Handled | Phase::Recovering if draft.running(Action::Uncordon, None).is_none() => {
            draft.status.round += 1;
            draft.status.active_at = Some(active_at);
            draft.status.healthy_since = None;
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
        _ => return None,
    }
    Some(draft.status)
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

    #[test]
    fn the_same_activation_never_reopens() {
        assert_eq!(
            refire(&fault(Phase::Recovered, Some(200)), at(100), at(300)),
            None
        );
        assert_eq!(
            refire(&fault(Phase::Recovered, Some(200)), at(150), at(300)),
            None
        );
    }

    #[test]
    fn a_new_activation_reopens_what_has_ended() {
        for phase in [Phase::Recovered, Phase::Cancelled] {
            let status = refire(&fault(phase, Some(200)), at(250), at(251)).unwrap();
            assert_eq!(
                (status.phase, status.occurrence, status.active_at),
                (Phase::Pending, 2, Some(at(250)))
            );
        }
    }

    #[test]
    fn a_fault_that_returns_before_recovery_runs_its_steps_again() {
        let status = refire(&fault(Phase::Recovering, None), at(250), at(251)).unwrap();
        assert_eq!(
            (status.phase, status.occurrence, status.round),
            (Phase::Processing, 1, 2)
        );
    }

    #[test]
    fn what_is_under_way_goes_on() {
        for phase in [Phase::Pending, Phase::Processing, Phase::Failed] {
            assert_eq!(refire(&fault(phase, None), at(250), at(251)), None);
        }
    }
}
