//! The threads that read the kernel log, and the one that writes that of simulated GPUs.

use super::sampler::lock;
use super::state::State;
use crate::kmsg::{Counters, Entry, KernelLog};
use crate::nvml::ScenarioLog;
use crate::xid::{self, Parser};
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often the writer looks whether the process ends, and at first whether its reader is there.
const POLL: Duration = Duration::from_millis(20);

/// Which logs there are; one of them at least.
pub(super) struct Logs {
    /// The device or a file.
    pub(super) path: Option<PathBuf>,
    /// That of simulated GPUs, which is read as well.
    pub(super) simulated: Option<ScenarioLog>,
}

/// Reads the logs until the token is cancelled. The counters tell of the device or file, and of the simulated log where
/// there is none.
///
/// The threads are not waited for: they hold nothing that must be given back.
///
/// # Errors
///
/// The system has no thread or file descriptor left.
pub(super) fn start(
    logs: Logs,
    state: &Arc<Mutex<State>>,
    counters: &Arc<Counters>,
    stop: &CancellationToken,
) -> io::Result<()> {
    if let Some(simulated) = logs.simulated {
        let counters = match logs.path {
            Some(_) => Arc::default(),
            None => Arc::clone(counters),
        };
        let pipe = Pipe::new()?;
        read(
            pipe.path(),
            Arc::clone(state),
            Arc::clone(&counters),
            stop.clone(),
        )?;
        pipe.write(simulated, counters, stop.clone())?;
    }
    match logs.path {
        Some(path) => read(path, Arc::clone(state), Arc::clone(counters), stop.clone()),
        None => Ok(()),
    }
}

fn read(
    path: PathBuf,
    state: Arc<Mutex<State>>,
    counters: Arc<Counters>,
    stop: CancellationToken,
) -> io::Result<()> {
    let mut parser = Parser::default();
    let each = move |entry: Entry<'_>| {
        if !xid::may_be_message(entry.line.bytes()) {
            return;
        }
        for message in parser.parse(&entry.line.said()) {
            let at = message.is_event().then(|| entry.time()).flatten();
            tracing::debug!(?message, ?at, "the driver logged");
            lock(&state).observe(message, at);
        }
    };
    std::thread::Builder::new()
        .name("kernel-log".to_owned())
        .spawn(move || KernelLog::new(path).follow(&counters, || stop.is_cancelled(), each))?;
    Ok(())
}

/// The way of a simulated log to its reader, which reads it as it reads a file.
struct Pipe {
    reader: PipeReader,
    writer: PipeWriter,
}

impl Pipe {
    fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self { reader, writer })
    }

    /// Where the log is read, for as long as it is written.
    fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.reader.as_raw_fd()).into()
    }

    /// Writes what comes, once the reader that these counters are of has found the log empty: what was there before would
    /// be history.
    fn write(
        self,
        mut log: ScenarioLog,
        reader: Arc<Counters>,
        stop: CancellationToken,
    ) -> io::Result<()> {
        let Self {
            reader: open_end,
            mut writer,
        } = self;
        let write = move || {
            // What the path names.
            let _open_end = open_end;
            while !reader.caught_up.load(Ordering::Acquire) && !stop.is_cancelled() {
                std::thread::sleep(POLL);
            }
            while !stop.is_cancelled() {
                if let Some(record) = log.next(POLL)
                    && let Err(error) = writer.write_all(record.as_bytes())
                {
                    tracing::error!(%error, "the simulated kernel log ends");
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("simulated-log".to_owned())
            .spawn(write)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::exporter::Collectors;
    use crate::nvml::Scenario;
    use std::time::Instant;

    /// Reads a log with one Xid 79 in its first moment, beside the one at a path, until it is counted.
    fn read_simulated(path: Option<PathBuf>) -> Arc<Counters> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("faults.yaml");
        std::fs::write(&file, "gpus: 1\ntimeline: [{at: 0s, gpu: 0, xid: 79}]\n").unwrap();
        let simulation = Scenario::read(&file).unwrap().play("node-1");
        let second = Duration::from_secs(1);
        let state = Arc::new(Mutex::new(State::new(Collectors::default(), second)));
        let (counters, stop) = (Arc::new(Counters::default()), CancellationToken::new());
        let logs = Logs {
            path,
            simulated: Some(ScenarioLog::new(simulation)),
        };
        start(logs, &state, &counters, &stop).unwrap();
        let deadline = Instant::now() + 30 * second;
        let count = loop {
            let pci = "0000:10:00".parse().unwrap();
            if let Some(count) = lock(&state).ledger.get(pci, 79) {
                break count;
            }
            assert!(Instant::now() < deadline, "the Xid was not read");
            std::thread::sleep(Duration::from_millis(5));
        };
        stop.cancel();
        assert_eq!(count.events, 1);
        assert!(count.last.is_some(), "it is news");
        counters
    }

    #[test]
    fn the_simulated_log_is_read_as_the_kernels_is() {
        let counters = read_simulated(None);
        assert!(counters.caught_up.load(Ordering::Acquire));
        assert_eq!(counters.lines.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn beside_another_log_the_simulated_one_is_read_and_not_told_about() {
        let counters = read_simulated(Some("/nonexistent/kern.log".into()));
        assert_eq!(counters.lines.load(Ordering::Relaxed), 0);
    }
}
