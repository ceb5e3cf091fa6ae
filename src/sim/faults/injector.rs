//! When which fault is injected.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::time::Instant;

use super::asked::Asked;
use super::kinds::{CallFault, Fault, FrameFault, QueryFault};

/// A time in which one kind of fault is injected.
#[derive(Clone, Debug, PartialEq)]
pub struct Spell {
    /// From when on, since the injector was made.
    pub from: Duration,
    /// Until when.
    pub until: Duration,
    /// What.
    pub fault: Fault,
    /// Into which share of what it may hit, from 0 to 1.
    pub share: f64,
    /// Chooses them. Each spell has a seed of its own, so that taking one away changes no other.
    pub seed: u64,
}

/// A fault of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneShot {
    /// Which client.
    pub actor: String,
    /// Which of its calls, counted from 1.
    pub call: u64,
    /// What.
    pub fault: CallFault,
}

/// Injects faults by a plan. Clones are the same injector.
#[derive(Clone)]
pub struct Injector {
    shared: Arc<Shared>,
}

struct Shared {
    began: Instant,
    plan: Mutex<Plan>,
}

struct Plan {
    spells: Vec<(Spell, ChaCha8Rng)>,
    one_shots: Vec<OneShot>,
    injected: u64,
    told: Vec<(Duration, String)>,
}

impl Injector {
    /// One that begins to count the time now.
    #[must_use]
    pub fn new(spells: Vec<Spell>, one_shots: Vec<OneShot>) -> Self {
        let spells = spells
            .into_iter()
            .map(|spell| {
                let generator = ChaCha8Rng::seed_from_u64(spell.seed);
                (spell, generator)
            })
            .collect();
        let plan = Plan {
            spells,
            one_shots,
            injected: 0,
            told: Vec::new(),
        };
        Self {
            shared: Arc::new(Shared {
                began: Instant::now(),
                plan: Mutex::new(plan),
            }),
        }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        let plan = &self.shared.plan;
        plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many faults have been injected.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.plan().injected
    }

    /// What has been injected since the last time, and when.
    #[must_use]
    pub fn take_told(&self) -> Vec<(Duration, String)> {
        std::mem::take(&mut self.plan().told)
    }

    pub(super) fn for_call(&self, actor: &str, number: u64, asked: &Asked) -> Option<CallFault> {
        let shot = self
            .plan()
            .one_shots
            .iter()
            .find(|s| s.call == number && s.actor == actor && s.fault.may_hit(asked))
            .map(|s| s.fault);
        let told = |fault: &CallFault| {
            let name = asked.name.as_deref().unwrap_or_default();
            let sub = asked.subresource.as_deref().unwrap_or_default();
            format!(
                "{fault:?} on {:?} {} {name} {sub} of {actor}",
                asked.verb, asked.resource
            )
        };
        if let Some(fault) = shot {
            self.tell(told(&fault));
            return Some(fault);
        }
        self.draw(
            |fault| match fault {
                Fault::Call(fault) if fault.may_hit(asked) => Some(fault),
                _ => None,
            },
            told,
        )
    }

    pub(super) fn for_frame(&self, actor: &str) -> Option<FrameFault> {
        self.draw(
            |fault| match fault {
                Fault::Frame(fault) => Some(fault),
                _ => None,
            },
            |fault| format!("{fault:?} on a watch of {actor}"),
        )
    }

    pub(super) fn for_query(&self, actor: &str) -> Option<QueryFault> {
        self.draw(
            |fault| match fault {
                Fault::Query(fault) => Some(fault),
                _ => None,
            },
            |fault| format!("{fault:?} on a query of {actor}"),
        )
    }

    /// A number that chooses among possibilities of a fault that hits.
    pub(super) fn choose(&self, range: std::ops::Range<u64>) -> u64 {
        let mut plan = self.plan();
        match plan.spells.first_mut() {
            Some((_, generator)) => generator.random_range(range),
            None => range.start,
        }
    }

    fn tell(&self, what: String) {
        let at = self.shared.began.elapsed();
        let mut plan = self.plan();
        plan.injected += 1;
        plan.told.push((at, what));
    }

    fn draw<F>(
        &self,
        wanted: impl Fn(Fault) -> Option<F>,
        told: impl Fn(&F) -> String,
    ) -> Option<F> {
        let now = self.shared.began.elapsed();
        let mut hit = None;
        {
            let mut plan = self.plan();
            for (spell, generator) in &mut plan.spells {
                if now < spell.from || now >= spell.until {
                    continue;
                }
                if let Some(fault) = wanted(spell.fault)
                    && generator.random_bool(spell.share.clamp(0.0, 1.0))
                    && hit.is_none()
                {
                    hit = Some(fault);
                }
            }
        }
        if let Some(fault) = &hit {
            self.tell(told(fault));
        }
        hit
    }
}
