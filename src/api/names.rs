//! Names that live in the cluster: annotations, the finalizer, and the object name that a fingerprint gives.

use sha2::{Digest, Sha256};

/// The API group of all custom resources, and the prefix of every annotation and finalizer that the product writes.
pub const GROUP: &str = "gpu-remediator.dev";

/// Finalizer on every `GpuFault`: deleting an open fault first undoes its isolation.
pub const FINALIZER: &str = "gpu-remediator.dev/undo-isolation";

/// Annotation on a node: which faults hold it cordoned, and whether the cordon is ours. JSON, see
/// [`crate::remediation::mark::CordonMark`].
pub const CORDON_ANNOTATION: &str = "gpu-remediator.dev/cordon";

/// Annotation that a person sets on a `RemediationPolicy` to release a `stopIf` latch; any value. The controller
/// removes it once the latch is released.
pub const RESUME_ANNOTATION: &str = "gpu-remediator.dev/resume";

/// Annotation that a person sets on a Failed `GpuFault` to run its steps again; any value. The controller removes it.
pub const RETRY_ANNOTATION: &str = "gpu-remediator.dev/retry";

/// What makes a fault the same fault: this rule on this GPU of this incarnation of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint<'a> {
    /// Node name.
    pub node: &'a str,
    /// Node UID: a node that was deleted and made again under its old name is another node.
    pub node_uid: &'a str,
    /// GPU UUID, or PCI bus id where no UUID is known; `None` means the whole node.
    pub gpu: Option<&'a str>,
    /// Alert name of the rule.
    pub alert: &'a str,
    /// Xid, where the rule names one.
    pub xid: Option<u32>,
}

impl Fingerprint<'_> {
    /// The fingerprint as text: the first 128 bits, in hexadecimal, of a SHA-256 over its parts. Parts are separated by
    /// a byte that none of them can hold, so that no two lists of parts give the same input.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let xid = self.xid.map(|x| x.to_string()).unwrap_or_default();
        for part in [
            self.node,
            self.node_uid,
            self.gpu.unwrap_or_default(),
            self.alert,
            &xid,
        ] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        hash.finalize()[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// The name of the `GpuFault`: readable first, then the first 64 bits of the fingerprint. Because the name is a
    /// function of the fingerprint, the API server itself refuses a second object for the same fault.
    pub fn object_name(&self) -> String {
        const READABLE: usize = 200; // leaves room for the digest within the 253 characters of an object name
        let mut name = String::new();
        for part in [self.node, self.alert] {
            for c in part.chars() {
                let c = c.to_ascii_lowercase();
                let last_is_letter = name
                    .chars()
                    .last()
                    .is_some_and(|l| l.is_ascii_alphanumeric());
                if c.is_ascii_alphanumeric() {
                    name.push(c);
                } else if last_is_letter {
                    name.push('-');
                }
            }
            if name
                .chars()
                .last()
                .is_some_and(|l| l.is_ascii_alphanumeric())
            {
                name.push('-');
            }
        }
        name.truncate(READABLE);
        let name = name.trim_end_matches('-');
        let digest = self.digest();
        if name.is_empty() {
            format!("fault-{}", &digest[..16])
        } else {
            format!("{name}-{}", &digest[..16])
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of<'a>(node: &'a str, gpu: Option<&'a str>, alert: &'a str) -> Fingerprint<'a> {
        Fingerprint {
            node,
            node_uid: "u",
            gpu,
            alert,
            xid: Some(79),
        }
    }

    #[test]
    fn the_name_is_readable_and_stable() {
        let name = of("gpu-node-1.example", Some("GPU-1"), "GpuFellOffTheBus").object_name();
        assert!(
            name.starts_with("gpu-node-1-example-gpufelloffthebus-"),
            "{name}"
        );
        assert_eq!(
            name,
            of("gpu-node-1.example", Some("GPU-1"), "GpuFellOffTheBus").object_name()
        );
    }

    #[test]
    fn each_part_counts() {
        let base = of("a", Some("g"), "r");
        let others = [
            Fingerprint {
                node: "b",
                ..base.clone()
            },
            Fingerprint {
                node_uid: "v",
                ..base.clone()
            },
            Fingerprint {
                gpu: None,
                ..base.clone()
            },
            Fingerprint {
                alert: "s",
                ..base.clone()
            },
            Fingerprint {
                xid: None,
                ..base.clone()
            },
        ];
        for other in others {
            assert_ne!(base.digest(), other.digest(), "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn any_input_gives_a_valid_object_name(node in ".{0,300}", alert in ".{0,300}") {
            let name = of(&node, None, &alert).object_name();
            prop_assert!(name.len() <= 253);
            prop_assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
            prop_assert!(name.starts_with(|c: char| c.is_ascii_alphanumeric()));
            prop_assert!(name.ends_with(|c: char| c.is_ascii_alphanumeric()));
        }
    }
}
