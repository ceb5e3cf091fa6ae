//! Which node and which GPU an alert is about.

use super::answer::Labels;
use super::template::{Dialect, Template, TemplateError};
use crate::api::rule::Remediation;

/// What an alert is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The name of the node.
    pub node: String,
    /// The UUID of the GPU; absent when the alert is about the whole node.
    pub uuid: Option<String>,
    /// The index of the GPU on its node, as the exporter writes it.
    pub gpu: Option<String>,
    /// The PCI bus address of the GPU.
    pub pci_bus_id: Option<String>,
    /// The Xid: the rule's own, or the label `xid`.
    pub xid: Option<u32>,
}

/// An alert that names no node. It acts on nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the alert names no node: {0}")]
pub struct NoNode(String);

/// How the node and the GPU are found: by the templates of the rule, or by the exporter's labels.
#[derive(Clone, Debug, Default)]
pub struct SubjectTemplates {
    node: Option<Template>,
    gpu: Option<Template>,
    xid: Option<u32>,
}

impl SubjectTemplates {
    /// Reads the templates of a rule.
    ///
    /// # Errors
    ///
    /// When one is not a template.
    pub fn new(remediation: &Remediation) -> Result<Self, TemplateError> {
        let parse = |text: &Option<String>| {
            text.as_ref()
                .map(|text| Template::parse(text, Dialect::Alert))
                .transpose()
        };
        Ok(Self {
            node: parse(&remediation.node)?,
            gpu: parse(&remediation.gpu)?,
            xid: remediation.xid,
        })
    }

    /// The subject of an alert with these labels.
    ///
    /// # Errors
    ///
    /// When no node is named.
    pub fn resolve(&self, labels: &Labels) -> Result<Subject, NoNode> {
        let label = |name: &str| labels.get(name).filter(|text| !text.is_empty()).cloned();
        let node = match &self.node {
            Some(template) => template.expand(labels, f64::NAN),
            None => label("node").unwrap_or_default(),
        };
        if node.trim().is_empty() {
            return Err(NoNode(match &self.node {
                Some(template) => format!(
                    "the template needs the labels {}",
                    template.labels().collect::<Vec<_>>().join(", ")
                ),
                None => "it has no label `node`".to_owned(),
            }));
        }
        let uuid = match &self.gpu {
            Some(template) => {
                Some(template.expand(labels, f64::NAN)).filter(|uuid| !uuid.is_empty())
            }
            None => label("UUID"),
        };
        Ok(Subject {
            node,
            uuid,
            gpu: label("gpu"),
            pci_bus_id: label("pci_bus_id"),
            xid: self
                .xid
                .or_else(|| label("xid").and_then(|xid| xid.parse().ok())),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn the_exporters_labels_are_the_default() {
        let subject = SubjectTemplates::default()
            .resolve(&labels(&[
                ("node", "a"),
                ("UUID", "GPU-1"),
                ("gpu", "3"),
                ("pci_bus_id", "00000000:3B:00.0"),
                ("xid", "79"),
            ]))
            .unwrap();
        assert_eq!(
            subject,
            Subject {
                node: "a".into(),
                uuid: Some("GPU-1".into()),
                gpu: Some("3".into()),
                pci_bus_id: Some("00000000:3B:00.0".into()),
                xid: Some(79),
            }
        );
    }

    #[test]
    fn templates_override_and_an_empty_node_is_refused() {
        let remediation = Remediation {
            policy: "p".into(),
            node: Some("{{ $labels.Hostname }}".into()),
            xid: Some(95),
            ..Remediation::default()
        };
        let templates = SubjectTemplates::new(&remediation).unwrap();
        let subject = templates
            .resolve(&labels(&[("Hostname", "b"), ("node", "a"), ("xid", "79")]))
            .unwrap();
        assert_eq!((subject.node.as_str(), subject.xid), ("b", Some(95)));
        assert!(templates.resolve(&labels(&[("node", "a")])).is_err());
        assert!(
            SubjectTemplates::default()
                .resolve(&labels(&[("UUID", "GPU-1")]))
                .is_err()
        );
    }
}
