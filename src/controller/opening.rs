//! What the evaluation of rules asks for: that faults are opened.

use std::future::Future;

use jiff::Timestamp;

use crate::api::fault::RuleRef;
use crate::rules::alert::Alert;
use crate::rules::subject::Subject;

/// A firing alert that a fault is to be opened for.
#[derive(Clone, Debug, PartialEq)]
pub struct Opening {
    /// The rule.
    pub rule: RuleRef,
    /// The name of its policy, which exists.
    pub policy: String,
    /// The node and the GPU.
    pub subject: Subject,
    /// The alert. Its `active_at` names the activation: a fault is opened once for each.
    pub alert: Alert,
    /// The expression, for the evidence.
    pub expr: String,
    /// The summary, or where there is none the description, of the rule's annotations; else the name of the alert.
    pub message: String,
}

/// What became of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// A fault was created.
    Created,
    /// The fault is open already.
    AlreadyOpen,
    /// The fault had ended and is open again.
    Reopened,
    /// Nothing was opened: the alert is only kept firing, and what it was about was seen before the node's object was
    /// made. The machine that has joined under this name since may be another.
    OfAnEarlierMachine,
}

/// A fault could not be opened. It is tried again at the next evaluation.
#[derive(Debug, thiserror::Error)]
#[error("cannot open a fault on node {node}")]
pub struct OpenError {
    /// The node.
    pub node: String,
    /// Why.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// What one evaluation of one rule showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The rule.
    pub rule: RuleRef,
    /// The evaluation time.
    pub at: Timestamp,
    /// Whether the answer can be trusted. If not, nothing is known of any of the rule's faults, and `firing` is as it was.
    pub known: bool,
    /// The firing alerts with their subjects. A subject that is neither here nor in `stale` or `unclear` is silent.
    pub firing: Vec<(Subject, Alert)>,
    /// Subjects of alerts that are stale: nothing is known of those that are not in `firing` as well.
    pub stale: Vec<Subject>,
    /// Subjects of which nothing is known, because their value is NaN or a histogram.
    pub unclear: Vec<Subject>,
}

/// Opens faults, and learns what the rules say.
pub trait FaultOpener: Send + Sync + 'static {
    /// Opens a fault, unless it is open. Called again at each evaluation until it succeeds, and once more after a restart.
    fn open(&self, opening: Opening) -> impl Future<Output = Result<Opened, OpenError>> + Send;

    /// The UID of a node's object, where it is known at the moment.
    fn node_uid(&self, node: &str) -> Option<String>;

    /// Takes note that a rule cannot open what it finds, from now on and for this reason.
    fn in_vain(&self, rule: &RuleRef, reason: &str, message: &str);

    /// Takes note of an evaluation.
    fn judged(&self, judgement: Judgement) -> impl Future<Output = ()> + Send;
}
