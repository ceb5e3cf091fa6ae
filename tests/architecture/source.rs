//! Reads what a source file names, without compiling it.

use std::collections::BTreeSet;
use std::path::Path;

/// Sibling test files are declared under `#[cfg(test)]` and named after what they hold.
pub fn is_test_file(path: &str) -> bool {
    Path::new(path).components().any(|c| {
        let name = c.as_os_str().to_string_lossy();
        let stem = name.trim_end_matches(".rs");
        stem == "tests" || stem.ends_with("_tests")
    })
}

/// `word` stands in the line, and not inside a longer name.
pub fn mentions(line: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let opens = word.starts_with(inside) && before.is_some_and(inside);
        let closes = word.ends_with(inside) && after.is_some_and(inside);
        !opens && !closes
    })
}

/// The text with comments, strings and character literals made blank; lines keep their numbers.
pub fn without_comments_and_strings(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
    while i < chars.len() {
        let rest = &chars[i..];
        let end = if rest.starts_with(&['/', '/']) {
            rest.iter().position(|c| *c == '\n').unwrap_or(rest.len())
        } else if rest.starts_with(&['/', '*']) {
            block_comment(rest)
        } else if let Some(end) = raw_string(rest, i.checked_sub(1).map(|p| chars[p])) {
            end
        } else if rest[0] == '"' {
            quoted(rest, '"')
        } else if rest[0] == '\'' && is_character_literal(rest) {
            quoted(rest, '\'')
        } else {
            out.push(rest[0]);
            i += 1;
            continue;
        };
        out.extend(rest[..end].iter().map(|c| blank(*c)));
        i += end;
    }
    out
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut i) = (0, 0);
    while i + 1 < rest.len() {
        match (rest[i], rest[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    rest.len()
}

fn raw_string(rest: &[char], before: Option<char>) -> Option<usize> {
    if before.is_some_and(|c| c.is_alphanumeric() || c == '_') || rest[0] != 'r' {
        return None;
    }
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return None;
    }
    let mut close = vec!['"'];
    close.extend(vec!['#'; hashes]);
    let body = &rest[hashes + 2..];
    let end = body.windows(close.len()).position(|w| w == close)?;
    Some(hashes + 2 + end + close.len())
}

fn quoted(rest: &[char], quote: char) -> usize {
    let mut i = 1;
    while i < rest.len() {
        match rest[i] {
            '\\' => i += 1,
            c if c == quote => return i + 1,
            _ => {}
        }
        i += 1;
    }
    rest.len()
}

/// `'a'` and `'\n'` are characters, `'a` is a lifetime.
fn is_character_literal(rest: &[char]) -> bool {
    rest.get(1) == Some(&'\\') || rest.get(2) == Some(&'\'')
}

/// The code with every `#[cfg(test)]` item made blank. Its input has no strings and no comments any more.
pub fn without_test_modules(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(test)]") {
        out.push_str(&rest[..at]);
        let mut depth = 0usize;
        let last = rest[at..].char_indices().find(|(_, c)| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && matches!(c, '}' | ';')
        });
        let end = last.map_or(rest.len(), |(i, _)| at + i + 1);
        out.extend(rest[at..end].chars().filter(|c| *c == '\n'));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Every path that a `use` names, with groups written out, and the line on which the `use` begins.
pub fn use_paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| !c.is_whitespace() && c != ')') {
            continue;
        }
        let Some(end) = code[at..].find(';') else {
            continue;
        };
        let line = code[..at].matches('\n').count() + 1;
        let tree: String = code[at + 4..at + end]
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        for path in expand("", &tree) {
            found.push((line, path));
        }
    }
    found
}

/// `a::{b, c::{d, e}}` is `a::b`, `a::c::d`, `a::c::e`.
fn expand(prefix: &str, tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or(tree).trim();
        return vec![format!("{prefix}{path}")];
    };
    let prefix = format!("{prefix}{}", tree[..open].trim());
    let inner = tree[open + 1..]
        .rsplit_once('}')
        .map_or("", |(inner, _)| inner);
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (i, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.extend(expand(&prefix, &inner[start..i]));
                start = i + 1;
            }
            _ => {}
        }
    }
    if !inner[start..].trim().is_empty() {
        found.extend(expand(&prefix, &inner[start..]));
    }
    found
}

/// The rooms that the file names, in `use` lines and in paths, and where.
pub fn references(path: &str, code: &str) -> BTreeSet<(usize, String)> {
    let mut found = BTreeSet::new();
    let mut add = |line: usize, full: &str| {
        if let Some(room) = room_of(path, full) {
            found.insert((line, room));
        }
    };
    for (line, full) in use_paths(code) {
        add(line, &full);
    }
    for (line, text) in code.lines().enumerate() {
        for start in ["crate::", "gpu_remediator::", "super::"] {
            for (at, _) in text.match_indices(start) {
                let before = text[..at].chars().next_back();
                if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                    continue;
                }
                let full: String = text[at..]
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':')
                    .collect();
                add(line + 1, &full);
            }
        }
    }
    found
}

/// The room that a path leads to, seen from that file; `None` where it leads out of the house or stays in the file.
fn room_of(file: &str, path: &str) -> Option<String> {
    let mut parts = path.split("::").map(str::trim).peekable();
    let mut module: Vec<&str> = Path::new(file)
        .iter()
        .filter_map(|part| part.to_str())
        .map(|part| part.trim_end_matches(".rs"))
        .filter(|part| *part != "mod")
        .collect();
    match parts.next()? {
        "crate" | "gpu_remediator" => module.clear(),
        "super" => {
            module.pop();
            while parts.next_if_eq(&"super").is_some() {
                module.pop();
            }
        }
        _ => return None,
    }
    let room = module.first().copied().or_else(|| parts.next())?;
    (!room.is_empty()).then(|| room.to_string())
}
