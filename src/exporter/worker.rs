//! The threads that ask for a GPU, one for each.

use super::collectors::Collector;
use super::sampler::Shared;
use super::schedule::Schedule;
use crate::nvml::{Driver, DriverError, Sample};
use jiff::Timestamp;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A group that was asked for: how long it took, and whether it was answered.
pub(super) type Asked = (Collector, Duration, bool);

/// Looks after the GPU at one index, for as long as the process lives.
pub(super) fn work(shared: &Shared, index: u32) {
    // The session in which the GPU told who it is.
    let mut identified = None;
    let mut schedule = Schedule::default();
    loop {
        if let Some(session) = shared.session_of(index) {
            let began = Instant::now();
            shared.state().gpu_asked(index, began);
            let identity =
                (identified != Some(session.number)).then(|| session.driver.identity(index));
            let goes_on = || shared.state().gpu_asked_on(index, Instant::now());
            let mut groups = Vec::new();
            let result = match identity {
                Some(Err(error)) => Err(error),
                identity => {
                    if let Some(Ok(identity)) = identity {
                        let mut state = shared.state();
                        // An answer that took so long that there is another session by now may be about another GPU.
                        if state.sessions == session.number {
                            state.gpu_identified(identity);
                        }
                        drop(state);
                        schedule.begin_anew();
                        goes_on();
                    }
                    let due = schedule.due(&shared.pace().collectors, began);
                    schedule.asked(&due, began);
                    ask(session.driver.as_ref(), index, &due, goes_on, &mut groups)
                }
            };
            identified = result.is_ok().then_some(session.number);
            drop(session);
            let (now, at) = (Instant::now(), Timestamp::now());
            let mut state = shared.state();
            state.gpu_answered(index, result, now, at);
            state.groups_answered(index, &groups, now, at);
        }
        if !shared.wait(shared.pace().interval()) {
            return;
        }
    }
}

/// Asks for a GPU's health, and for the groups that are due; tells before each group.
fn ask(
    driver: &dyn Driver,
    index: u32,
    due: &[Collector],
    goes_on: impl Fn(),
    groups: &mut Vec<Asked>,
) -> Result<Sample, DriverError> {
    let mut sample = driver.sample(index)?;
    for group in due {
        goes_on();
        let began = Instant::now();
        let answer = ask_group(driver, index, *group, &mut sample);
        groups.push((*group, began.elapsed(), answer.is_ok()));
        answer?;
    }
    Ok(sample)
}

fn ask_group(
    driver: &dyn Driver,
    index: u32,
    group: Collector,
    sample: &mut Sample,
) -> Result<(), DriverError> {
    let failures = match group {
        Collector::Usage => {
            let (usage, failures) = driver.usage(index)?;
            sample.usage = Some(Arc::new(usage));
            failures
        }
        Collector::Nvlink => {
            let (links, failures) = driver.links(index)?;
            sample.links = Some(Arc::new(links));
            failures
        }
        Collector::Mig => {
            let (instances, failures) = driver.instances(index)?;
            sample.instances = Some(Arc::new(instances));
            failures
        }
        Collector::Details => {
            let (details, failures) = driver.details(index)?;
            sample.details = Some(Arc::new(details));
            failures
        }
        Collector::Nvml
        | Collector::NvmlEvents
        | Collector::KernelLog
        | Collector::PciBus
        | Collector::PodResources => Vec::new(),
    };
    sample.failures.extend(failures);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::nvml::{CallFailure, Details, Identity, Instance, Links, Usage};
    use std::cell::Cell;

    /// A GPU that answers everything but what it is told to refuse.
    struct Answering {
        refused: Option<Collector>,
    }

    impl Answering {
        fn answer<T: Default>(
            &self,
            group: Collector,
        ) -> Result<(T, Vec<CallFailure>), DriverError> {
            if self.refused == Some(group) {
                return Err(DriverError::GpuLost);
            }
            let failure = CallFailure {
                call: group.name(),
                code: "unknown",
            };
            Ok((T::default(), vec![failure]))
        }
    }

    impl Driver for Answering {
        fn version(&self) -> Result<String, DriverError> {
            Ok("1".to_owned())
        }

        fn gpu_count(&self) -> Result<u32, DriverError> {
            Ok(1)
        }

        fn identity(&self, _: u32) -> Result<Identity, DriverError> {
            Err(DriverError::GpuLost)
        }

        fn sample(&self, _: u32) -> Result<Sample, DriverError> {
            Ok(Sample::default())
        }

        fn usage(&self, _: u32) -> Result<(Usage, Vec<CallFailure>), DriverError> {
            self.answer(Collector::Usage)
        }

        fn links(&self, _: u32) -> Result<(Links, Vec<CallFailure>), DriverError> {
            self.answer(Collector::Nvlink)
        }

        fn instances(&self, _: u32) -> Result<(Vec<Instance>, Vec<CallFailure>), DriverError> {
            self.answer(Collector::Mig)
        }

        fn details(&self, _: u32) -> Result<(Details, Vec<CallFailure>), DriverError> {
            self.answer(Collector::Details)
        }
    }

    #[test]
    fn what_is_not_due_is_not_asked_for() {
        let driver = Answering { refused: None };
        let mut groups = Vec::new();
        let nothing = ask(&driver, 0, &[], || {}, &mut groups).unwrap();
        assert_eq!((nothing, groups.len()), (Sample::default(), 0));
        for due in crate::exporter::schedule::GROUPS {
            let mut groups = Vec::new();
            let sample = ask(&driver, 0, &[due], || {}, &mut groups).unwrap();
            let is = |group| due == group;
            assert_eq!(sample.usage.is_some(), is(Collector::Usage));
            assert_eq!(sample.links.is_some(), is(Collector::Nvlink));
            assert_eq!(sample.instances.is_some(), is(Collector::Mig));
            assert_eq!(sample.details.is_some(), is(Collector::Details));
            let failures: Vec<_> = sample.failures.iter().map(|failure| failure.call).collect();
            assert_eq!(failures, [due.name()], "what failed is told");
            assert!(matches!(groups[..], [(group, _, true)] if group == due));
        }
    }

    #[test]
    fn a_group_that_fails_ends_the_asking_and_is_named() {
        let driver = Answering {
            refused: Some(Collector::Nvlink),
        };
        let due = crate::exporter::schedule::GROUPS;
        let (mut groups, begun) = (Vec::new(), Cell::new(0));
        let result = ask(&driver, 0, &due, || begun.set(begun.get() + 1), &mut groups);
        assert_eq!(result, Err(DriverError::GpuLost));
        let groups: Vec<_> = groups.iter().map(|(group, _, ok)| (*group, *ok)).collect();
        assert_eq!(
            groups,
            [(Collector::Usage, true), (Collector::Nvlink, false)]
        );
        assert_eq!(begun.get(), 2, "each group has its own deadline");
    }
}
