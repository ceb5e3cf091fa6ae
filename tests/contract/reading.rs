//! GET and LIST: forms, order, pages, selectors.

use super::ground::{CUSTOM, Ground, names, revision, text, version};
use super::objects;
use serde_json::json;

pub async fn get_answers_what_create_answered(ground: &Ground) {
    let made = ground.config_map("one", "1").await;
    let read = ground
        .get(&ground.path("configmaps", "one"))
        .await
        .expect(200);
    assert_eq!(made, read);
    assert_eq!(read["kind"], "ConfigMap");
    assert_eq!(read["apiVersion"], "v1");
}

pub async fn what_is_not_there_is_not_found(ground: &Ground) {
    let status = ground
        .get(&ground.path("pods", "none"))
        .await
        .refused(404, "NotFound");
    assert_eq!(status["message"], "pods \"none\" not found");
    assert_eq!(status["details"], json!({"name": "none", "kind": "pods"}));
    assert_eq!(status["metadata"], json!({}));
}

pub async fn not_found_names_the_group_too(ground: &Ground) {
    let status = ground
        .get(&ground.path("leases", "none"))
        .await
        .refused(404, "NotFound");
    assert_eq!(
        status["message"],
        "leases.coordination.k8s.io \"none\" not found"
    );
    assert_eq!(
        status["details"],
        json!({"name": "none", "group": "coordination.k8s.io", "kind": "leases"})
    );
    let status = ground
        .get(&format!("{CUSTOM}/gpufaults/{}", ground.unique("none")))
        .await
        .refused(404, "NotFound");
    assert_eq!(status["details"]["group"], "gpu-remediator.dev");
    assert_eq!(status["details"]["kind"], "gpufaults");
}

pub async fn an_unknown_resource_is_not_found(ground: &Ground) {
    let path = format!("/api/v1/namespaces/{}/nothings", ground.namespace);
    let status = ground.get(&path).await.refused(404, "NotFound");
    assert_eq!(
        status["message"],
        "the server could not find the requested resource"
    );
    // No Status where no group is: 404 all the same.
    ground.get(&format!("{CUSTOM}/nothings")).await.expect(404);
    ground.get("/apis/nothing.example/v1").await.expect(404);
}

pub async fn a_list_is_in_the_order_of_the_names(ground: &Ground) {
    for name in ["c", "a", "b"] {
        ground.config_map(name, name).await;
    }
    let list = ground.get(&ground.path("configmaps", "")).await.expect(200);
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(list["apiVersion"], "v1");
    let found: Vec<&str> = names(&list)
        .into_iter()
        .filter(|name| *name != "kube-root-ca.crt")
        .collect();
    assert_eq!(found, ["a", "b", "c"]);
}

pub async fn a_list_is_as_new_as_the_last_write(ground: &Ground) {
    let mut last = 0;
    for name in ["a", "b", "c"] {
        let made = ground.pod(name, |_| ()).await;
        let list = ground.get(&ground.path("pods", "")).await.expect(200);
        assert!(names(&list).contains(&name), "{list}");
        assert!(revision(&list) >= revision(&made));
        assert!(revision(&list) > last);
        last = revision(&list);
    }
}

pub async fn an_empty_list_has_a_revision_and_items(ground: &Ground) {
    let list = ground.get(&ground.path("pods", "")).await.expect(200);
    assert_eq!(list["kind"], "PodList");
    assert_eq!(list["items"], json!([]));
    assert!(revision(&list) > 0);
}

pub async fn a_list_spans_all_namespaces(ground: &Ground) {
    let label = ground.namespace.clone();
    for name in ["a", "b"] {
        ground
            .pod(name, |pod| pod["metadata"]["labels"]["case"] = json!(label))
            .await;
    }
    let list = ground
        .get(&format!("/api/v1/pods?labelSelector=case%3D{label}"))
        .await
        .expect(200);
    assert_eq!(names(&list), ["a", "b"]);
    let here = ground.get(&ground.path("pods", "")).await.expect(200);
    assert_eq!(names(&here), ["a", "b"]);
}

pub async fn a_custom_list_names_the_kind_of_its_items(ground: &Ground) {
    let fault = objects::fault(ground, "one");
    ground
        .post(&format!("{CUSTOM}/gpufaults"), &fault)
        .await
        .expect(201);
    let name = text(&fault["metadata"]["name"]);
    let list = ground
        .get(&format!(
            "{CUSTOM}/gpufaults?fieldSelector=metadata.name%3D{name}"
        ))
        .await
        .expect(200);
    assert_eq!(list["kind"], "GpuFaultList");
    assert_eq!(list["apiVersion"], "gpu-remediator.dev/v1alpha1");
    assert_eq!(names(&list), [name]);
    assert_eq!(list["items"][0]["kind"], "GpuFault");
    assert_eq!(
        list["items"][0]["apiVersion"],
        "gpu-remediator.dev/v1alpha1"
    );
}

async fn five_pods(ground: &Ground) {
    for name in ["a", "b", "c", "d", "e"] {
        ground.pod(name, |_| ()).await;
    }
}

pub async fn pages_follow_one_another_at_one_revision(ground: &Ground) {
    five_pods(ground).await;
    let path = ground.path("pods", "");
    let (mut found, mut left, mut revisions) = (Vec::new(), Vec::new(), Vec::new());
    let mut uri = format!("{path}?limit=2");
    loop {
        let page = ground.get(&uri).await.expect(200);
        found.extend(names(&page).into_iter().map(str::to_owned));
        left.push(page["metadata"]["remainingItemCount"].clone());
        revisions.push(version(&page).to_owned());
        let token = text(&page["metadata"]["continue"]);
        if token.is_empty() {
            break;
        }
        uri = format!("{path}?limit=2&continue={token}");
    }
    assert_eq!(found, ["a", "b", "c", "d", "e"]);
    assert_eq!(left, [json!(3), json!(1), json!(null)]);
    assert!(
        revisions.windows(2).all(|pair| pair[0] == pair[1]),
        "{revisions:?}"
    );
}

pub async fn later_pages_are_as_old_as_the_first(ground: &Ground) {
    five_pods(ground).await;
    let path = ground.path("pods", "");
    let first = ground.get(&format!("{path}?limit=3")).await.expect(200);
    ground.pod("da", |_| ()).await;
    ground
        .delete_with(
            &ground.path("pods", "e"),
            &json!({"gracePeriodSeconds": 0}),
        )
        .await
        .expect(200);
    let token = text(&first["metadata"]["continue"]);
    let second = ground
        .get(&format!("{path}?limit=3&continue={token}"))
        .await
        .expect(200);
    assert_eq!(names(&second), ["d", "e"]);
    assert_eq!(version(&first), version(&second));
    let now = ground.get(&path).await.expect(200);
    assert_eq!(names(&now), ["a", "b", "c", "d", "da"]);
}

pub async fn pages_of_a_selection_do_not_count_what_is_left(ground: &Ground) {
    for name in ["a", "b", "c", "d"] {
        ground
            .pod(name, |pod| {
                pod["metadata"]["labels"]["odd"] = json!(if name < "c" { "yes" } else { "no" });
            })
            .await;
    }
    let path = ground.path("pods", "");
    let page = ground
        .get(&format!("{path}?limit=1&labelSelector=odd%3Dyes"))
        .await
        .expect(200);
    assert_eq!(names(&page), ["a"]);
    assert_eq!(page["metadata"]["remainingItemCount"], json!(null));
    let token = text(&page["metadata"]["continue"]);
    assert_ne!(token, "");
    let next = ground
        .get(&format!(
            "{path}?limit=5&labelSelector=odd%3Dyes&continue={token}"
        ))
        .await
        .expect(200);
    assert_eq!(names(&next), ["b"]);
    assert_eq!(text(&next["metadata"]["continue"]), "");
}

pub async fn a_broken_continue_token_is_refused(ground: &Ground) {
    let path = ground.path("pods", "");
    ground
        .get(&format!("{path}?limit=2&continue=nonsense"))
        .await
        .refused(400, "BadRequest");
}

pub async fn label_selectors_select(ground: &Ground) {
    for (name, labels) in [
        ("a", json!({"tier": "web", "gpu": "yes"})),
        ("b", json!({"tier": "db"})),
        ("c", json!({"gpu": "no"})),
        ("d", json!({})),
    ] {
        ground
            .pod(name, |pod| pod["metadata"]["labels"] = labels)
            .await;
    }
    let path = ground.path("pods", "");
    let cases: [(&str, &[&str]); 10] = [
        ("tier%3Dweb", &["a"]),
        ("tier%3D%3Dweb", &["a"]),
        ("tier%21%3Dweb", &["b", "c", "d"]),
        ("tier", &["a", "b"]),
        ("%21tier", &["c", "d"]),
        ("tier%20in%20%28web%2Cdb%29", &["a", "b"]),
        ("tier%20notin%20%28web%29", &["b", "c", "d"]),
        ("tier%2Cgpu%3Dyes", &["a"]),
        ("gpu%20in%20%28yes%2Cno%29%2C%21tier", &["c"]),
        ("tier%3Dnone", &[]),
    ];
    for (selector, wanted) in cases {
        let list = ground
            .get(&format!("{path}?labelSelector={selector}"))
            .await
            .expect(200);
        assert_eq!(names(&list), wanted, "{selector}");
    }
    ground
        .get(&format!("{path}?labelSelector=a%20b%20c"))
        .await
        .refused(400, "BadRequest");
}

pub async fn field_selectors_select(ground: &Ground) {
    let node = ground.unique("node");
    ground.pod("a", |_| ()).await;
    ground.ready_pod("b").await;
    ground
        .pod("c", |pod| pod["spec"]["nodeName"] = json!(null))
        .await;
    let path = ground.path("pods", "");
    let cases: [(String, &[&str]); 6] = [
        (format!("spec.nodeName%3D{node}"), &["a", "b"]),
        ("spec.nodeName%3D".to_owned(), &["c"]),
        (
            format!("spec.nodeName%3D{node}%2Cstatus.phase%3DRunning"),
            &["b"],
        ),
        ("metadata.name%3Da".to_owned(), &["a"]),
        ("metadata.name%21%3Da".to_owned(), &["b", "c"]),
        (
            format!("metadata.namespace%3D{}", ground.namespace),
            &["a", "b", "c"],
        ),
    ];
    for (selector, wanted) in cases {
        let list = ground
            .get(&format!("{path}?fieldSelector={selector}"))
            .await
            .expect(200);
        assert_eq!(names(&list), wanted, "{selector}");
    }
    // As the product asks: the whole cluster, one node.
    let list = ground
        .get(&format!(
            "/api/v1/pods?fieldSelector=spec.nodeName%3D{node}&limit=500"
        ))
        .await
        .expect(200);
    assert_eq!(names(&list), ["a", "b"]);
}

pub async fn an_unknown_field_label_is_refused(ground: &Ground) {
    let status = ground
        .get(&format!(
            "{}?fieldSelector=spec.nonsense%3Da",
            ground.path("pods", "")
        ))
        .await
        .refused(400, "BadRequest");
    assert!(
        text(&status["message"]).contains("field label not supported"),
        "{status}"
    );
    ground
        .get(&format!(
            "{CUSTOM}/gpufaults?fieldSelector=spec.nodeName%3Da"
        ))
        .await
        .refused(400, "BadRequest");
}

pub async fn metadata_alone_can_be_asked_for(ground: &Ground) {
    let pod = ground.ready_pod("a").await;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let read = ground
        .get_as(&ground.path("pods", "a"), accept)
        .await
        .expect(200);
    assert_eq!(read["kind"], "PartialObjectMetadata");
    assert_eq!(read["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(read["metadata"]["uid"], pod["metadata"]["uid"]);
    assert_eq!(read["metadata"]["labels"], json!({"app": "a"}));
    assert_eq!(read["spec"], json!(null));
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = ground
        .get_as(&ground.path("pods", ""), accept)
        .await
        .expect(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(names(&list), ["a"]);
    assert_eq!(list["items"][0]["status"], json!(null));
}

pub async fn a_table_has_the_columns_of_the_resource(ground: &Ground) {
    let fault = objects::fault(ground, "one");
    ground
        .post(&format!("{CUSTOM}/gpufaults"), &fault)
        .await
        .expect(201);
    let name = text(&fault["metadata"]["name"]);
    let table = ground
        .get_as(
            &format!("{CUSTOM}/gpufaults/{name}"),
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        )
        .await
        .expect(200);
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["apiVersion"], "meta.k8s.io/v1");
    let columns: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .expect("columns")
        .iter()
        .map(|c| text(&c["name"]))
        .collect();
    assert_eq!(
        columns,
        [
            "Name", "Node", "GPU", "Xid", "Rule", "Phase", "Reason", "Age"
        ]
    );
    let cells = &table["rows"][0]["cells"];
    assert_eq!(cells[0], name);
    assert_eq!(cells[1], "gpu-a");
    assert_eq!(cells[3], 79);
}

pub async fn discovery_names_what_is_served(ground: &Ground) {
    let core = ground.get("/api/v1").await.expect(200);
    assert_eq!(core["kind"], "APIResourceList");
    let has = |list: &serde_json::Value, name: &str| {
        let all = list["resources"].as_array().expect("resources");
        all.iter().find(|r| r["name"] == name).cloned()
    };
    let pods = has(&core, "pods").expect("pods");
    assert_eq!(pods["kind"], "Pod");
    assert_eq!(pods["namespaced"], true);
    assert!(has(&core, "pods/eviction").is_some() && has(&core, "nodes/status").is_some());
    let own = ground.get(CUSTOM).await.expect(200);
    let faults = has(&own, "gpufaults").expect("gpufaults");
    assert_eq!(faults["kind"], "GpuFault");
    assert_eq!(faults["namespaced"], false);
    assert_eq!(faults["shortNames"], json!(["gf"]));
    assert_eq!(faults["categories"], json!(["gpu-remediator"]));
    assert!(has(&own, "gpufaults/status").is_some());
    let version = ground.get("/version").await.expect(200);
    assert_eq!(version["major"], "1");
}
