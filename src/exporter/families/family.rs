//! What a metric family is. Its row in `docs/metrics.md` and what a scrape says of it come from one place.

use prometheus_client::metrics::MetricType;

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exporter) enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only goes up, until what counts begins anew.
    Counter,
}

/// What one series of a family is about, and so which labels it has in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exporter) enum Scope {
    /// The node: `node`.
    Node,
    /// A GPU: `node, gpu, UUID, pci_bus_id, device, modelName`.
    Gpu,
}

/// A label beside those of the scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exporter) struct Label {
    pub(in crate::exporter) name: &'static str,
    /// Its values, where they are few, as they stand in the documentation.
    pub(in crate::exporter) values: &'static str,
}

/// A metric family with so many labels of its own.
#[derive(Debug, Clone, Copy)]
pub(in crate::exporter) struct Family<const N: usize> {
    /// As a scrape in the text format has it: a counter ends with `_total`.
    pub(in crate::exporter) name: &'static str,
    pub(in crate::exporter) kind: Kind,
    pub(in crate::exporter) scope: Scope,
    pub(in crate::exporter) labels: &'static [Label; N],
    pub(in crate::exporter) help: &'static str,
    /// The call or the line that it comes from.
    pub(in crate::exporter) source: &'static str,
    /// A query with it.
    pub(in crate::exporter) example: &'static str,
}

/// A family, whatever its labels.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(test), allow(dead_code))]
pub(in crate::exporter) struct Described {
    pub(in crate::exporter) name: &'static str,
    pub(in crate::exporter) kind: Kind,
    pub(in crate::exporter) scope: Scope,
    pub(in crate::exporter) labels: &'static [Label],
    pub(in crate::exporter) help: &'static str,
    pub(in crate::exporter) source: &'static str,
    pub(in crate::exporter) example: &'static str,
}

impl<const N: usize> Family<N> {
    #[cfg_attr(not(test), allow(dead_code))]
    pub(in crate::exporter) const fn described(&self) -> Described {
        Described {
            name: self.name,
            kind: self.kind,
            scope: self.scope,
            labels: self.labels,
            help: self.help,
            source: self.source,
            example: self.example,
        }
    }
}

impl Kind {
    pub(in crate::exporter) fn metric_type(self) -> MetricType {
        match self {
            Self::Gauge => MetricType::Gauge,
            Self::Counter => MetricType::Counter,
        }
    }
}

/// Declares families as constants, and lists them as `FAMILIES` for the documentation. One is declared so:
///
/// ```text
/// NAME: Gauge "gpu_name" of Gpu { label: "its values" },
///     "What it means.",
///     from "where it comes from",
///     example "a query with it";
/// ```
macro_rules! families {
    ($(
        $constant:ident: $kind:ident $name:literal of $scope:ident { $($label:ident: $values:literal),* },
        $help:literal,
        from $source:literal,
        example $example:literal;
    )*) => {
        $(
            pub(in crate::exporter) const $constant: $crate::exporter::families::family::Family<
                { <[&str]>::len(&[$(stringify!($label)),*]) },
            > = $crate::exporter::families::family::Family {
                name: $name,
                kind: $crate::exporter::families::family::Kind::$kind,
                scope: $crate::exporter::families::family::Scope::$scope,
                labels: &[$($crate::exporter::families::family::Label {
                    name: stringify!($label),
                    values: $values,
                }),*],
                help: $help,
                source: $source,
                example: $example,
            };
        )*

        /// All of the above.
        #[cfg(test)]
        pub(in crate::exporter) const FAMILIES: &[$crate::exporter::families::family::Described] =
            &[$($constant.described()),*];
    };
}

pub(in crate::exporter) use families;
