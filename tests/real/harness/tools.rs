//! kubectl, helm and promtool, run to their end.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::parts::part;

/// What a tool answered.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Whether it ended with status 0.
    pub(crate) ok: bool,
    /// What it printed.
    pub(crate) stdout: String,
    /// What it complained about.
    pub(crate) stderr: String,
}

impl Answer {
    /// What it printed.
    ///
    /// # Panics
    ///
    /// When it did not end with status 0.
    pub(crate) fn expect_ok(self, what: &str) -> String {
        assert!(self.ok, "{what}: failed\n{}\n{}", self.stdout, self.stderr);
        self.stdout
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            ok: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs kubectl with `kubeconfig` and `stdin`.
pub(crate) fn kubectl<S: AsRef<OsStr>>(
    kubeconfig: &Path,
    arguments: impl IntoIterator<Item = S>,
    stdin: &str,
) -> Answer {
    let mut command = Command::new(part("kubectl"));
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        // Its discovery cache would outlive the cluster.
        .arg("--cache-dir")
        .arg(kubeconfig.with_extension("kubectl-cache"))
        .args(arguments);
    run(command, stdin)
}

/// Runs helm; `home` takes its caches and settings.
pub(crate) fn helm<S: AsRef<OsStr>>(home: &Path, arguments: impl IntoIterator<Item = S>) -> Answer {
    let mut command = Command::new(part("helm"));
    command
        .env("HELM_CACHE_HOME", home.join("helm-cache"))
        .env("HELM_CONFIG_HOME", home.join("helm-config"))
        .env("HELM_DATA_HOME", home.join("helm-data"))
        .args(arguments);
    run(command, "")
}

/// Runs promtool.
pub(crate) fn promtool<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Answer {
    let mut command = Command::new(part("promtool"));
    command.args(arguments);
    run(command, "")
}

/// What promtool says of a page of metrics.
pub(crate) fn check_metrics(page: &str) -> Answer {
    let mut command = Command::new(part("promtool"));
    command.args(["check", "metrics"]);
    run(command, page)
}

fn run(mut command: Command, stdin: &str) -> Answer {
    let what = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    // A tool that does not read its input to the end says why by its status.
    let _ = child
        .stdin
        .take()
        .expect("the input is a pipe")
        .write_all(stdin.as_bytes());
    child
        .wait_with_output()
        .unwrap_or_else(|error| panic!("{what}: {error}"))
        .into()
}

/// A path inside the repository.
pub(crate) fn repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
