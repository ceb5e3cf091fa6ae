//! A story on its stage: the simulated cluster, its history, and the clock that a reader can follow.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::cluster::{BuildError, Cluster};
use super::ending::Ending;
use super::happening::Happening;
use super::history::{self, Audience, History};
use super::pace::{Pace, Pacer};
use super::progress::{Progress, Wait};
use super::scenario::Scenario;
use super::teller::{FAINT, Page, STRONG, Teller};
use super::{cast, scripts, views};
use crate::clock::Clock;
use crate::sim::api_server::Store;

/// How a story is told.
pub struct Staging {
    /// Which story.
    pub scenario: Scenario,
    /// Where its lines go; `None`: nowhere, it is only performed.
    pub page: Option<Page>,
    /// Show what is waited for, below the lines, if standard error is a terminal.
    pub progress: bool,
    /// How the simulated clock runs.
    pub pace: Pace,
}

/// What was waited for did not come.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it did not come within {} of simulated time", history::duration(jiff::SignedDuration::try_from(*.limit).unwrap_or_default()))]
pub struct TooLate {
    /// What.
    pub what: String,
    /// How long was waited.
    pub limit: Duration,
}

/// The stage.
pub struct Stage {
    pub(super) cluster: Cluster,
    history: History,
    other_pods_before: BTreeMap<String, String>,
    wait: Arc<Mutex<Wait>>,
    progress: Progress,
    pub(super) pacer: Arc<Mutex<Pacer>>,
}

/// Performs a story. Nothing of it depends on how fast it is told.
///
/// # Errors
///
/// The cluster cannot be built.
pub async fn perform(staging: &Staging) -> Result<(Stage, Ending), BuildError> {
    let real = Instant::now();
    let history = History::default();
    let cluster = Cluster::start(staging.scenario, &history).await?;
    let progress = if staging.progress {
        Progress::on_terminal()
    } else {
        Progress::hidden()
    };
    let pacer = Arc::new(Mutex::new(Pacer::new(staging.pace)));
    let mut stage = Stage {
        cluster,
        history: history.clone(),
        other_pods_before: BTreeMap::new(),
        wait: Arc::default(),
        progress: progress.clone(),
        pacer: Arc::clone(&pacer),
    };
    stage.other_pods_before = stage.other_pods();
    let began = stage.now();
    if let Some(page) = &staging.page {
        page.write(&title(staging.scenario));
    }
    let audience = staging.page.clone().map(|page| {
        let pacer = Arc::clone(&pacer);
        let turn = Box::new(move |write: &mut dyn FnMut()| {
            progress.aside(write);
            hold(lock(&pacer).told());
        });
        Box::new(Teller { page, turn }) as Box<dyn Audience>
    });
    history.open(audience);
    let ticking = tokio::spawn(tick(stage.ticker(), pacer));
    let expectations = scripts::play(staging.scenario, &stage).await.into_vec();
    ticking.abort();
    stage.progress.end();
    let ending = Ending {
        scenario: staging.scenario,
        events: history.events(),
        fault_at: history.fault_at(),
        began,
        ended: stage.now(),
        took: real.elapsed(),
        faults: stage.faults(),
        expectations,
    };
    Ok((stage, ending))
}

fn title(scenario: Scenario) -> String {
    format!(
        "{STRONG}{scenario}{STRONG:#}  {}\n\n{FAINT}{}{FAINT:#}\n\n",
        scenario.summary(),
        cast::description(scenario)
    )
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds the runtime's only thread, and with it the simulated clock, so that a person can read.
fn hold(real: Duration) {
    if !real.is_zero() {
        std::thread::sleep(real);
    }
}

/// What the ticking task needs of the stage.
struct Ticker {
    clock: Clock,
    store: Store,
    history: History,
    wait: Arc<Mutex<Wait>>,
    progress: Progress,
}

/// Lets the simulated clock run in short stretches, and shows what is waited for after each.
async fn tick(ticker: Ticker, pacer: Arc<Mutex<Pacer>>) {
    loop {
        let Some(stretch) = lock(&pacer).stretch() else {
            return;
        };
        tokio::time::sleep(stretch).await;
        let (real, rate) = {
            let mut pacer = lock(&pacer);
            (pacer.passed(Instant::now()), pacer.rate())
        };
        let proof = views::proof(&ticker.store);
        let wait = proof.unwrap_or_else(|| lock(&ticker.wait).clone());
        let now = ticker.clock.now();
        let since = history::since(ticker.history.fault_at(), now);
        ticker.progress.show(&wait, now, &since, rate);
        hold(real);
    }
}

impl Stage {
    /// The simulated time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.cluster.clock().now()
    }

    /// All that has happened.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Where the pods without a GPU were when the story began: UID by name and node.
    #[must_use]
    pub fn other_pods_before(&self) -> &BTreeMap<String, String> {
        &self.other_pods_before
    }

    /// Waits until something is so. Looks again whenever an object changes, and each simulated second.
    ///
    /// # Errors
    ///
    /// It is not so when the time is over.
    pub async fn until(
        &self,
        what: &str,
        limit: Duration,
        is_so: impl Fn(&Self) -> bool,
    ) -> Result<(), TooLate> {
        self.waits_for(what, None);
        let deadline = tokio::time::Instant::now() + limit;
        let mut changes = self.cluster.api().changes();
        while !is_so(self) {
            let now = tokio::time::Instant::now();
            if now >= deadline {
                return Err(TooLate {
                    what: what.to_owned(),
                    limit,
                });
            }
            let again = deadline.min(now + Duration::from_secs(1));
            // Whichever comes first: an object has changed, or a second is over.
            let _ = tokio::time::timeout_at(again, changes.changed()).await;
        }
        Ok(())
    }

    /// Lets time pass.
    pub async fn pass(&self, what: &str, time: Duration) {
        self.waits_for(what, Some((self.now(), time)));
        tokio::time::sleep(time).await;
    }

    /// Something that the scenario does.
    pub fn staged(&self, what: &str) {
        let what = what.to_owned();
        self.history.add(self.now(), Happening::Staged { what });
    }

    /// Something that a person does.
    pub fn person(&self, what: &str) {
        let what = what.to_owned();
        self.history
            .add(self.now(), Happening::PersonActed { what });
    }

    fn ticker(&self) -> Ticker {
        Ticker {
            clock: self.cluster.clock().clone(),
            store: self.cluster.store().clone(),
            history: self.history.clone(),
            wait: Arc::clone(&self.wait),
            progress: self.progress.clone(),
        }
    }

    fn waits_for(&self, what: &str, takes: Option<(Timestamp, Duration)>) {
        *lock(&self.wait) = Wait {
            what: what.to_owned(),
            takes,
        };
    }
}
