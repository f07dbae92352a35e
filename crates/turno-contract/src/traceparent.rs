//! The trace that a job belongs to, as a header of W3C Trace Context says it. It refuses to make anything fail: what is no
//! such header is as good as none (rule E12).

use crate::limits::TRACEPARENT_BYTES_MAX;

/// The header if it is kept: `version-trace id-span id-flags` in lower-case hexadecimal digits, exactly
/// [`TRACEPARENT_BYTES_MAX`] bytes, neither id all zeros, and a version that is not `ff`.
pub fn kept_traceparent(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    if bytes.len() != TRACEPARENT_BYTES_MAX {
        return None;
    }
    let form = bytes.iter().enumerate().all(|(i, byte)| match i {
        2 | 35 | 52 => *byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    });
    let zeros = |range: std::ops::Range<usize>| bytes[range].iter().all(|byte| *byte == b'0');
    (form && &bytes[..2] != b"ff" && !zeros(3..35) && !zeros(36..52)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_header_is_kept() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(kept_traceparent(good), Some(good));
        assert!(kept_traceparent(&good.replacen("00", "cc", 1)).is_some(), "a later version of this form");
        let bad = [
            String::new(),
            good.to_uppercase(),
            format!("{good}-00"),
            format!(" {}", &good[..54]),
            format!("{}\n", &good[..54]),
            good.replace('-', "_"),
            good.replacen("00", "ff", 1),
            good.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            good.replace("b7ad6b7169203331", &"0".repeat(16)),
            format!("{}é", &good[..53]),
        ];
        for text in bad {
            assert_eq!(kept_traceparent(&text), None, "{text:?}");
        }
    }
}
