//! Reading a page in the text format 0.0.4.

/// One line of a page.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// The metric's name.
    pub(super) name: String,
    /// Labels with a value, in the order of their names.
    pub(super) labels: Vec<(String, String)>,
    /// The value.
    pub(super) value: f64,
}

/// Reads every sample of a page. Comments say nothing about samples and are passed over.
///
/// # Errors
///
/// Which line is no sample. A scraper takes nothing from such a page.
pub(super) fn read(page: &str) -> Result<Vec<Line>, String> {
    let lines = page.lines().enumerate();
    lines
        .map(|(number, line)| (number, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| {
            sample(line).map_err(|what| format!("line {}: {what}: `{line}`", number + 1))
        })
        .collect()
}

fn sample(line: &str) -> Result<Line, &'static str> {
    let end = line
        .find(|letter: char| letter == '{' || letter.is_ascii_whitespace())
        .ok_or("there is no value")?;
    let (name, rest) = line.split_at(end);
    let is_name = |text: &str, colon: bool| {
        !text.is_empty()
            && !text.starts_with(|letter: char| letter.is_ascii_digit())
            && text.chars().all(|letter| {
                letter.is_ascii_alphanumeric() || letter == '_' || (colon && letter == ':')
            })
    };
    if !is_name(name, true) {
        return Err("the metric has no valid name");
    }
    let mut labels = Vec::new();
    let mut rest = rest.trim_start();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner.trim_start();
        loop {
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, after) = rest.split_once('=').ok_or("a label has no value")?;
            let label = label.trim();
            if !is_name(label, false) {
                return Err("a label has no valid name");
            }
            let quoted = (after.trim_start().strip_prefix('"')).ok_or("a label is not quoted")?;
            let (value, after) = unquoted(quoted)?;
            // An empty label is the same as none.
            if !value.is_empty() {
                labels.push((label.to_owned(), value));
            }
            rest = after.trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
    }
    let mut words = rest.split_ascii_whitespace();
    let value = words.next().ok_or("there is no value")?;
    if words.next().is_some() {
        return Err("samples with a time of their own are not supported");
    }
    labels.sort();
    if labels.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err("a label is given twice");
    }
    Ok(Line {
        name: name.to_owned(),
        labels,
        value: value.parse().map_err(|_| "the value is no number")?,
    })
}

/// A quoted value up to its end, and what follows.
fn unquoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match letters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, other @ ('"' | '\\'))) => value.push(other),
                Some((_, other)) => value.extend(['\\', other]),
                None => break,
            },
            other => value.push(other),
        }
    }
    Err("a label does not end")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn samples_with_every_form_of_label_and_value_are_read() {
        let page = "# HELP a b\n# TYPE a gauge\na 1\nb{x=\"1\", y=\"q\\\"\\\\\\n,}\",} -2.5e3\n\n c{} +Inf\nd{z=\"\"} NaN\n";
        let lines = read(page).unwrap();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0].value, 1.0);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(lines[1].labels, [pair("x", "1"), pair("y", "q\"\\\n,}")]);
        assert_eq!(lines[1].value, -2500.0);
        assert_eq!(lines[2].value, f64::INFINITY);
        assert!(lines[3].value.is_nan() && lines[3].labels.is_empty());
    }

    #[test]
    fn what_is_no_sample_spoils_the_page() {
        for line in [
            "a",
            "a x",
            "1a 1",
            "a{b} 1",
            "a{b=1} 1",
            "a{b=\"1} 1",
            "a{b=\"1\",b=\"2\"} 1",
            "a 1 1700000000000",
            "a{b-c=\"1\"} 1",
        ] {
            assert!(read(&format!("ok 1\n{line}\n")).is_err(), "{line}");
        }
    }
}
