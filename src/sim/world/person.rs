//! What people do to a cluster, in the way in which `kubectl` does it.

use serde_json::{Value, json};

use crate::api::names::{RESUME_ANNOTATION, RETRY_ANNOTATION};
use crate::sim::api_server::resources::{
    DEPLOYMENTS, GPU_FAULT_RULES, GPU_FAULTS, JOBS, NODES, PODS, REMEDIATION_POLICIES,
    STATEFUL_SETS,
};
use crate::sim::api_server::{Refusal, Resource, Store};

/// The actor of everything that people write.
pub const PERSON: &str = "person";

/// A person with `kubectl`.
#[derive(Clone)]
pub struct Person {
    store: Store,
}

type Done = Result<(), Refusal>;

impl Person {
    pub(super) fn new(store: Store) -> Self {
        Self { store }
    }

    /// `kubectl cordon`.
    ///
    /// # Errors
    ///
    /// As the API refuses; so for each of the others.
    pub fn cordon(&self, node: &str) -> Done {
        self.set(NODES, None, node, |node| {
            node["spec"]["unschedulable"] = json!(true);
        })
    }

    /// `kubectl uncordon`.
    ///
    /// # Errors
    ///
    /// As the API refuses.
    pub fn uncordon(&self, node: &str) -> Done {
        self.set(NODES, None, node, |node| {
            if let Some(spec) = node["spec"].as_object_mut() {
                spec.remove("unschedulable");
            }
        })
    }

    /// `kubectl delete node`.
    ///
    /// # Errors
    ///
    /// As the API refuses.
    pub fn delete_node(&self, node: &str) -> Done {
        self.store.delete(NODES, None, node, None)
    }

    /// `kubectl delete pod`.
    ///
    /// # Errors
    ///
    /// As the API refuses.
    pub fn delete_pod(&self, namespace: &str, pod: &str) -> Done {
        self.store.delete(PODS, Some(namespace), pod, None)
    }

    /// `kubectl delete gpufault`.
    ///
    /// # Errors
    ///
    /// As the API refuses.
    pub fn delete_fault(&self, fault: &str) -> Done {
        self.store.delete(GPU_FAULTS, None, fault, None)
    }

    /// `kubectl delete gpufaultrule`.
    ///
    /// # Errors
    ///
    /// As the API refuses.
    pub fn delete_rule(&self, rule: &str) -> Done {
        self.store.delete(GPU_FAULT_RULES, None, rule, None)
    }

    /// `kubectl scale deployment`.
    ///
    /// # Errors
    ///
    /// As the API refuses.
    pub fn scale_deployment(&self, namespace: &str, name: &str, replicas: u32) -> Done {
        self.set(DEPLOYMENTS, Some(namespace), name, |o| {
            o["spec"]["replicas"] = json!(replicas);
        })
    }

    /// `kubectl scale statefulset`.
    ///
    /// # Errors
    ///
    /// As the API refuses.
    pub fn scale_stateful_set(&self, namespace: &str, name: &str, replicas: u32) -> Done {
        self.set(STATEFUL_SETS, Some(namespace), name, |o| {
            o["spec"]["replicas"] = json!(replicas);
        })
    }

    /// Suspends a Job, or lets it go on.
    ///
    /// # Errors
    ///
    /// As the API refuses.
    pub fn suspend_job(&self, namespace: &str, name: &str, suspend: bool) -> Done {
        self.set(JOBS, Some(namespace), name, |o| {
            o["spec"]["suspend"] = json!(suspend);
        })
    }

    /// Asks for another try of a fault.
    ///
    /// # Errors
    ///
    /// As the API refuses.
    pub fn retry(&self, fault: &str) -> Done {
        self.annotate(GPU_FAULTS, fault, RETRY_ANNOTATION)
    }

    /// Resumes a policy that a guard has stopped.
    ///
    /// # Errors
    ///
    /// As the API refuses.
    pub fn resume(&self, policy: &str) -> Done {
        self.annotate(REMEDIATION_POLICIES, policy, RESUME_ANNOTATION)
    }

    /// Edits an object.
    ///
    /// # Errors
    ///
    /// As the API refuses.
    pub fn set(
        &self,
        resource: &'static Resource,
        namespace: Option<&str>,
        name: &str,
        edit: impl FnOnce(&mut Value),
    ) -> Done {
        self.store.change(resource, namespace, name, edit)?;
        Ok(())
    }

    /// Makes an object.
    ///
    /// # Errors
    ///
    /// As the API refuses.
    pub fn create(&self, resource: &'static Resource, object: Value) -> Done {
        self.store.create(resource, object)?;
        Ok(())
    }

    fn annotate(&self, resource: &'static Resource, name: &str, annotation: &str) -> Done {
        self.set(resource, None, name, |object| {
            if object["metadata"]["annotations"].is_null() {
                object["metadata"]["annotations"] = json!({});
            }
            object["metadata"]["annotations"][annotation] = json!("yes");
        })
    }
}
