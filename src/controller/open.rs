//! Opens faults. The object's name is made from the fingerprint, so that the API server itself refuses a second one,
//! whatever restarts, races or repeats.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use super::caches::in_order;
use super::context::Context;
use super::opening::{FaultOpener, Judgement, OpenError, Opened, Opening};
use super::reconcile;
use crate::api::fault::{Evidence, GpuRef, PolicyRef, RuleRef};
use crate::api::names::{FINALIZER, Fingerprint};
use crate::api::{GpuFault, GpuFaultSpec};
use crate::kubernetes::clients::ApiError;
use crate::kubernetes::faults;
use crate::kubernetes::lease::NotLeader;
use crate::kubernetes::nodes::{self, NodeError};
use crate::kubernetes::views::NodeView;
use crate::remediation::refire::{Refire, refire};
use crate::remediation::world::RuleFacts;
use crate::rules::alert::Alert;
use crate::rules::identity::is_same;
use crate::rules::subject::Subject;

/// Opens faults on the API server.
pub struct Opener {
    ctx: Arc<Context>,
}

/// Why a fault was not opened.
#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("not acting")]
    NotLeader(#[from] NotLeader),
    #[error("the node is being given back at this moment")]
    Busy,
    #[error("looking for the node")]
    Node(#[from] NodeError),
    #[error("writing the fault")]
    Api(#[from] ApiError),
}

impl Opener {
    /// Opens by this context.
    pub fn new(ctx: Arc<Context>) -> Self {
        Self { ctx }
    }

    async fn try_open(&self, opening: &Opening) -> Result<Opened, Cause> {
        let ctx = &self.ctx;
        ctx.leadership.check()?;
        let node = self.node(&opening.subject.node).await?;
        let created = node.as_ref().and_then(|node| node.creation_timestamp());
        if created.is_some_and(|created| is_of_an_earlier_machine(&opening.alert, created.0)) {
            return Ok(Opened::OfAnEarlierMachine);
        }
        let uid = node.and_then(|node| node.uid()).unwrap_or_default();
        if let Some(known) = self.known(&opening.rule, &opening.subject, &uid) {
            return self.seen_again(&known, opening).await;
        }
        let fingerprint = fingerprint(&opening.subject, &uid, &opening.rule.alert);
        let name = fingerprint.object_name();
        let digest = fingerprint.digest();
        let mut fault = GpuFault::new(&name, spec(opening, &uid, digest));
        // Created with its finalizer: an open fault cannot be deleted without its isolation being undone.
        fault.metadata.finalizers = Some(vec![FINALIZER.to_string()]);
        match faults::create(&ctx.clients.act, &fault).await {
            Ok(created) => {
                tracing::info!(
                    fault = name,
                    node = opening.subject.node,
                    alert = opening.rule.alert,
                    "fault opened"
                );
                ctx.caches.wrote(created);
                ctx.memory.rule_fires_anew(&name);
                Ok(Opened::Created)
            }
            Err(error) if error.is_conflict() => match faults::read(&ctx.clients.act, &name).await?
            {
                Some(known) => self.seen_again(&known, opening).await,
                None => Err(Cause::Api(error)),
            },
            Err(error) => Err(Cause::Api(error)),
        }
    }

    /// The fault that the alert is about, under whichever of the GPU's names it was opened; an open one first.
    fn known(&self, rule: &RuleRef, subject: &Subject, node_uid: &str) -> Option<Arc<GpuFault>> {
        let faults = self.ctx.caches.all_faults();
        let mut same = faults
            .into_iter()
            .filter(|f| is_same(&f.spec, rule, subject, node_uid))
            .collect::<Vec<_>>();
        same.sort_by_key(|f| f.status.as_ref().is_some_and(|s| s.phase.is_over()));
        same.into_iter().next()
    }

    async fn seen_again(&self, known: &GpuFault, opening: &Opening) -> Result<Opened, Cause> {
        let fault = reconcile::fault(known);
        let was_silent = self.ctx.memory.rule_was_silent(&fault.name);
        let status = match refire(
            &fault,
            was_silent,
            opening.alert.active_at,
            self.ctx.clock.now(),
        ) {
            Refire::Nothing => return Ok(Opened::AlreadyOpen),
            Refire::Busy => return Err(Cause::Busy),
            Refire::Again(status) => *status,
        };
        self.ctx.leadership.check()?;
        let written = faults::write_status(&self.ctx.clients.act, known, status).await?;
        self.ctx
            .events
            .publish(&written, true, "Refired", "The rule fires again");
        self.ctx.caches.wrote(written);
        self.ctx.memory.rule_fires_anew(&fault.name);
        self.ctx.nudges.nudge(&fault.name);
        Ok(Opened::Reopened)
    }

    /// The node; one that there is not makes a fault that fails and says so.
    async fn node(&self, node: &str) -> Result<Option<Arc<NodeView>>, NodeError> {
        if let Some(node) = self.ctx.caches.nodes.get(&ObjectRef::new(node)) {
            return Ok(Some(node));
        }
        let node = nodes::read(&self.ctx.clients.act, node).await?;
        Ok(node.map(Arc::new))
    }
}

/// Whether nothing of what an alert is about was seen since its node's object was made. While the series is there, it is
/// the machine's that is there now.
fn is_of_an_earlier_machine(alert: &Alert, created: Timestamp) -> bool {
    !alert.seen && alert.sample_time < created
}

impl FaultOpener for Opener {
    async fn open(&self, opening: Opening) -> Result<Opened, OpenError> {
        self.try_open(&opening).await.map_err(|cause| OpenError {
            node: opening.subject.node.clone(),
            source: Box::new(cause),
        })
    }

    fn node_uid(&self, node: &str) -> Option<String> {
        self.ctx.caches.nodes.get(&ObjectRef::new(node))?.uid()
    }

    fn in_vain(&self, rule: &RuleRef, reason: &str, message: &str) {
        if let Some(object) = self.ctx.caches.rules.get(&ObjectRef::new(&rule.name)) {
            let note = format!("Alert {} of group {}: {message}", rule.alert, rule.group);
            self.ctx
                .events
                .publish(object.as_ref(), true, reason, &note);
        }
    }

    async fn judged(&self, judgement: Judgement) {
        let uid = |node: &str| {
            let node = self.ctx.caches.nodes.get(&ObjectRef::new(node));
            node.and_then(|n| n.uid()).unwrap_or_default()
        };
        for fault in in_order(&self.ctx.caches.faults) {
            if fault.spec.rule_ref.as_ref() != Some(&judgement.rule) {
                continue;
            }
            let is_about = |s: &Subject| is_same(&fault.spec, &judgement.rule, s, &uid(&s.node));
            let says = if !judgement.known || judgement.unclear.iter().any(is_about) {
                RuleFacts::Unknown
            } else if judgement
                .firing
                .iter()
                .any(|(subject, _)| is_about(subject))
            {
                RuleFacts::Firing
            } else if judgement.stale.iter().any(is_about) {
                RuleFacts::Unknown
            } else {
                RuleFacts::Silent
            };
            let name = fault.name_any();
            if self.ctx.memory.remember_rule(&name, says) {
                self.ctx.nudges.nudge(&name);
            }
        }
    }
}

fn fingerprint<'a>(subject: &'a Subject, node_uid: &'a str, alert: &'a str) -> Fingerprint<'a> {
    let gpu = subject.uuid.as_deref().or(subject.pci_bus_id.as_deref());
    Fingerprint {
        node: &subject.node,
        node_uid,
        gpu,
        alert,
        xid: subject.xid,
    }
}

fn spec(opening: &Opening, node_uid: &str, fingerprint: String) -> GpuFaultSpec {
    let subject = &opening.subject;
    // What is longer than the schema allows is no name of a GPU; the fault must be opened all the same.
    let bounded =
        |text: &Option<String>, most: usize| text.clone().filter(|t| t.chars().count() <= most);
    let gpu = GpuRef {
        index: bounded(&subject.gpu, 16),
        uuid: bounded(&subject.uuid, 96),
        pci_bus_id: bounded(&subject.pci_bus_id, 32),
    };
    let alert = &opening.alert;
    GpuFaultSpec {
        node_name: subject.node.clone(),
        node_uid: Some(node_uid.to_string()).filter(|uid| !uid.is_empty()),
        gpu: Some(gpu).filter(|gpu| *gpu != GpuRef::default()),
        xid: subject.xid,
        message: opening.message.chars().take(4096).collect(),
        fault_time: Some(alert.active_at),
        fingerprint: Some(fingerprint),
        rule_ref: Some(opening.rule.clone()),
        policy_ref: PolicyRef {
            name: opening.policy.clone(),
        },
        evidence: Some(Evidence {
            query: opening.expr.chars().take(16384).collect(),
            value: alert.value.to_string(),
            labels: alert.labels.clone(),
            sample_time: alert.sample_time,
        }),
    }
}
