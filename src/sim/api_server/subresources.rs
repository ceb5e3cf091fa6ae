//! Subresources of the built-in kinds besides status: `binding` and `scale`.

use serde_json::{Value, json};

use super::ApiServer;
use super::history::Verb;
use super::patch::Patch;
use super::refusal::Refusal;
use super::requests::Asked;
use super::resources::{PODS, Resource};
use super::state::{Access, Key, State};

impl State {
    /// Gives a pod its node.
    pub(super) fn bind(&mut self, access: &Access, key: &Key, node: &str) -> Result<(), Refusal> {
        if node.is_empty() {
            return Err(Refusal::bad_request("target.name is required"));
        }
        let pod = self
            .get(PODS, key)
            .cloned()
            .ok_or_else(|| Refusal::not_found(PODS, &key.1))?;
        if !pod.value["metadata"]["deletionTimestamp"].is_null() {
            let why = format!(
                "pod {} is being deleted, cannot be assigned to a host",
                key.1
            );
            return Err(Refusal::conflict(PODS, &key.1, &why));
        }
        let bound = pod.value["spec"]["nodeName"].as_str().unwrap_or_default();
        if !bound.is_empty() {
            let why = format!("pod {} is already assigned to node {bound:?}", key.1);
            return Err(Refusal::conflict(PODS, &key.1, &why));
        }
        let now = self.now();
        let mut after = (*pod.value).clone();
        after["spec"]["nodeName"] = json!(node);
        if !after["status"]["conditions"].is_array() {
            after["status"]["conditions"] = json!([]);
        }
        if let Some(conditions) = after["status"]["conditions"].as_array_mut() {
            conditions.retain(|c| c["type"] != "PodScheduled");
            conditions.push(json!({
                "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
            }));
        }
        self.put(access, PODS, key, Some(after));
        Ok(())
    }
}

impl ApiServer {
    /// Reads or writes the number of replicas.
    pub(super) fn scale(
        &self,
        access: &Access,
        resource: &'static Resource,
        key: &Key,
        verb: Verb,
        asked: &Asked,
    ) -> Result<Value, Refusal> {
        let found = self.read(|state| state.get(resource, key).cloned());
        let object = found.ok_or_else(|| Refusal::not_found(resource, &key.1))?;
        let present = scale_of(&object.value);
        let wanted = match verb {
            Verb::Get => return Ok(present),
            Verb::Update => serde_json::from_slice(&asked.body)
                .map_err(|e| Refusal::bad_request(format!("the body is not JSON: {e}")))?,
            Verb::Patch => {
                let content_type = asked.headers.get(hyper::header::CONTENT_TYPE);
                let content_type = content_type.and_then(|v| v.to_str().ok());
                Patch::parse(resource, content_type.unwrap_or_default(), &asked.body)?
                    .applied_to(&present)?
            }
            _ => {
                return Err(Refusal::new(
                    405,
                    "MethodNotAllowed",
                    "the server does not allow this method on the requested resource",
                ));
            }
        };
        let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
        let version = wanted["metadata"]["resourceVersion"].clone();
        let changed = self.write(|state| {
            state.update(access, resource, key, |object| {
                let mut object = object.clone();
                object["spec"]["replicas"] = json!(replicas);
                if !version.is_null() {
                    object["metadata"]["resourceVersion"] = version;
                }
                Ok(object)
            })
        })?;
        Ok(scale_of(&changed.value))
    }
}

fn scale_of(object: &Value) -> Value {
    let meta = &object["metadata"];
    let labels = object["spec"]["selector"]["matchLabels"].as_object();
    let selector: Vec<String> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
            "creationTimestamp": meta["creationTimestamp"],
        },
        "spec": {"replicas": object["spec"]["replicas"].as_i64().unwrap_or(1)},
        "status": {
            "replicas": object["status"]["replicas"].as_i64().unwrap_or(0),
            "selector": selector.join(","),
        },
    })
}
