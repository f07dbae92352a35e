//! The one validator of JSON text, names and keys. The engines' own validators disagree with each other (depth 32 on
//! one, scalars refused on another), so none of them is the gate (rule E8).

use serde_json::value::RawValue;

use crate::{Error, Result, limits};

/// Checks that `text` is one JSON document of at most `bytes_max` bytes and [`limits::PAYLOAD_DEPTH_MAX`] levels.
/// Numbers of any size and `\u0000` are fine: the text is kept, not its meaning. `what` names it in the error.
pub fn check_json(what: &str, text: &str, bytes_max: usize) -> Result<()> {
    if text.len() > bytes_max {
        return Err(Error::invalid(format!("{what} has {} bytes, more than {bytes_max}", text.len())));
    }
    check_depth(what, text)?;
    match serde_json::from_str::<&RawValue>(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::invalid(format!("{what} is not JSON: {error}")).with_source(error)),
    }
}

/// Counts brackets outside strings, before any recursive parser sees the text.
fn check_depth(what: &str, text: &str) -> Result<()> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for byte in text.bytes() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > limits::PAYLOAD_DEPTH_MAX {
            let max = limits::PAYLOAD_DEPTH_MAX;
            return Err(Error::invalid(format!("{what} is nested deeper than {max} levels")));
        }
    }
    Ok(())
}

/// Checks the name of a queue, kind or worker: 1 to [`limits::NAME_BYTES_MAX`] bytes, no control characters.
pub fn check_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid(format!("{what} is empty")));
    }
    if name.len() > limits::NAME_BYTES_MAX {
        let max = limits::NAME_BYTES_MAX;
        return Err(Error::invalid(format!("{what} has {} bytes, more than {max}", name.len())));
    }
    if let Some(c) = name.chars().find(|c| c.is_ascii_control()) {
        return Err(Error::invalid(format!("{what} {name:?} contains the control character {c:?}")));
    }
    Ok(())
}

/// Checks a unique or idempotency key: 1 to [`limits::KEY_BYTES_MAX`] bytes, no NUL.
pub fn check_key(what: &str, key: &str) -> Result<()> {
    if key.is_empty() {
        return Err(Error::invalid(format!("{what} is empty")));
    }
    if key.len() > limits::KEY_BYTES_MAX {
        let max = limits::KEY_BYTES_MAX;
        return Err(Error::invalid(format!("{what} has {} bytes, more than {max}", key.len())));
    }
    if key.contains('\0') {
        return Err(Error::invalid(format!("{what} contains NUL")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<()> {
        check_json("payload", text, 1 << 20)
    }

    #[test]
    fn numbers_of_any_size_and_nul_escapes_are_json() {
        for text in ["1e400", "1970670598291982290", r#""\u0000""#, r#"{"\u0000":[1.0]}"#, "null", " 1 "] {
            check(text).unwrap();
        }
    }

    #[test]
    fn what_is_not_json_is_refused_by_name() {
        for text in ["", "{", "01", "nul", "[1,]", "'a'", "{} {}", "\u{1}", "\"\u{0}\"", "NaN"] {
            let error = check(text).unwrap_err();
            assert!(error.message().starts_with("payload is not JSON"), "{text:?}: {error}");
        }
    }

    #[test]
    fn depth_is_counted_outside_strings() {
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        check(&nested(100)).unwrap();
        check(&format!("\"{}\"", "[".repeat(500))).unwrap();
        check(r#"["\"[[["]"#).unwrap();
        for depth in [101, 128, 100_000] {
            assert!(check(&nested(depth)).unwrap_err().message().contains("deeper than 100"));
        }
    }
}
