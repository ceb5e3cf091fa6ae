//! Leadership by a Lease, after client-go: expiry is measured on our own monotonic clock from the moment at which a
//! change of the record was *seen*, never by comparing wall clocks. A leader that cannot renew stops acting first and
//! says so afterwards.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::clients::ApiError;
use crate::clock::Clock;

/// Where the Lease is and how long it holds.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are; must differ between processes.
    pub identity: String,
    /// How long others wait after our last sign of life.
    pub duration: Duration,
    /// How long a leader that cannot renew goes on acting; shorter than `duration`.
    pub renew_deadline: Duration,
    /// How often the Lease is looked at, and renewed.
    pub retry_period: Duration,
}

/// The settings contradict each other.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The deadline must leave room.
    #[error(
        "the lease duration ({duration:?}) must be longer than the renew deadline ({deadline:?})"
    )]
    DeadlineTooLong {
        /// `duration`.
        duration: Duration,
        /// `renew_deadline`.
        deadline: Duration,
    },
    /// There must be several tries within the deadline.
    #[error(
        "the renew deadline ({deadline:?}) must be longer than twice the retry period ({period:?})"
    )]
    PeriodTooLong {
        /// `renew_deadline`.
        deadline: Duration,
        /// `retry_period`.
        period: Duration,
    },
    /// The Lease holds whole seconds.
    #[error("the lease duration ({0:?}) must be a whole number of seconds, at least one")]
    TooShort(Duration),
}

/// We are not the leader, or cannot be sure of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the leader")]
pub struct NotLeader;

/// A term of leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Term {
    transitions: i32,
    /// Until when we act without another renewal.
    valid_until: Instant,
    /// When another process may take over, at the earliest.
    expires: Instant,
}

/// What others see of our leadership.
#[derive(Clone, Debug)]
pub struct Leadership {
    term: watch::Receiver<Option<Term>>,
}

impl Leadership {
    /// Fails unless we are the leader at this very moment. Every destructive call asks first. Answers how long an effect
    /// that begins now may take: until another process may take over at the earliest.
    pub fn check(&self) -> Result<Duration, NotLeader> {
        let now = Instant::now();
        match *self.term.borrow() {
            Some(term) if now < term.valid_until => Ok(term.expires.saturating_duration_since(now)),
            _ => Err(NotLeader),
        }
    }

    /// Waits until we are the leader. Returns a token that is cancelled when the term ends.
    pub async fn acquired(
        &mut self,
        tasks: &tokio_util::task::TaskTracker,
    ) -> Option<CancellationToken> {
        let term = *self.term.wait_for(Option::is_some).await.ok()?;
        let mine = term?.transitions;
        let token = CancellationToken::new();
        let (mut receiver, ended) = (self.term.clone(), token.clone());
        tasks.spawn(async move {
            let other = |t: &Option<Term>| t.is_none_or(|t| t.transitions != mine);
            tokio::select! {
                biased;
                _ = receiver.wait_for(other) => {}
                () = ended.cancelled() => {}
            }
            ended.cancel();
        });
        Some(token)
    }
}

impl LeaseSettings {
    /// Checks that the durations fit together.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let Self {
            duration,
            renew_deadline: deadline,
            retry_period: period,
            ..
        } = self.clone();
        // The record holds whole seconds: a fraction would be cut off for the others, and not for us.
        if duration < Duration::from_secs(1) || duration.subsec_nanos() != 0 {
            return Err(SettingsError::TooShort(duration));
        }
        if deadline >= duration {
            return Err(SettingsError::DeadlineTooLong { duration, deadline });
        }
        if period * 2 >= deadline {
            return Err(SettingsError::PeriodTooLong { deadline, period });
        }
        Ok(())
    }
}

/// Starts the campaign; it goes on until the token is cancelled, and gives the Lease back then.
pub fn campaign(
    client: Client,
    settings: LeaseSettings,
    clock: Clock,
    stop: CancellationToken,
    tasks: &tokio_util::task::TaskTracker,
) -> Result<Leadership, SettingsError> {
    settings.validate()?;
    let (publish, term) = watch::channel(None);
    let api = Api::namespaced(client, &settings.namespace);
    let mut candidate = Candidate {
        clock,
        api,
        settings,
        publish,
        observed: None,
        held: None,
        claimed: None,
    };
    tasks.spawn(async move {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = candidate.turn() => {}
            }
        }
        candidate.release().await;
    });
    Ok(Leadership { term })
}

struct Candidate {
    clock: Clock,
    api: Api<Lease>,
    settings: LeaseSettings,
    publish: watch::Sender<Option<Term>>,
    /// The last record of another holder, and when we first saw it.
    observed: Option<(LeaseSpec, Instant)>,
    /// The Lease as we last wrote it, while we hold it.
    held: Option<Arc<Lease>>,
    /// The acquire time, in microseconds, of our last claim: what tells our record from another of the same name.
    claimed: Option<i64>,
}

impl Candidate {
    /// One look at the Lease, and the wait until the next.
    async fn turn(&mut self) {
        let began = Instant::now();
        let result = match self.held.clone() {
            Some(lease) => self.renew(&lease, began).await,
            None => self.try_acquire(began).await,
        };
        if let Err(error) = result {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                error,
                leader = self.held.is_some(),
                "the lease could not be looked at"
            );
        }
        let expired = self
            .publish
            .borrow()
            .is_some_and(|t| Instant::now() >= t.valid_until);
        if expired {
            self.lose("it could not be renewed in time");
        }
        let mut next = began + self.settings.retry_period;
        if let Some(term) = *self.publish.borrow() {
            next = next.min(term.valid_until);
        }
        tokio::time::sleep_until(next).await;
    }

    async fn try_acquire(&mut self, began: Instant) -> Result<(), ApiError> {
        let Some(mut lease) = self
            .call("reading the lease", self.api.get_opt(&self.settings.name))
            .await?
        else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.settings.name.clone()),
                    ..Default::default()
                },
                spec: Some(self.claim(0)),
            };
            return match self
                .call(
                    "creating the lease",
                    self.api.create(&PostParams::default(), &lease),
                )
                .await
            {
                Ok(lease) => {
                    self.win(lease, began);
                    Ok(())
                }
                Err(error) if error.is_conflict() => Ok(()),
                Err(error) => Err(error),
            };
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        // Ours: a claim whose answer was lost, or a term that we could not renew and that nobody else has taken.
        let free = holder.is_empty() || self.is_ours(&spec);
        if !free && !self.has_expired(&spec) {
            return Ok(());
        }
        lease.spec = Some(self.claim(spec.lease_transitions.unwrap_or(0) + 1));
        self.replace(lease, began).await
    }

    /// The record is one that this process wrote. The name alone would not tell: another process could bear it too.
    fn is_ours(&self, spec: &LeaseSpec) -> bool {
        let acquired = spec.acquire_time.as_ref().map(|t| t.0.as_microsecond());
        spec.holder_identity.as_ref() == Some(&self.settings.identity)
            && acquired.is_some()
            && acquired == self.claimed
    }

    /// What to write in order to take the lease.
    fn claim(&mut self, transitions: i32) -> LeaseSpec {
        let now = self.clock.now();
        self.claimed = Some(now.as_microsecond());
        self.spec(transitions, MicroTime(now))
    }

    /// The holder has shown no sign of life for its whole lease duration, as far as our own clock has seen.
    fn has_expired(&mut self, spec: &LeaseSpec) -> bool {
        let now = Instant::now();
        match &self.observed {
            Some((seen, since)) if seen == spec => {
                let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
                now.duration_since(*since) >= Duration::from_secs(seconds.max(1))
            }
            _ => {
                self.observed = Some((spec.clone(), now));
                false
            }
        }
    }

    async fn renew(&mut self, lease: &Lease, began: Instant) -> Result<(), ApiError> {
        let mut wanted = lease.clone();
        let spec = wanted.spec.clone().unwrap_or_default();
        let acquired = spec.acquire_time.unwrap_or(MicroTime(self.clock.now()));
        wanted.spec = Some(self.spec(spec.lease_transitions.unwrap_or(0), acquired));
        self.replace(wanted, began).await
    }

    async fn replace(&mut self, mut lease: Lease, began: Instant) -> Result<(), ApiError> {
        lease.metadata.managed_fields = None;
        let parameters = PostParams::default();
        let request = self.api.replace(&self.settings.name, &parameters, &lease);
        match self.call("writing the lease", request).await {
            Ok(lease) => {
                self.win(lease, began);
                Ok(())
            }
            Err(error) if error.is_conflict() || error.is_not_found() => self.lost_the_race().await,
            Err(error) => Err(error),
        }
    }

    /// Somebody wrote the Lease in between: either another holder, or a write of ours whose answer we never saw.
    async fn lost_the_race(&mut self) -> Result<(), ApiError> {
        let lease = self
            .call("reading the lease", self.api.get_opt(&self.settings.name))
            .await?;
        let ours = lease.filter(|l| l.spec.as_ref().is_some_and(|s| self.is_ours(s)));
        match (ours, self.held.is_some()) {
            (Some(lease), true) => self.held = Some(Arc::new(lease)),
            (_, true) => self.lose("another process holds the lease"),
            (_, false) => {}
        }
        Ok(())
    }

    fn win(&mut self, lease: Lease, began: Instant) {
        let transitions = lease
            .spec
            .as_ref()
            .and_then(|s| s.lease_transitions)
            .unwrap_or(0);
        if self.held.is_none() {
            tracing::info!(identity = self.settings.identity, transitions, "leading");
        }
        self.held = Some(Arc::new(lease));
        self.observed = None;
        let valid_until = began + self.settings.renew_deadline;
        let expires = began + self.settings.duration;
        self.publish.send_replace(Some(Term {
            transitions,
            valid_until,
            expires,
        }));
    }

    fn lose(&mut self, why: &str) {
        self.publish.send_replace(None);
        self.held = None;
        self.observed = None;
        tracing::warn!(identity = self.settings.identity, why, "no longer leading");
    }

    fn spec(&self, transitions: i32, acquired: MicroTime) -> LeaseSpec {
        let now = MicroTime(self.clock.now());
        LeaseSpec {
            holder_identity: Some(self.settings.identity.clone()),
            lease_duration_seconds: Some(
                i32::try_from(self.settings.duration.as_secs()).unwrap_or(i32::MAX),
            ),
            acquire_time: Some(acquired),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..Default::default()
        }
    }

    /// A call that gives up early enough for another try within the deadline.
    async fn call<T>(
        &self,
        what: &'static str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, ApiError> {
        let limit = self.settings.renew_deadline / 2;
        match tokio::time::timeout(limit, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(source)) => Err(ApiError::Failed {
                what,
                source: Box::new(source),
            }),
            Err(_) => Err(ApiError::TimedOut { what, after: limit }),
        }
    }

    /// Gives the Lease back, so that another process need not wait for it to expire.
    async fn release(&mut self) {
        self.publish.send_replace(None);
        let Some(held) = self.held.take() else { return };
        let mut lease = held.as_ref().clone();
        lease.metadata.managed_fields = None;
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(MicroTime(self.clock.now()));
        }
        let parameters = PostParams::default();
        let request = self.api.replace(&self.settings.name, &parameters, &lease);
        if let Err(error) = self.call("releasing the lease", request).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the lease could not be given back"
            );
        }
    }
}
