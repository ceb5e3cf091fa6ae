//! What an expression asks for, and which labels its result has.

use std::collections::{BTreeMap, BTreeSet};

use promql_parser::label::MatchOp;
use promql_parser::parser::{Expr, LabelModifier, VectorMatchCardinality, VectorSelector};

use super::document::NODE;
use super::families::Family;

/// What is looked up, and what was found wrong.
pub struct Check<'a> {
    families: &'a BTreeMap<String, Family>,
    /// What is wrong, in words.
    pub wrong: Vec<String>,
    /// The metrics that were asked for.
    pub metrics: BTreeSet<String>,
}

type Labels = BTreeSet<String>;

impl<'a> Check<'a> {
    /// A check that has seen nothing.
    pub fn new(families: &'a BTreeMap<String, Family>) -> Self {
        Self {
            families,
            wrong: Vec::new(),
            metrics: BTreeSet::new(),
        }
    }

    /// The labels of the result.
    pub fn expression(&mut self, expr: &Expr) -> Labels {
        match expr {
            Expr::VectorSelector(selector) => self.selector(selector, None),
            // Only within a call, which looks at it itself.
            Expr::MatrixSelector(selector) => self.selector(&selector.vs, Some("no function")),
            Expr::Paren(inner) => self.expression(&inner.expr),
            Expr::Unary(inner) => self.expression(&inner.expr),
            Expr::Subquery(inner) => self.expression(&inner.expr),
            Expr::NumberLiteral(_) | Expr::StringLiteral(_) => Labels::new(),
            Expr::Call(call) => {
                let mut labels = Labels::new();
                for argument in &call.args.args {
                    labels.extend(match &**argument {
                        Expr::MatrixSelector(range) => {
                            self.selector(&range.vs, Some(call.func.name))
                        }
                        other => self.expression(other),
                    });
                }
                labels
            }
            Expr::Aggregate(aggregate) => {
                let inner = self.expression(&aggregate.expr);
                match &aggregate.modifier {
                    None => Labels::new(),
                    Some(LabelModifier::Include(by)) => {
                        let by = by.labels.iter().cloned().collect();
                        self.within("by", &by, &inner);
                        by
                    }
                    Some(LabelModifier::Exclude(_)) => {
                        self.wrong
                            .push("`without` keeps labels of the scrape: say which by `by`".into());
                        inner
                    }
                }
            }
            Expr::Binary(binary) => {
                let left = self.expression(&binary.lhs);
                let right = self.expression(&binary.rhs);
                let Some(modifier) = &binary.modifier else {
                    return left.union(&right).cloned().collect();
                };
                let on = match &modifier.matching {
                    Some(LabelModifier::Include(on)) => {
                        let on: Labels = on.labels.iter().cloned().collect();
                        self.within("on", &on, &left);
                        self.within("on", &on, &right);
                        Some(on)
                    }
                    Some(LabelModifier::Exclude(_)) => {
                        self.wrong.push(
                            "`ignoring` depends on labels of the scrape: say which by `on`".into(),
                        );
                        None
                    }
                    None => None,
                };
                match &modifier.card {
                    VectorMatchCardinality::OneToOne => on.unwrap_or(left),
                    VectorMatchCardinality::ManyToMany => left,
                    VectorMatchCardinality::ManyToOne(more) => {
                        let more = more.labels.iter().cloned().collect();
                        self.within("group_left", &more, &right);
                        left.union(&more).cloned().collect()
                    }
                    VectorMatchCardinality::OneToMany(more) => {
                        let more = more.labels.iter().cloned().collect();
                        self.within("group_right", &more, &left);
                        right.union(&more).cloned().collect()
                    }
                }
            }
            Expr::Extension(_) => panic!("the parser makes none"),
        }
    }

    fn within(&mut self, place: &str, labels: &Labels, known: &Labels) {
        for label in labels.difference(known) {
            self.wrong.push(format!(
                "`{place}` names {label}, but there is only {known:?}"
            ));
        }
    }

    /// One selector, within a call of `function` if it has a range.
    fn selector(&mut self, selector: &VectorSelector, function: Option<&str>) -> Labels {
        let name = selector.name.clone().unwrap_or_default();
        let part = ["_bucket", "_sum", "_count"]
            .into_iter()
            .find_map(|suffix| Some((name.strip_suffix(suffix)?, suffix)));
        let (family, grows, extra) = match (self.families.get(&name), part) {
            (Some(family), _) if !family.is_histogram => (family, family.is_counter, None),
            (None, Some((base, suffix)))
                if self.families.get(base).is_some_and(|f| f.is_histogram) =>
            {
                (
                    &self.families[base],
                    true,
                    (suffix == "_bucket").then_some("le"),
                )
            }
            _ => {
                self.wrong.push(format!("docs/metrics.md has no {name:?}"));
                return Labels::new();
            }
        };
        self.metrics.insert(name.clone());
        let takes_counters = function.is_some_and(|f| matches!(f, "rate" | "increase" | "irate"));
        if grows != takes_counters {
            self.wrong.push(if grows {
                format!("{name} is a counter and stands in neither rate() nor increase()")
            } else {
                format!("{name} is no counter, and rate() and increase() take its falls for resets")
            });
        }
        if !selector.matchers.or_matchers.is_empty() {
            self.wrong
                .push(format!("{name}: `or` among matchers is not Prometheus'"));
        }
        for matcher in &selector.matchers.matchers {
            let Some(values) = family.labels.get(&matcher.name) else {
                self.wrong
                    .push(format!("{name} has no label {}", matcher.name));
                continue;
            };
            let asked: Vec<&str> = match &matcher.op {
                MatchOp::Equal | MatchOp::NotEqual => vec![&*matcher.value],
                // Those of the dashboard are plain alternatives, or a variable's.
                MatchOp::Re(_) | MatchOp::NotRe(_) => matcher.value.split('|').collect(),
            };
            for value in asked {
                if !values.is_empty() && !values.contains(value) {
                    self.wrong.push(format!(
                        "{name} has no {}={value:?}, only {values:?}",
                        matcher.name
                    ));
                }
            }
        }
        let follows = selector.matchers.matchers.iter().any(|matcher| {
            matcher.name == "node" && matcher.value == NODE && matches!(matcher.op, MatchOp::Re(_))
        });
        if family.labels.contains_key("node") && !follows {
            self.wrong
                .push(format!("{name} does not follow the variable `node`"));
        }
        let extra = extra.map(str::to_owned);
        family.labels.keys().cloned().chain(extra).collect()
    }
}
