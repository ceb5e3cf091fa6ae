//! Processes that end with the test.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};

/// Lines of a log that are printed when a test fails.
const TAIL_LINES: usize = 40;

/// A running server. It is the head of its own process group, which is ended
/// by SIGKILL when this value is dropped, on panic too; should the test process
/// itself be killed, the kernel ends the server in its place.
///
/// The kernel's signal follows the *thread* that spawned, so servers are
/// spawned from the test's own thread, never from a blocking pool.
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with both outputs appended to `<folder>/<name>.log`.
    pub(crate) fn spawn(name: &str, mut command: Command, folder: &Path) -> Self {
        let log = folder.join(format!("{name}.log"));
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap_or_else(|error| panic!("open {}: {error}", log.display()));
        let other = file.try_clone().expect("a file handle can be copied");
        command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(other)
            .process_group(0);
        // SAFETY: the closure makes one system call and allocates nothing,
        // which is what is allowed between fork and exec.
        #[allow(unsafe_code)]
        unsafe {
            command.pre_exec(|| {
                set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)
            });
        }
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("start {name}: {error}"));
        Self {
            name: name.to_owned(),
            child,
            log,
        }
    }

    /// How the process ended, or `None` while it runs.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// # Panics
    ///
    /// When the process has ended.
    pub(crate) fn expect_running(&mut self) {
        if let Some(status) = self.exit_status() {
            panic!("{} has ended: {status}", self.name);
        }
    }

    /// Ends the process and its group by SIGKILL and waits for it. Calling it
    /// again does nothing.
    pub(crate) fn kill(&mut self) {
        if self.exit_status().is_some() {
            return;
        }
        self.signal(Signal::KILL);
        self.child.wait().expect("a child can be waited for");
    }

    /// Sends `signal` to the process group.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // The group may be gone already, which is what was asked for.
            let _ = kill_process_group(group, signal);
        }
    }

    /// All that the process has printed.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The end of what the process has printed, under a heading.
    pub(crate) fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
        format!("---- {} (last {TAIL_LINES} lines)\n{tail}\n", self.name)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.log().is_empty() {
            eprintln!("{}", self.log_tail());
        }
        self.kill();
    }
}
