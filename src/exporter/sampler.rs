//! The threads that ask the driver.
//!
//! One thread looks after the driver as a whole, and two after each GPU: one asks, and one listens. Nobody waits for any
//! of them: what they find they write into the state, and that a call is under way for too long is seen from there. A
//! thread whose call hangs is left alone and never doubled; it goes on when its call ends.

use super::collectors::{Collector, Collectors};
use super::listener::listen;
use super::release::Release;
use super::state::State;
use super::worker::work;
use crate::kmsg::Counters;
use crate::nvml::{Driver, DriverError, DriverSource};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A driver session does not find a lost GPU again, even after a reset; only a new session does.
const RELOAD_WHILE_LOST: Duration = Duration::from_secs(5);
/// Nor does it find one that has gone from its list, or that was never on it; that is looked for less often, since it may be
/// on purpose.
const RELOAD_WHILE_MISSING: Duration = Duration::from_secs(60);
/// How often it is looked whether the last user of a session is gone.
const RELEASE_POLL: Duration = Duration::from_millis(2);

/// How the driver is asked.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    /// For what, and how often.
    pub(super) collectors: Collectors,
    /// A call that takes longer hangs.
    pub(super) deadline: Duration,
}

impl Pace {
    /// Between two askings of the driver.
    pub(super) fn interval(&self) -> Duration {
        self.collectors.interval(Collector::Nvml)
    }
}

/// A session with the driver.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) number: u64,
    gpu_count: u32,
    pub(super) driver: Arc<dyn Driver>,
}

/// What the threads share.
pub(super) struct Shared {
    state: Arc<Mutex<State>>,
    log: Arc<Counters>,
    pace: Pace,
    session: Mutex<Option<Session>>,
    pub(super) release: Release,
    signal: Mutex<Signal>,
    called: Condvar,
}

/// What ends a wait early.
#[derive(Debug, Default)]
struct Signal {
    stopped: bool,
    /// How often the threads were called to look anew.
    calls: u64,
}

impl Shared {
    pub(super) fn new(state: Arc<Mutex<State>>, log: Arc<Counters>, pace: Pace) -> Arc<Self> {
        Arc::new(Self {
            state,
            log,
            pace,
            session: Mutex::new(None),
            release: Release::default(),
            signal: Mutex::default(),
            called: Condvar::new(),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn state_mutex(&self) -> &Mutex<State> {
        &self.state
    }

    pub(super) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// The session, if it has a GPU at this index.
    pub(super) fn session_of(&self, index: u32) -> Option<Session> {
        let session = lock(&self.session).clone();
        session.filter(|session| index < session.gpu_count)
    }

    /// Whether this is still the session.
    pub(super) fn is_session(&self, number: u64) -> bool {
        lock(&self.session)
            .as_ref()
            .is_some_and(|session| session.number == number)
    }

    /// Whether the kernel log is being read.
    pub(super) fn log_is_read(&self) -> bool {
        self.log.open.load(Ordering::Relaxed)
    }

    pub(super) fn is_stopped(&self) -> bool {
        lock(&self.signal).stopped
    }

    /// Tells all threads to end after the call that they are in.
    pub(super) fn stop(&self) {
        lock(&self.signal).stopped = true;
        self.called.notify_all();
    }

    /// Has all threads look anew at once.
    pub(super) fn call(&self) {
        lock(&self.signal).calls += 1;
        self.called.notify_all();
    }

    /// Waits, or until the threads are called; whether they may go on.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let guard = lock(&self.signal);
        let calls = guard.calls;
        let (signal, _) = self
            .called
            .wait_timeout_while(guard, time, |signal| {
                !signal.stopped && signal.calls == calls
            })
            .unwrap_or_else(PoisonError::into_inner);
        !signal.stopped
    }
}

/// A panic while a lock was held leaves nothing half-written here that matters more than going on.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread that looks after the driver; it starts the others.
///
/// # Errors
///
/// The system has no thread left.
pub(super) fn start(
    shared: Arc<Shared>,
    source: Box<dyn DriverSource>,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("driver".to_owned())
        .spawn(move || {
            Supervisor {
                shared,
                source,
                workers: 0,
                listeners: 0,
                opened: Instant::now(),
                held: Vec::new(),
                said: None,
            }
            .run();
        })
}

struct Supervisor {
    shared: Arc<Shared>,
    source: Box<dyn DriverSource>,
    workers: u32,
    listeners: u32,
    opened: Instant,
    /// The drivers of all sessions that were opened, as long as somebody holds them: a call that hangs may hold one long after
    /// its session was closed, for whatever reason.
    held: Vec<Weak<dyn Driver>>,
    /// The last failure that was logged, so that it is said once.
    said: Option<DriverError>,
}

impl Supervisor {
    fn run(mut self) {
        loop {
            if let Some(left) = self.shared.release.left(Instant::now()) {
                self.let_go();
                if !self.shared.wait(left.min(self.shared.pace.interval())) {
                    break;
                }
                continue;
            }
            self.shared.state().driver_asked(Instant::now());
            match self.ask() {
                Ok((version, gpu_count)) => {
                    self.shared.state().driver_answered(version, gpu_count);
                    self.said = None;
                    self.start_workers(gpu_count);
                }
                Err(error) => {
                    self.close();
                    self.shared.state().driver_failed(&error);
                    if self.said.as_ref() != Some(&error) {
                        tracing::warn!(%error, "no driver; trying again");
                        self.said = Some(error);
                    }
                }
            }
            if !self.shared.wait(self.shared.pace.interval()) {
                break;
            }
        }
        self.close();
    }

    /// Ends the session on request, and tells once nobody holds the driver any more.
    fn let_go(&mut self) {
        if self.shared.release.is_done() {
            return;
        }
        self.shared.state().driver_let_go(false);
        self.close();
        self.forget_ended();
        if self.held.is_empty() {
            self.shared.state().driver_let_go(true);
            self.shared.release.done();
        }
    }

    fn forget_ended(&mut self) {
        self.held.retain(|driver| driver.strong_count() > 0);
    }

    /// Sees that there is a session, and asks it for what concerns no single GPU.
    fn ask(&mut self) -> Result<(String, u32), DriverError> {
        let now = Instant::now();
        let find_again = {
            let state = self.shared.state();
            let age = now.duration_since(self.opened);
            let lost = age >= RELOAD_WHILE_LOST && state.any_lost();
            let missing = age >= RELOAD_WHILE_MISSING && state.any_missing();
            (lost || missing) && !state.any_hung(now)
        };
        if find_again {
            self.close();
        }
        let current = lock(&self.shared.session).clone();
        let mut session = match current {
            Some(session) => session,
            None => self.open()?,
        };
        let mut gpu_count = session.driver.gpu_count()?;
        if session.gpu_count != 0 && session.gpu_count != gpu_count {
            // With a GPU that is gone the others' indices move up: each must tell again who it is.
            tracing::warn!(
                before = session.gpu_count,
                now = gpu_count,
                "the driver has another number of GPUs"
            );
            drop(session);
            self.close();
            session = self.open()?;
            gpu_count = session.driver.gpu_count()?;
        }
        let version = session.driver.version()?;
        *lock(&self.shared.session) = Some(Session {
            gpu_count,
            ..session
        });
        Ok((version, gpu_count))
    }

    fn open(&mut self) -> Result<Session, DriverError> {
        self.opened = Instant::now();
        let driver = self.source.open()?;
        self.forget_ended();
        self.held.push(Arc::downgrade(&driver));
        // Asked before the lock is taken: it is a call to the driver.
        let cuda_version = driver.cuda_version();
        let mut state = self.shared.state();
        state.session_began();
        let number = state.sessions;
        state.driver_supports(cuda_version);
        drop(state);
        tracing::debug!(session = number, "driver session begun");
        Ok(Session {
            number,
            gpu_count: 0,
            driver,
        })
    }

    /// Ends the session. The driver library forgets what it knows only when nobody uses it any more, so the calls that
    /// are under way are waited for, but not for ever.
    fn close(&self) {
        let Some(session) = lock(&self.shared.session).take() else {
            return;
        };
        let since = Instant::now();
        while Arc::strong_count(&session.driver) > 1 && since.elapsed() < self.shared.pace.deadline
        {
            std::thread::sleep(RELEASE_POLL);
        }
    }

    fn start_workers(&mut self, gpu_count: u32) {
        self.workers = self.start_threads("gpu", self.workers..gpu_count, work);
        if self.shared.pace.collectors.is_on(Collector::NvmlEvents) {
            self.listeners = self.start_threads("events", self.listeners..gpu_count, listen);
        }
    }

    /// Starts the threads of these indices; answers the first index that has none.
    fn start_threads(
        &self,
        name: &str,
        indices: std::ops::Range<u32>,
        work: fn(&Shared, u32),
    ) -> u32 {
        let end = indices.end.max(indices.start);
        for index in indices {
            let shared = Arc::clone(&self.shared);
            let started = std::thread::Builder::new()
                .name(format!("{name}-{index}"))
                .spawn(move || work(&shared, index));
            if let Err(error) = started {
                tracing::error!(%error, gpu = index, "cannot start a thread; trying again");
                return index;
            }
        }
        end
    }
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
