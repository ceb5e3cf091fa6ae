//! Tables: what `kubectl get` prints.

use hyper::header::HeaderMap;
use serde_json::{Value, json};

use super::requests::accepted;
use super::resources::Resource;

/// Is a table asked for before anything else that the server can give?
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let first = accepted(headers)
        .split(',')
        .find(|media| media.trim().starts_with("application/json"));
    first.is_some_and(|media| media.contains("as=Table") && media.contains("v=v1"))
}

/// The objects as a table.
pub(super) fn table(resource: &Resource, objects: &[&Value], meta: &Value) -> Value {
    let _ = resource;
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let meta = &object["metadata"];
            json!({
                "cells": [meta["name"], meta["creationTimestamp"]],
                "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta},
            })
        })
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": if meta.is_null() { json!({}) } else { meta.clone() },
        "columnDefinitions": [
            {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
            {"name": "Created At", "type": "date", "format": "", "description": "", "priority": 0},
        ],
        "rows": rows,
    })
}
