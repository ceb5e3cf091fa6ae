#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use crate::exporter::presence::LetGo;
use crate::exporter::release::release;
use crate::nvml::{Driver, Identity, Sample};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const SOON: Duration = Duration::from_secs(20);

/// A driver of two GPUs whose calls can be held for GPU 0, and which counts who is inside.
#[derive(Default)]
struct Held {
    hold: AtomicBool,
    inside: AtomicUsize,
    most_inside: AtomicUsize,
    other_calls: AtomicUsize,
    sessions: AtomicUsize,
    open: AtomicUsize,
    most_open: AtomicUsize,
    absent: AtomicBool,
    lost: AtomicBool,
}

struct Source(Arc<Held>);
struct Open(Arc<Held>);

impl DriverSource for Source {
    fn open(&self) -> Result<Arc<dyn Driver>, DriverError> {
        if self.0.absent.load(Ordering::SeqCst) {
            return Err(DriverError::Load("absent".to_owned()));
        }
        self.0.sessions.fetch_add(1, Ordering::SeqCst);
        let open = self.0.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most_open.fetch_max(open, Ordering::SeqCst);
        Ok(Arc::new(Open(Arc::clone(&self.0))))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Driver for Open {
    fn version(&self) -> Result<String, DriverError> {
        Ok("1".to_owned())
    }

    fn gpu_count(&self) -> Result<u32, DriverError> {
        if self.0.absent.load(Ordering::SeqCst) {
            return Err(DriverError::Gone {
                call: "count",
                code: "driver_not_loaded",
            });
        }
        Ok(2)
    }

    fn identity(&self, index: u32) -> Result<Identity, DriverError> {
        Ok(Identity {
            index,
            uuid: format!("GPU-{index}"),
            pci: format!("0000:0{index}:00").parse().unwrap(),
            minor: index,
            model: "Test GPU".to_owned(),
            serial: None,
            vbios: None,
        })
    }

    fn sample(&self, index: u32) -> Result<Sample, DriverError> {
        if index != 0 {
            self.0.other_calls.fetch_add(1, Ordering::SeqCst);
            // Long beside the interval, so that a call is under way nearly always.
            std::thread::sleep(Duration::from_millis(10));
            return Ok(Sample::default());
        }
        let inside = self.0.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most_inside.fetch_max(inside, Ordering::SeqCst);
        while self.0.hold.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
        if self.0.lost.load(Ordering::SeqCst) {
            Err(DriverError::GpuLost)
        } else {
            Ok(Sample::default())
        }
    }
}

struct Running {
    held: Arc<Held>,
    state: Arc<Mutex<State>>,
    shared: Arc<Shared>,
    supervisor: Option<JoinHandle<()>>,
}

impl Running {
    fn start(held: Held) -> Self {
        let held = Arc::new(held);
        let pace = Pace {
            collectors: Collectors::default().every(Collector::Nvml, Duration::from_millis(5)),
            deadline: Duration::from_millis(50),
        };
        let state = Arc::new(Mutex::new(State::new(
            pace.collectors.clone(),
            pace.deadline,
        )));
        let shared = Shared::new(Arc::clone(&state), Arc::default(), pace);
        let supervisor = start(Arc::clone(&shared), Box::new(Source(Arc::clone(&held)))).unwrap();
        Self {
            held,
            state,
            shared,
            supervisor: Some(supervisor),
        }
    }

    fn until(&self, what: &str, condition: impl Fn(&State) -> bool) {
        let deadline = Instant::now() + SOON;
        while !condition(&lock(&self.state)) {
            assert!(Instant::now() < deadline, "not in time: {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until the supervisor has looked twice whether the driver is still held, the second time from the beginning.
    fn looked_twice(&self) {
        for _ in 0..2 {
            lock(&self.state).let_go = LetGo::No;
            self.until("a look", State::is_left_alone);
        }
    }

    fn all_up(state: &State) -> bool {
        state.gpus.len() == 2
            && state
                .gpus
                .values()
                .all(|gpu| state.current(gpu, Instant::now()).is_some())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.held.hold.store(false, Ordering::SeqCst);
        self.shared.stop();
        self.supervisor.take().unwrap().join().unwrap();
    }
}

#[test]
fn a_call_that_hangs_is_alone_and_stops_nobody() {
    let running = Running::start(Held::default());
    running.until("both GPUs are up", Running::all_up);
    running.held.hold.store(true, Ordering::SeqCst);
    running.until("the call hangs", |state| {
        state.is_index_hung(0, Instant::now())
    });
    let before = running.held.other_calls.load(Ordering::SeqCst);
    running.until("the other GPU is asked on", |_| {
        running.held.other_calls.load(Ordering::SeqCst) > before + 20
    });
    assert!(lock(&running.state).is_index_hung(0, Instant::now()));
    assert_eq!(running.held.most_inside.load(Ordering::SeqCst), 1);
    running.held.hold.store(false, Ordering::SeqCst);
    running.until("both GPUs are up again", Running::all_up);
    assert_eq!(running.held.most_inside.load(Ordering::SeqCst), 1);
}

#[test]
fn a_driver_that_comes_goes_and_comes_again() {
    let running = Running::start(Held {
        absent: AtomicBool::new(true),
        ..Held::default()
    });
    let error = |state: &State| state.driver_error(Instant::now());
    running.until("its absence is noticed", |state| {
        error(state) == Some("library_not_found")
    });
    running.held.absent.store(false, Ordering::SeqCst);
    running.until("it is found", Running::all_up);
    running.held.absent.store(true, Ordering::SeqCst);
    running.until("it is gone", |state| {
        error(state).is_some() && !Running::all_up(state) && state.gpus.len() == 2
    });
    running.held.absent.store(false, Ordering::SeqCst);
    running.until("it is back", Running::all_up);
    assert!(running.held.sessions.load(Ordering::SeqCst) >= 2);
}

#[test]
fn a_lost_gpu_is_looked_for_in_a_new_session() {
    let running = Running::start(Held::default());
    running.until("both GPUs are up", Running::all_up);
    running.held.lost.store(true, Ordering::SeqCst);
    running.until("it is lost", State::any_lost);
    let sessions = running.held.sessions.load(Ordering::SeqCst);
    running.until("a new session begins", |_| {
        running.held.sessions.load(Ordering::SeqCst) > sessions
    });
    running.held.lost.store(false, Ordering::SeqCst);
    running.until("it is found again", Running::all_up);
    // The library forgets a lost GPU only when nobody holds the old session any more.
    assert_eq!(running.held.most_open.load(Ordering::SeqCst), 1);
}

#[test]
fn the_driver_is_held_until_the_last_call_of_any_session_ends() {
    let hour = Duration::from_secs(3600);
    let hung = || {
        let running = Running::start(Held::default());
        running.until("both GPUs are up", Running::all_up);
        running.held.hold.store(true, Ordering::SeqCst);
        running.until("the call hangs", |state| {
            state.is_index_hung(0, Instant::now())
        });
        running
    };
    let held_until_it_ends = |running: &Running| {
        running.looked_twice();
        assert!(!running.shared.release.is_done());
        assert!(!lock(&running.state).is_released());
        running.held.hold.store(false, Ordering::SeqCst);
        running.until("it is let go", State::is_released);
        assert_eq!(running.held.open.load(Ordering::SeqCst), 0);
    };

    // Asked for, taken back while the call still hangs, and asked for again.
    let running = hung();
    release(&running.shared, hour);
    running.looked_twice();
    release(&running.shared, Duration::ZERO);
    running.until("a second session", |state| {
        state.sessions == 2 && state.driver.up
    });
    release(&running.shared, hour);
    held_until_it_ends(&running);

    // The session was closed for another reason before.
    let running = hung();
    running.held.absent.store(true, Ordering::SeqCst);
    running.until("the driver is gone", |state| {
        state.driver.error.is_some() && lock(&running.shared.session).is_none()
    });
    release(&running.shared, hour);
    held_until_it_ends(&running);
}
