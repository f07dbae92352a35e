//! What the commands print: JSON documents, tables, one line for an error. Standard output is for answers, standard
//! error for everything else. It refuses to print a `Debug` form, a password, or a payload nobody asked for.

use std::io::{self, Write};

use serde::Serialize;

/// The writer of answers.
pub struct Output {
    json: bool,
    out: io::BufWriter<io::Stdout>,
}

impl Output {
    /// Answers as JSON lines, or as text for people.
    pub fn new(json: bool) -> Self {
        Output { json, out: io::BufWriter::new(io::stdout()) }
    }

    /// Whether answers are JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// One JSON document on one line.
    pub fn document(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        let text = serde_json::to_string(value)?;
        // White space is the only place where JSON text, such as a payload that is shown as it was stored, can hold
        // a line break; one document must stay one line.
        let text = if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ") } else { text };
        self.line(&text)
    }

    /// One line of text.
    pub fn line(&mut self, text: &str) -> anyhow::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.write_all(b"\n")?;
        Ok(())
    }

    /// A JSON document, or the text that `text` makes of the value.
    pub fn either<T: Serialize>(&mut self, value: &T, text: impl FnOnce(&T) -> String) -> anyhow::Result<()> {
        if self.json { self.document(value) } else { self.line(&text(value)) }
    }

    /// Columns of text under headings, padded to the widest cell.
    pub fn table(&mut self, headings: &[&str], rows: &[Vec<String>]) -> anyhow::Result<()> {
        let mut widths: Vec<usize> = headings.iter().map(|heading| heading.chars().count()).collect();
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let headings: Vec<String> = headings.iter().map(|heading| heading.to_string()).collect();
        for row in std::iter::once(&headings).chain(rows) {
            let mut line = String::new();
            for (width, cell) in widths.iter().zip(row) {
                line.push_str(&format!("{cell:<width$}  "));
            }
            self.line(line.trim_end())?;
        }
        Ok(())
    }

    /// Writes out what is buffered.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }
}

/// Text for one line of a terminal: control characters are shown escaped, and what is long is cut.
pub fn one_line(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    for (n, c) in text.trim_end().chars().enumerate() {
        if n >= chars_max {
            line.push('…');
            break;
        }
        match c {
            '\n' => line.push_str("\\n"),
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}

/// The message of an error and of its sources, each said once, on one line, without the password of `url`.
pub fn message(error: &anyhow::Error, url: Option<&str>) -> String {
    let mut text = String::new();
    for link in error.chain() {
        let link = link.to_string();
        let link = link.trim().trim_end_matches('.');
        if link.is_empty() || text.contains(link) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(link);
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match url {
        Some(url) => without_password(&text, url),
        None => text,
    }
}

/// Prints the one line of an error to standard error.
pub fn error_line(error: &anyhow::Error, json: bool, url: Option<&str>) {
    let text = message(error, url);
    let line = if json {
        let exit = crate::exit::of(error).status();
        let kind = crate::exit::word(error);
        serde_json::json!({ "error": { "kind": kind, "message": text, "exit_status": exit } }).to_string()
    } else {
        format!("turno: {text}")
    };
    // Nobody is left to be told if standard error is closed.
    let _ = writeln!(io::stderr(), "{line}");
}

/// A last net under the backends, which never put a password into an error: whatever stands for one in `url` is
/// replaced wherever it appears.
fn without_password(text: &str, url: &str) -> String {
    let mut text = text.to_owned();
    for secret in secrets(url) {
        text = text.replace(&secret, "***");
    }
    text
}

fn secrets(url: &str) -> Vec<String> {
    let mut secrets = Vec::new();
    let Some((_, rest)) = url.split_once("://") else { return secrets };
    // A password may itself hold `/` and `@`, so everything up to the last `@` counts.
    let user_info =
        rest.split('?').next().and_then(|rest| rest.rsplit_once('@')).map(|(user_info, _)| user_info);
    if let Some((_, password)) = user_info.and_then(|user_info| user_info.split_once(':')) {
        secrets.push(password.to_owned());
    }
    for pair in rest.split(['?', '&']).skip(1) {
        if let Some(password) = pair.strip_prefix("password=") {
            secrets.push(password.to_owned());
        }
    }
    secrets.retain(|secret| !secret.is_empty());
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_each_cause_once_on_one_line() {
        let error = anyhow::anyhow!("connection\nrefused").context("cannot connect: connection\nrefused");
        assert_eq!(message(&error, None), "cannot connect: connection refused");
    }

    #[test]
    fn a_password_is_shown_in_no_message() {
        for url in
            ["postgres://app:s3cret@db/app", "postgres://db/app?password=s3cret", "pg://app:s3c@ret/x@db/y"]
        {
            let error = anyhow::anyhow!("cannot parse {url}");
            let text = message(&error, Some(url));
            assert!(!text.contains("s3c"), "{text}");
        }
    }

    #[test]
    fn text_for_a_terminal_has_no_control_characters() {
        assert_eq!(one_line("a\u{1b}[31m\nb\n", 80), "a\\u{1b}[31m\\nb");
        assert_eq!(one_line("abcdef", 3), "abc…");
    }
}
