//! Is an alert about the GPU of a known fault? The kernel log knows a GPU by its PCI bus id; its UUID is known only once
//! the driver has told it, which it may do before or after the fault, or never again once the GPU is lost.

use super::subject::Subject;
use crate::api::GpuFaultSpec;
use crate::api::fault::RuleRef;

/// The alert of this rule, on this subject and node, is about the same thing as the fault.
pub fn is_same(fault: &GpuFaultSpec, rule: &RuleRef, subject: &Subject, node_uid: &str) -> bool {
    let same_rule = fault
        .rule_ref
        .as_ref()
        .is_some_and(|known| known.alert == rule.alert);
    let same_node = fault.node_name == subject.node
        && fault
            .node_uid
            .as_deref()
            .is_none_or(|uid| node_uid.is_empty() || uid == node_uid);
    same_rule && same_node && fault.xid == subject.xid && is_same_gpu(fault, subject)
}

fn is_same_gpu(fault: &GpuFaultSpec, subject: &Subject) -> bool {
    let known = fault.gpu.clone().unwrap_or_default();
    match (known.uuid, &subject.uuid) {
        // Two UUIDs decide: another board in the same slot is another GPU.
        (Some(one), Some(other)) => one == *other,
        _ => match (known.pci_bus_id, &subject.pci_bus_id) {
            (Some(one), Some(other)) => one.eq_ignore_ascii_case(other),
            // Neither names a GPU: both are about the whole node.
            (None, None) => {
                fault.gpu.as_ref().is_none_or(|g| g.uuid.is_none()) && subject.uuid.is_none()
            }
            _ => false,
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use serde_json::json;

    const SLOT: &str = "00000000:3B:00.0";

    fn fault(uuid: Option<&str>, pci: Option<&str>) -> GpuFaultSpec {
        serde_json::from_value(json!({
            "nodeName": "a", "nodeUid": "n", "xid": 79, "policyRef": {"name": "p"},
            "ruleRef": {"name": "r", "group": "g", "alert": "GpuDown"},
            "gpu": {"uuid": uuid, "pciBusId": pci},
        }))
        .unwrap()
    }

    fn is_about(fault: &GpuFaultSpec, uuid: Option<&str>, pci: Option<&str>) -> bool {
        let rule = RuleRef {
            name: "r".into(),
            group: "g".into(),
            alert: "GpuDown".into(),
        };
        let subject = Subject {
            node: "a".into(),
            uuid: uuid.map(Into::into),
            gpu: None,
            pci_bus_id: pci.map(Into::into),
            xid: Some(79),
        };
        is_same(fault, &rule, &subject, "n")
    }

    #[test]
    fn a_gpu_whose_uuid_becomes_known_later_or_is_forgotten_is_the_same() {
        assert!(is_about(
            &fault(None, Some(SLOT)),
            Some("GPU-1"),
            Some(SLOT)
        ));
        assert!(is_about(
            &fault(Some("GPU-1"), Some(SLOT)),
            None,
            Some(SLOT)
        ));
        assert!(is_about(
            &fault(Some("GPU-1"), None),
            Some("GPU-1"),
            Some(SLOT)
        ));
    }

    #[test]
    fn another_board_another_slot_and_the_whole_node_are_not() {
        assert!(!is_about(
            &fault(Some("GPU-1"), Some(SLOT)),
            Some("GPU-2"),
            Some(SLOT)
        ));
        assert!(!is_about(
            &fault(None, Some(SLOT)),
            None,
            Some("00000000:3C:00.0")
        ));
        assert!(!is_about(&fault(Some("GPU-1"), Some(SLOT)), None, None));
        assert!(!is_about(&fault(None, None), Some("GPU-1"), Some(SLOT)));
        assert!(is_about(&fault(None, None), None, None));
    }
}
