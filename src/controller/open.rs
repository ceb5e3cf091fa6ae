//! Opens faults. The object's name is made from the fingerprint, so that the API server itself refuses a second one,
//! whatever restarts, races or repeats.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

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
use crate::remediation::refire::refire;
use crate::remediation::world::RuleFacts;
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
        let uid = self.node_uid(&opening.subject.node).await?;
        let fingerprint = fingerprint(&opening.subject, &uid, &opening.rule.alert);
        let name = fingerprint.object_name();
        if let Some(known) = ctx.caches.fault(&name) {
            return self.seen_again(&known, opening).await;
        }
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

    async fn seen_again(&self, known: &GpuFault, opening: &Opening) -> Result<Opened, Cause> {
        let fault = reconcile::fault(known);
        let Some(status) = refire(&fault, opening.alert.active_at, Timestamp::now()) else {
            return Ok(Opened::AlreadyOpen);
        };
        self.ctx.leadership.check()?;
        let written = faults::write_status(&self.ctx.clients.act, known, status).await?;
        self.ctx
            .events
            .publish(&written, true, "Refired", "The rule fires again");
        self.ctx.caches.wrote(written);
        self.ctx.nudges.nudge(&fault.name);
        Ok(Opened::Reopened)
    }

    /// The node's UID; empty where there is no such node, which makes a fault that fails and says so.
    async fn node_uid(&self, node: &str) -> Result<String, NodeError> {
        if let Some(node) = self.ctx.caches.nodes.get(&ObjectRef::new(node)) {
            return Ok(node.uid().unwrap_or_default());
        }
        let node = nodes::read(&self.ctx.clients.act, node).await?;
        Ok(node.and_then(|n| n.uid()).unwrap_or_default())
    }
}

impl FaultOpener for Opener {
    async fn open(&self, opening: Opening) -> Result<Opened, OpenError> {
        self.try_open(&opening).await.map_err(|cause| OpenError {
            node: opening.subject.node.clone(),
            source: Box::new(cause),
        })
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
        let name = |subject: &Subject| {
            let node = self.ctx.caches.nodes.get(&ObjectRef::new(&subject.node));
            let uid = node.and_then(|n| n.uid()).unwrap_or_default();
            fingerprint(subject, &uid, &judgement.rule.alert).object_name()
        };
        let mut facts: BTreeMap<String, RuleFacts> = BTreeMap::new();
        facts.extend(
            judgement
                .firing
                .iter()
                .map(|(subject, _)| (name(subject), RuleFacts::Firing)),
        );
        facts.extend(
            judgement
                .unclear
                .iter()
                .map(|subject| (name(subject), RuleFacts::Unknown)),
        );
        let silent = if judgement.known {
            RuleFacts::Silent
        } else {
            RuleFacts::Unknown
        };
        for fault in self.ctx.caches.faults.state() {
            if fault.spec.rule_ref.as_ref() != Some(&judgement.rule) {
                continue;
            }
            let name = fault.name_any();
            let says = match facts.get(&name) {
                Some(says) if judgement.known => *says,
                _ => silent,
            };
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
    let gpu = GpuRef {
        index: subject.gpu.clone(),
        uuid: subject.uuid.clone(),
        pci_bus_id: subject.pci_bus_id.clone(),
    };
    let alert = &opening.alert;
    GpuFaultSpec {
        node_name: subject.node.clone(),
        node_uid: Some(node_uid.to_string()).filter(|uid| !uid.is_empty()),
        gpu: Some(gpu).filter(|gpu| *gpu != GpuRef::default()),
        xid: subject.xid,
        message: opening.message.clone(),
        fault_time: Some(alert.active_at),
        fingerprint: Some(fingerprint),
        rule_ref: Some(opening.rule.clone()),
        policy_ref: PolicyRef {
            name: opening.policy.clone(),
        },
        evidence: Some(Evidence {
            query: opening.expr.clone(),
            value: alert.value.to_string(),
            labels: alert.labels.clone(),
            sample_time: alert.sample_time,
        }),
    }
}
