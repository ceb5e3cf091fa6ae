//! A YAML document as a tree in which every key and value knows its place.
//!
//! Reading straight into typed structs would stop at the first problem; the tree lets a file be looked through to its end.

use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// A value without its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// Nothing was written.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping in the order of the file.
    Map(Vec<(Key, Node)>),
}

/// A value and its place.
pub(super) type Node = Spanned<Value>;

/// A key and its place.
pub(super) type Key = Spanned<String>;

impl Value {
    /// What it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }

    /// The value of a key of a mapping.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        match self {
            Self::Map(entries) => entries
                .iter()
                .find(|(name, _)| name.value == key)
                .map(|(_, node)| node),
            _ => None,
        }
    }

    /// The text, where it is one.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The same value as JSON.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Integer(value) => (*value).into(),
            Self::Float(value) => (*value).into(),
            Self::Text(text) => text.as_str().into(),
            Self::List(nodes) => nodes.iter().map(|node| node.value.to_json()).collect(),
            Self::Map(entries) => entries
                .iter()
                .map(|(key, node)| (key.value.clone(), node.value.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }
}

/// The bytes of the file that a location covers; empty where the parser gives none.
pub(super) fn bytes(location: Location) -> Range<usize> {
    let span = location.span();
    match (span.byte_offset(), span.byte_len()) {
        (Some(start), Some(length)) => {
            let start = usize::try_from(start).unwrap_or(0);
            start..start + usize::try_from(length).unwrap_or(0)
        }
        _ => 0..0,
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a YAML value")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        #[allow(clippy::cast_precision_loss)]
        Ok(i64::try_from(value).map_or(Value::Float(value as f64), Value::Integer))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = sequence.next_element()? {
            nodes.push(node);
        }
        Ok(Value::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn every_key_and_value_knows_its_place_in_the_whole_file() {
        let text = "a: 1\n---\n# é\nb:\n  - c: 5m\n    d: |\n      x\n      y\n  - \"q\"\n";
        let documents: Vec<Node> = serde_saphyr::from_multiple(text).unwrap();
        let list = documents[1].value.get("b").unwrap();
        let Value::List(items) = &list.value else {
            panic!("{list:?}")
        };
        let Value::Map(entries) = &items[0].value else {
            panic!("{items:?}")
        };
        let (key, value) = &entries[0];
        assert_eq!((key.referenced.line(), key.referenced.column()), (5, 5));
        assert_eq!(&text[bytes(key.referenced)], "c");
        assert_eq!(&text[bytes(value.referenced)], "5m");
        assert_eq!(&text[bytes(items[1].referenced)], "\"q\"");
        assert_eq!(entries[1].1.value.as_text(), Some("x\ny\n"));
        assert!(
            text[bytes(entries[1].1.referenced)].contains('x'),
            "{:?}",
            &text[bytes(entries[1].1.referenced)]
        );
    }
}
