//! A node, its GPU pods, a PodDisruptionBudget and a scripted Prometheus; and an executor that may lose a write, an
//! effect or an answer at each step.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::api::fault::{PolicyRef, RuleRef};
use crate::api::fault_status::{Action, OwnerRef, Phase, PodRef};
use crate::api::policy::{
    Budget, Cordon, EvictPods, Guards, Healthy, Mode, Recovery, Step, Verify,
};
use crate::api::{GpuFaultSpec, GpuFaultStatus, PromDuration, RemediationPolicySpec};
use crate::guards::budget::Usage;
use crate::remediation::decide;
use crate::remediation::decision::{Decision, Effect, Next, Observation};
use crate::remediation::drain::note_evicted;
use crate::remediation::mark;
use crate::remediation::proof::Watched;
use crate::remediation::world::{
    Fault, Finding, FleetFacts, GuardFindings, NodeFacts, PodFacts, RuleFacts, World,
};
use crate::slo::matching::Candidate;

/// What becomes of one decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Status written, effect performed, answer heard.
    Done,
    /// Somebody else changed the object first: nothing is done.
    Conflict,
    /// The process dies after the status was written.
    DiesBeforeEffect,
    /// The process dies after the effect, before it heard the answer.
    DiesAfterEffect,
}

/// The cluster, Prometheus, and one fault.
#[derive(Clone, Debug)]
pub struct Sim {
    pub now: Timestamp,
    pub fault: Fault,
    pub world: World,
    /// The node as it is; `world.node` is how it is seen.
    pub node: Option<NodeFacts>,
    /// The watch on nodes is late.
    pub lag: bool,
    pub pods: Vec<PodFacts>,
    pub health: Option<bool>,
    pub verify: Option<bool>,
    /// What this process has seen of health and verification.
    pub watched: [Option<Watched>; 2],
    /// The object is gone for good.
    pub gone: bool,
    pub effects: Vec<Effect>,
    pub observations: Vec<Observation>,
    /// UIDs in the order in which the API server accepted their eviction.
    pub evicted: Vec<String>,
}

pub fn seconds(n: i64) -> SignedDuration {
    SignedDuration::from_secs(n)
}

pub fn clear() -> Option<GuardFindings> {
    Some(GuardFindings::default())
}

pub fn named(name: &str) -> Option<(String, String)> {
    Some((name.to_string(), "because".to_string()))
}

pub fn policy() -> RemediationPolicySpec {
    RemediationPolicySpec {
        mode: Mode::Enforce,
        node_selector: None,
        guards: Guards::default(),
        budget: Budget {
            max_unavailable: Some(IntOrString::Int(1)),
            max_concurrent: Some(1),
        },
        steps: vec![
            Step::Cordon(Cordon {}),
            Step::EvictPods(EvictPods {
                timeout: PromDuration::from_secs(300),
            }),
            Step::Verify(Verify {
                expr: "up".into(),
                hold: PromDuration::from_secs(5),
                timeout: PromDuration::from_secs(600),
            }),
        ],
        recovery: Recovery {
            healthy: Healthy {
                expr: "up".into(),
                hold: PromDuration::from_secs(10),
            },
            reschedule_deadline: PromDuration::from_secs(60),
            retention: PromDuration::from_secs(3600),
        },
    }
}

pub fn pod(uid: &str) -> PodFacts {
    PodFacts {
        pod: PodRef {
            namespace: "ml".into(),
            name: uid.into(),
            uid: uid.into(),
        },
        created: Timestamp::UNIX_EPOCH,
        terminating: false,
        finished: false,
        ready: true,
        stays: None,
        owner: Some(OwnerRef {
            kind: "Deployment".into(),
            name: "llm".into(),
            uid: "o".into(),
        }),
        slot: None,
        budgets: vec!["ml/llm".into()],
        retry_after: None,
        refused: None,
    }
}

pub fn node(uid: &str) -> NodeFacts {
    NodeFacts {
        name: "n1".into(),
        uid: uid.into(),
        unschedulable: false,
        ready: true,
        labels: BTreeMap::new(),
        mark: None,
        mark_unreadable: false,
    }
}

impl Sim {
    /// A faulty GPU on a node with these pods, nothing holding back, the repair not proven yet.
    pub fn new(pods: &[&str]) -> Self {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let spec = GpuFaultSpec {
            node_name: "n1".into(),
            node_uid: None,
            gpu: None,
            xid: Some(79),
            message: String::new(),
            fault_time: None,
            fingerprint: None,
            rule_ref: Some(RuleRef {
                name: "r".into(),
                group: "g".into(),
                alert: "a".into(),
            }),
            policy_ref: PolicyRef { name: "p".into() },
            evidence: None,
        };
        Self {
            now,
            fault: Fault {
                name: "f".into(),
                uid: "f-uid".into(),
                generation: Some(1),
                created: now,
                deleting: false,
                retry_requested: false,
                spec,
                status: GpuFaultStatus::default(),
            },
            world: World {
                policy: Some(policy()),
                guards: clear(),
                fleet: FleetFacts {
                    selects_node: true,
                    usage: Some(Usage {
                        nodes: 10,
                        ..Usage::default()
                    }),
                },
                disruptions_allowed: BTreeMap::from([("ml/llm".into(), 9)]),
                rule: RuleFacts::Firing,
                ..World::default()
            },
            node: Some(node("n1-uid")),
            lag: false,
            pods: pods.iter().map(|p| pod(p)).collect(),
            health: Some(false),
            verify: Some(false),
            watched: [None, None],
            gone: false,
            effects: Vec::new(),
            observations: Vec::new(),
            evicted: Vec::new(),
        }
    }

    /// The world as the controller sees it now.
    pub fn look(&mut self) -> World {
        let finding = |holds| Finding {
            holds,
            detail: "scripted".into(),
            asked_at: self.now,
            unbroken_since: None,
        };
        let questions = [("healthy", self.health), ("verify", self.verify)];
        for (watched, (query, holds)) in self.watched.iter_mut().zip(questions) {
            *watched = Some(Watched::after(watched.as_ref(), query, holds, self.now));
        }
        let [health, verify] = &self.watched;
        let found = |holds, watched: &Option<Watched>| Finding {
            unbroken_since: watched.as_ref().and_then(|w| w.unbroken_since),
            ..finding(holds)
        };
        self.world.health = Some(found(self.health, health));
        self.world.verify = Some(found(self.verify, verify));
        if !self.lag {
            self.world.node = self.node.clone();
        }
        self.world.pods = Some(self.pods.clone());
        self.world.clone()
    }

    pub fn decide(&mut self) -> Decision {
        let world = self.look();
        decide(&self.fault, &world, self.now)
    }

    pub fn apply(&mut self, decision: &Decision, fate: Fate) {
        if fate == Fate::Conflict {
            return;
        }
        if let Some(status) = &decision.status {
            self.fault.status = status.clone();
        }
        self.observations.extend(decision.observations.clone());
        if fate != Fate::DiesBeforeEffect
            && let Some(effect) = &decision.effect
        {
            self.perform(effect, fate == Fate::Done);
        }
        if fate != Fate::Done {
            // Another process starts: it lists afresh, and has asked nothing yet.
            (self.lag, self.watched) = (false, [None, None]);
        }
    }

    fn perform(&mut self, effect: &Effect, heard: bool) {
        self.effects.push(effect.clone());
        let (name, uid) = (&self.fault.name, &self.fault.uid);
        let expected = self.fault.status.node_uid.clone();
        let node = self.node.as_mut();
        let node = node.filter(|n| expected.is_none_or(|uid| uid == n.uid));
        match effect {
            Effect::Cordon | Effect::Uncordon => {
                let Some(node) = node else { return };
                let change = if *effect == Effect::Cordon {
                    mark::cordon(node, name, uid)
                } else {
                    mark::uncordon(node, name, uid)
                };
                if let Some(change) = change {
                    mark::tests::apply(node, change);
                }
            }
            Effect::Evict(pods) => self.evict(pods, heard),
            Effect::RemoveFinalizer => self.gone = true,
            Effect::ClearRetry => self.fault.retry_requested = false,
            Effect::Delete => self.fault.deleting = true,
        }
    }

    fn evict(&mut self, pods: &[PodRef], heard: bool) {
        let mut accepted = Vec::new();
        for wanted in pods {
            let Some(pod) = self.pods.iter_mut().find(|p| p.pod.uid == wanted.uid) else {
                continue;
            };
            if pod.budgets.len() > 1 {
                pod.refused = Some("This pod has more than one PodDisruptionBudget.".into());
                continue;
            }
            let allowed = self.world.disruptions_allowed.get_mut("ml/llm").unwrap();
            if *allowed < 1 {
                pod.retry_after = Some(self.now + seconds(5));
                continue;
            }
            *allowed -= 1;
            pod.terminating = true;
            self.evicted.push(wanted.uid.clone());
            accepted.push(wanted.clone());
        }
        if heard {
            note_evicted(&mut self.fault.status, &accepted, self.now);
        }
    }

    /// Decides and acts until there is nothing to do at this moment. More than a few rounds are a livelock.
    pub fn settle(&mut self) -> Next {
        for _ in 0..8 {
            let decision = self.decide();
            self.apply(&decision, Fate::Done);
            if decision.next != Next::Now || self.gone {
                return decision.next;
            }
        }
        panic!("no end: {:?}\n{:#?}", self.effects, self.fault.status);
    }

    /// Lets time pass, a second at a time, and settles at each.
    pub fn run(&mut self, length: i64) {
        for _ in 0..length {
            self.now += seconds(1);
            self.settle();
            if self.gone {
                return;
            }
        }
    }

    /// Pods that are ending end; their budget lets as many go again.
    pub fn end_pods(&mut self) {
        let before = self.pods.len();
        self.pods.retain(|p| !p.terminating);
        let ended = i32::try_from(before - self.pods.len()).unwrap();
        *self.world.disruptions_allowed.get_mut("ml/llm").unwrap() += ended;
    }

    /// Settles and ends pods until none of them is left to end.
    pub fn drain(&mut self) {
        for _ in 0..20 {
            self.run(1);
            self.end_pods();
        }
    }

    pub fn phase(&self) -> Phase {
        self.fault.status.phase
    }

    pub fn reason(&self) -> &str {
        &self.fault.status.reason
    }

    pub fn condition(&self, type_: &str) -> Option<(String, String)> {
        let condition = crate::api::conditions::get(&self.fault.status.conditions, type_);
        condition.map(|c| (c.status.clone(), c.reason.clone()))
    }

    pub fn is_cordoned(&self) -> bool {
        self.node.as_ref().is_some_and(|n| n.unschedulable)
    }

    pub fn is_marked(&self) -> bool {
        let holds = |m: &mark::CordonMark| m.holds(&self.fault.name, &self.fault.uid);
        let node = self.node.as_ref();
        node.and_then(|n| n.mark.as_ref()).is_some_and(holds)
    }

    pub fn uncordon_by_person(&mut self) {
        self.node.as_mut().unwrap().unschedulable = false;
    }

    pub fn set_allowed(&mut self, allowed: i32) {
        let budgets = &mut self.world.disruptions_allowed;
        budgets.insert("ml/llm".into(), allowed);
    }

    pub fn destructive_effects(&self) -> usize {
        let destructive = [Some(Action::Cordon), Some(Action::EvictPods)];
        let effects = self.effects.iter();
        effects
            .filter(|e| destructive.contains(&e.action()))
            .count()
    }

    /// A replacement that is Ready on another node for every pod that was evicted.
    pub fn replace_pods(&mut self) {
        let uids: BTreeSet<_> = self.evicted.iter().cloned().collect();
        let candidates = uids.iter().map(|uid| Candidate {
            name: format!("new-{uid}"),
            uid: format!("new-{uid}"),
            namespace: "ml".into(),
            owner: pod(uid).owner,
            slot: None,
            created: self.now,
            node: Some("n2".into()),
            ready_since: Some(self.now),
            ending: false,
            gated: false,
            unschedulable: false,
            start_failure: false,
        });
        self.world.candidates = Some(candidates.collect());
    }
}
