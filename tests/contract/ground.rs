//! What a case stands on: a client, a namespace of its own, and requests whose answers are seen whole.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use hyper::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// `application/merge-patch+json`.
pub const MERGE: &str = "application/merge-patch+json";
/// `application/json-patch+json`.
pub const JSON: &str = "application/json-patch+json";
/// `application/strategic-merge-patch+json`.
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// `application/apply-patch+yaml`; JSON is YAML too.
pub const APPLY: &str = "application/apply-patch+yaml";

/// Where the product's own resources are.
pub const CUSTOM: &str = "/apis/gpu-remediator.dev/v1alpha1";

/// How long a case waits for what must come, on a server that is busy with other cases.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server and a place on it where nobody else is.
pub struct Ground {
    /// An administrator's client that retries nothing.
    pub client: Client,
    /// A namespace of the case's own; its name is unique on the server.
    pub namespace: String,
    /// Makes the server forget what changed, where it would otherwise remember everything.
    pub forget: Arc<dyn Fn() + Send + Sync>,
}

/// An answer, whole.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status code.
    pub code: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body; a string where it is not JSON.
    pub body: Value,
}

impl Answer {
    /// The body, if the code is that one.
    #[track_caller]
    pub fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.body);
        self.body
    }

    /// The `Status`, if the server refused for this reason.
    #[track_caller]
    pub fn refused(self, code: u16, reason: &str) -> Value {
        let status = self.expect(code);
        assert_eq!(status["kind"], "Status", "{status}");
        assert_eq!(status["apiVersion"], "v1", "{status}");
        assert_eq!(status["status"], "Failure", "{status}");
        assert_eq!(status["reason"], reason, "{status}");
        assert_eq!(status["code"], code, "{status}");
        assert_ne!(status["message"], "", "{status}");
        status
    }

    /// Refused as not valid, with a cause for each of these fields: path and reason. A cause that the server gives twice
    /// counts once, and its remark that it checked no further counts as none.
    #[track_caller]
    pub fn invalid(self, causes: &[(&str, &str)]) -> Value {
        let status = self.refused(422, "Invalid");
        let mut found: Vec<(&str, &str)> = status["details"]["causes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|c| (text(&c["field"]), text(&c["reason"])))
            .filter(|(field, _)| *field != "<nil>")
            .collect();
        found.dedup();
        assert_eq!(found, causes, "{status}");
        status
    }
}

/// A string, or an empty one.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The object's resourceVersion, as it stands there.
pub fn version(object: &Value) -> &str {
    let version = text(&object["metadata"]["resourceVersion"]);
    assert_ne!(version, "", "{object}");
    version
}

/// The object's resourceVersion as a number, which the API allows to compare since 1.35.
pub fn revision(object: &Value) -> u64 {
    version(object).parse().expect("a number")
}

/// Names of the items of a list.
pub fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("a list");
    items.iter().map(|i| text(&i["metadata"]["name"])).collect()
}

impl Ground {
    /// Makes the namespace.
    pub async fn new(client: Client, name: &str, forget: Arc<dyn Fn() + Send + Sync>) -> Self {
        // The end of a long name tells more than its beginning.
        let name = name.replace('_', "-");
        let from = name.len().saturating_sub(50);
        let namespace = format!("case-{}", name[from..].trim_start_matches('-'));
        let ground = Self {
            client,
            namespace,
            forget,
        };
        let object = json!({"metadata": {"name": ground.namespace, "labels": {"case": "yes"}}});
        ground.post("/api/v1/namespaces", &object).await.expect(201);
        ground
    }

    /// A name for an object that is in no namespace.
    pub fn unique(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    /// Path of a resource in the case's namespace; `name` may be empty, and may have a subresource.
    pub fn path(&self, resource: &str, name: &str) -> String {
        let root = match resource {
            "pods" | "configmaps" => "/api/v1",
            "leases" => "/apis/coordination.k8s.io/v1",
            "poddisruptionbudgets" => "/apis/policy/v1",
            "events" => "/apis/events.k8s.io/v1",
            "deployments" | "replicasets" => "/apis/apps/v1",
            other => panic!("no path for {other}"),
        };
        let path = format!("{root}/namespaces/{}/{resource}/{name}", self.namespace);
        path.trim_end_matches('/').to_owned()
    }

    /// Any request.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(hyper::header::HeaderName, &str)],
        body: Vec<u8>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let request = request.body(Body::from(body)).expect("a request");
        let answer = tokio::time::timeout(PATIENCE, self.client.send(request))
            .await
            .expect("an answer in time")
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        let (head, body) = answer.into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        Answer {
            code: head.status.as_u16(),
            headers: head.headers,
            body,
        }
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, &[], Vec::new()).await
    }

    /// GET in another form.
    pub async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.ask(Method::GET, path, &[(ACCEPT, accept)], Vec::new())
            .await
    }

    /// POST.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send_json(Method::POST, path, body).await
    }

    /// PUT.
    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send_json(Method::PUT, path, body).await
    }

    /// PATCH of one of the four kinds.
    pub async fn patch(&self, path: &str, kind: &str, body: &Value) -> Answer {
        let body = body.to_string().into_bytes();
        self.ask(Method::PATCH, path, &[(CONTENT_TYPE, kind)], body)
            .await
    }

    /// DELETE without options.
    pub async fn delete(&self, path: &str) -> Answer {
        self.ask(Method::DELETE, path, &[], Vec::new()).await
    }

    /// DELETE with options.
    pub async fn delete_with(&self, path: &str, options: &Value) -> Answer {
        self.send_json(Method::DELETE, path, options).await
    }

    async fn send_json(&self, method: Method, path: &str, body: &Value) -> Answer {
        let body = body.to_string().into_bytes();
        self.ask(method, path, &[(CONTENT_TYPE, "application/json")], body)
            .await
    }

    /// Makes a ConfigMap with one entry, `value`.
    pub async fn config_map(&self, name: &str, value: &str) -> Value {
        let object = json!({"metadata": {"name": name}, "data": {"value": value}});
        self.post(&self.path("configmaps", ""), &object)
            .await
            .expect(201)
    }

    /// A pod that no scheduler looks at, bound to a node that nobody plays the kubelet of; `edit` makes it another.
    pub async fn pod(&self, name: &str, edit: impl FnOnce(&mut Value)) -> Value {
        let mut object = json!({
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "nodeName": self.unique("node"),
                "schedulerName": "nobody",
                "containers": [{"name": "main", "image": "example.test/workload:1"}],
            },
        });
        edit(&mut object);
        self.post(&self.path("pods", ""), &object).await.expect(201)
    }

    /// A pod that is Running and Ready.
    pub async fn ready_pod(&self, name: &str) -> Value {
        self.pod(name, |_| ()).await;
        self.pod_status(name, "Running", true).await
    }

    /// Writes a pod's phase and its condition Ready.
    pub async fn pod_status(&self, name: &str, phase: &str, ready: bool) -> Value {
        let ready = if ready { "True" } else { "False" };
        let status = json!({"status": {"phase": phase, "conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]}});
        self.patch(
            &self.path("pods", &format!("{name}/status")),
            STRATEGIC,
            &status,
        )
        .await
        .expect(200)
    }

    /// A budget for the pods with the label `app`, counted by hand: of `healthy` healthy pods, `allowed` may go.
    pub async fn budget(&self, name: &str, app: &str, healthy: i64, allowed: i64) -> Value {
        let object = json!({
            "metadata": {"name": name},
            "spec": {"minAvailable": healthy - allowed, "selector": {"matchLabels": {"app": app}}},
        });
        let made = self
            .post(&self.path("poddisruptionbudgets", ""), &object)
            .await
            .expect(201);
        self.count_budget(name, &made, healthy, allowed).await
    }

    /// Writes a budget's status as the disruption controller would.
    pub async fn count_budget(
        &self,
        name: &str,
        made: &Value,
        healthy: i64,
        allowed: i64,
    ) -> Value {
        let status = json!({"status": {
            "observedGeneration": made["metadata"]["generation"],
            "currentHealthy": healthy,
            "desiredHealthy": healthy - allowed,
            "expectedPods": healthy,
            "disruptionsAllowed": allowed,
        }});
        let path = self.path("poddisruptionbudgets", &format!("{name}/status"));
        self.patch(&path, MERGE, &status).await.expect(200)
    }

    /// Asks until the answer is good.
    pub async fn eventually<T>(&self, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        let give_up = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look().await {
                return found;
            }
            assert!(tokio::time::Instant::now() < give_up, "never: {what}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until nothing is at the path.
    pub async fn gone(&self, path: &str) {
        self.eventually(&format!("{path} to be gone"), async || {
            (self.get(path).await.code == 404).then_some(())
        })
        .await;
    }

    /// Opens a watch; `query` follows `watch=true`.
    pub async fn watch(&self, path: &str, query: &str) -> Watch {
        let uri = format!("{path}?watch=true&{query}");
        let request = Request::get(&uri)
            .body(Body::empty())
            .expect("a request for a watch");
        let answer = tokio::time::timeout(PATIENCE, self.client.send(request))
            .await
            .expect("a watch opens in time")
            .expect("a watch");
        assert_eq!(answer.status().as_u16(), 200, "{uri}");
        Watch {
            body: answer.into_body(),
            read: Vec::new(),
        }
    }
}

/// A watch that is open.
pub struct Watch {
    body: Body,
    read: Vec<u8>,
}

impl Watch {
    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("a line of a watch is JSON"));
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame())
                .await
                .expect("an event in time")?
                .expect("the stream is not cut");
            if let Ok(bytes) = frame.into_data() {
                self.read.extend_from_slice(&bytes);
            }
        }
    }

    /// The next event's type and object.
    pub async fn event(&mut self) -> (String, Value) {
        let event = self.next().await.expect("an event before the end");
        (text(&event["type"]).to_owned(), event["object"].clone())
    }

    /// The object of the next event, which must be of that type and about that name.
    #[track_caller]
    pub fn expect<'a>(
        &'a mut self,
        kind: &'a str,
        name: &'a str,
    ) -> impl Future<Output = Value> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let (found, object) = self.event().await;
            let (found_name, at) = (text(&object["metadata"]["name"]), caller.line());
            assert_eq!(
                (found.as_str(), found_name),
                (kind, name),
                "line {at}: {object}"
            );
            object
        }
    }
}
