//! Conditions in PromQL: which queries they need, and what the answers mean.
//!
//! A *guard* asks whether something is the case, and an Unknown holds. A *proof* asks whether everything is well, and only a
//! clear yes counts. Both need more than the expression: an empty result may mean that the condition is false, or that the
//! metric does not exist, or that every value is NaN.

use std::collections::{BTreeMap, BTreeSet};

use promql_parser::parser::Expr;

use super::data::{Data, collect_data};
use super::question::{Question, Reading, Term, collect_operands, collect_terms, reading};
use super::truth::Verdict;
use crate::rules::answer::{Answer, Sample, SampleValue, Unknown, UnknownReason};
use crate::rules::promql::{existence, is_scalar, is_vector, parse, selectors};

/// More queries than this for one condition are a mistake, and a burden for Prometheus at each evaluation.
const MOST_QUERIES: usize = 24;

/// The answers to the queries of a condition, by query.
pub type Answers = BTreeMap<String, Result<Answer, Unknown>>;

/// A PromQL condition with the queries that decide it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    expr: String,
    question: Question,
    /// `count(…)` of each metric that must exist.
    existence: Vec<String>,
    /// What is compared, to be looked through for NaN.
    operands: Vec<String>,
    /// What must have data before a guard is false.
    data: Vec<Data>,
    /// Why the expression could not be taken apart.
    not_understood: Option<String>,
}

impl Condition {
    /// A condition that holds something back while it is true.
    pub fn guard(expr: &str) -> Self {
        let condition = Self {
            expr: expr.to_owned(),
            question: Question::Guard(Reading::Filter),
            existence: Vec::new(),
            operands: Vec::new(),
            data: Vec::new(),
            not_understood: None,
        };
        condition.planned(|expr| Ok(Question::Guard(reading(expr))))
    }

    /// A condition that must be shown to be true of every series.
    pub fn proof(expr: &str) -> Self {
        let condition = Self {
            expr: expr.to_owned(),
            question: Question::Proof(Vec::new()),
            existence: Vec::new(),
            operands: Vec::new(),
            data: Vec::new(),
            not_understood: None,
        };
        condition.planned(|expr| {
            let mut terms = Vec::new();
            collect_terms(expr, &mut terms)?;
            Ok(Question::Proof(terms))
        })
    }

    fn planned(mut self, question: impl FnOnce(&Expr) -> Result<Question, String>) -> Self {
        let plan = parse(&self.expr).and_then(|expr| {
            if !is_scalar(&expr) && !is_vector(&expr) {
                return Err(format!("the result is a {}", expr.value_type()));
            }
            let question = question(&expr)?;
            let existence = selectors(&expr)
                .into_iter()
                .map(existence)
                .collect::<Result<BTreeSet<_>, _>>()?;
            let mut operands = BTreeSet::new();
            collect_operands(&expr, &mut operands)?;
            let mut data = Vec::new();
            if matches!(question, Question::Guard(_)) {
                collect_data(&expr, &mut data)?;
            }
            for data in &mut data {
                // What is asked anyway need not be counted.
                if data.narrow != self.expr && !operands.contains(&data.narrow) {
                    data.narrow = format!("count({})", data.narrow);
                }
            }
            Ok((question, existence, operands, data))
        });
        match plan {
            Ok((question, existence, operands, data)) => {
                self.question = question;
                self.data = data;
                self.existence = existence.into_iter().collect();
                self.operands = operands.into_iter().collect();
                if self.queries().len() > MOST_QUERIES {
                    self.not_understood = Some(format!(
                        "the expression needs more than {MOST_QUERIES} queries"
                    ));
                }
            }
            Err(message) => self.not_understood = Some(message),
        }
        self
    }

    /// The expression as written.
    pub fn expr(&self) -> &str {
        &self.expr
    }

    /// Why the condition can never be decided, if that is so.
    pub fn not_understood(&self) -> Option<&str> {
        self.not_understood.as_deref()
    }

    /// The queries to ask, all with the same evaluation time. The expression itself comes first.
    pub fn queries(&self) -> Vec<&str> {
        let mut queries = vec![self.expr.as_str()];
        if self.not_understood.is_some() {
            return queries;
        }
        let terms = match &self.question {
            Question::Guard(_) => &[][..],
            Question::Proof(terms) => terms,
        };
        let parts = terms
            .iter()
            .flat_map(|term| std::iter::once(&term.result).chain(&term.operand))
            .chain(&self.operands)
            .chain(&self.existence)
            .chain(self.data.iter().flat_map(|data| [&data.narrow, &data.wide]));
        for query in parts {
            if !queries.contains(&query.as_str()) {
                queries.push(query);
            }
        }
        queries
    }

    /// What the answers mean.
    pub fn judge(&self, answers: &Answers) -> Verdict {
        let verdict = match &self.question {
            Question::Guard(reading) => self.judge_guard(*reading, answers),
            Question::Proof(terms) => self.judge_proof(terms, answers),
        };
        verdict.unwrap_or_else(Verdict::from)
    }

    fn judge_guard(&self, reading: Reading, answers: &Answers) -> Result<Verdict, Unknown> {
        let answer = answer_to(&self.expr, answers)?;
        let passing = answer
            .samples
            .iter()
            .filter_map(Sample::number)
            .find(|value| reading == Reading::Filter || *value != 0.0);
        if let Some(value) = passing {
            // An expression that cannot be taken apart may be one whose zero means false; holding is the safe side.
            return Ok(Verdict::held("the expression is true", Some(value)));
        }
        self.require_understood()?;
        require_numbers(&self.expr, answer)?;
        self.require_existence(answers)?;
        for operand in &self.operands {
            require_numbers(operand, answer_to(operand, answers)?)?;
        }
        self.require_data(answers)?;
        Ok(Verdict::not_held("the expression is false", None))
    }

    fn judge_proof(&self, terms: &[Term], answers: &Answers) -> Result<Verdict, Unknown> {
        let whole = answer_to(&self.expr, answers)?;
        self.require_understood()?;
        let value = whole.samples.iter().find_map(Sample::number);
        require_numbers(&self.expr, whole)?;
        self.require_existence(answers)?;
        for operand in &self.operands {
            require_numbers(operand, answer_to(operand, answers)?)?;
        }
        // What fails for certain makes the whole False, whatever is unknown besides (Kleene).
        let (mut failing, mut unknown) = (None, None);
        for term in terms {
            let result = answer_to(&term.result, answers)?;
            require_numbers(&term.result, result)?;
            let passed = result
                .samples
                .iter()
                .filter_map(Sample::number)
                .filter(|value| term.reading == Reading::Filter || *value != 0.0)
                .count();
            let total = match &term.operand {
                Some(operand) => {
                    let answer = answer_to(operand, answers)?;
                    require_numbers(operand, answer)?;
                    answer.samples.len()
                }
                None => result.samples.len(),
            };
            if total == 0 {
                let nothing = term.operand.as_ref().unwrap_or(&term.result);
                unknown.get_or_insert(Unknown::new(
                    UnknownReason::NoData,
                    format!("`{nothing}` has no series"),
                ));
                continue;
            }
            if passed > total {
                return Err(Unknown::new(
                    UnknownReason::NotUnderstood,
                    format!("`{}` has more series than what it compares", term.result),
                ));
            }
            if passed < total && failing.is_none() {
                failing = Some(format!("{passed} of {total} series pass `{}`", term.result));
            }
        }
        match (failing, unknown) {
            (Some(detail), _) => Ok(Verdict::not_held(detail, value)),
            (None, Some(unknown)) => Err(unknown),
            (None, None) => Ok(Verdict::held("every series passes", value)),
        }
    }

    fn require_understood(&self) -> Result<(), Unknown> {
        match &self.not_understood {
            Some(message) => Err(Unknown::new(UnknownReason::NotUnderstood, message.clone())),
            None => Ok(()),
        }
    }

    fn require_existence(&self, answers: &Answers) -> Result<(), Unknown> {
        for query in &self.existence {
            let answer = answer_to(query, answers)?;
            require_numbers(query, answer)?;
            if answer.samples.is_empty() {
                return Err(Unknown::new(
                    UnknownReason::NoData,
                    format!("`{query}` finds no series: the metric does not exist"),
                ));
            }
        }
        Ok(())
    }

    fn require_data(&self, answers: &Answers) -> Result<(), Unknown> {
        for data in &self.data {
            let narrow = answer_to(&data.narrow, answers)?;
            require_numbers(&data.narrow, narrow)?;
            let has_data = !narrow.samples.is_empty();
            let wide = match answer_to(&data.wide, answers) {
                // A dropped matcher may have made a join ambiguous, which says nothing against the data that were found.
                Err(unknown) if has_data && unknown.reason == UnknownReason::ExecutionFailed => {
                    continue;
                }
                answer => answer?,
            };
            require_numbers(&data.wide, wide)?;
            if !has_data && wide.samples.is_empty() {
                return Err(Unknown::new(
                    UnknownReason::NoData,
                    format!(
                        "`{}` finds no series: nothing is compared, because a range is too short or labels never match",
                        data.wide
                    ),
                ));
            }
        }
        Ok(())
    }
}

fn answer_to<'a>(query: &str, answers: &'a Answers) -> Result<&'a Answer, Unknown> {
    match answers.get(query) {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(unknown)) => Err(unknown.clone()),
        None => Err(Unknown::new(
            UnknownReason::BadAnswer,
            format!("`{query}` was not asked"),
        )),
    }
}

fn require_numbers(query: &str, answer: &Answer) -> Result<(), Unknown> {
    for sample in &answer.samples {
        match sample.value {
            SampleValue::Histogram => {
                return Err(Unknown::new(
                    UnknownReason::Histogram,
                    format!("`{query}` has a native histogram"),
                ));
            }
            SampleValue::Float(value) if value.is_nan() => {
                return Err(Unknown::new(
                    UnknownReason::NotANumber,
                    format!("`{query}` is NaN"),
                ));
            }
            SampleValue::Float(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "condition_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "condition_data_tests.rs"]
mod data_tests;
