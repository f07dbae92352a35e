//! Lines of bounded length, with their numbers.

use std::io::{self, BufRead};

use crate::exit::{Exit, Fault};

/// One line without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its number, from 1.
    pub number: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The lines of a reader. LF ends a line and a CR before it is dropped; with NUL as the separator nothing else is.
pub struct Lines<R> {
    reader: R,
    separator: u8,
    bytes_max: usize,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// Lines that end with `separator` and have at most `bytes_max` bytes.
    pub fn new(reader: R, separator: u8, bytes_max: usize) -> Self {
        Lines { reader, separator, bytes_max, number: 0 }
    }

    /// The next line; the last one may lack its end. Errors name the line.
    pub fn next_line(&mut self) -> anyhow::Result<Option<Line>> {
        self.number += 1;
        let mut bytes = Vec::new();
        loop {
            let (used, ended) = {
                let buffer = match self.reader.fill_buf() {
                    Ok(buffer) => buffer,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(self.read_error(error)),
                };
                if buffer.is_empty() {
                    break;
                }
                match buffer.iter().position(|byte| *byte == self.separator) {
                    Some(end) => {
                        bytes.extend_from_slice(&buffer[..end]);
                        (end + 1, true)
                    }
                    None => {
                        bytes.extend_from_slice(buffer);
                        (buffer.len(), false)
                    }
                }
            };
            self.reader.consume(used);
            if bytes.len() > self.bytes_max {
                let (number, max) = (self.number, self.bytes_max);
                return Err(Fault::usage(format!("line {number} has more than {max} bytes")).into());
            }
            if ended {
                return Ok(Some(self.line(bytes, true)));
            }
        }
        Ok((!bytes.is_empty()).then(|| self.line(bytes, false)))
    }

    fn line(&self, mut bytes: Vec<u8>, ended: bool) -> Line {
        if ended && self.separator == b'\n' && bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        Line { number: self.number, bytes }
    }

    fn read_error(&self, error: io::Error) -> anyhow::Error {
        let message = format!("cannot read the input after line {}: {error}", self.number - 1);
        Fault::new(Exit::InputOutput, message).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8], separator: u8) -> Vec<Vec<u8>> {
        // A buffer of three bytes splits every line somewhere.
        let reader = io::BufReader::with_capacity(3, input);
        let mut lines = Lines::new(reader, separator, 10);
        std::iter::from_fn(|| lines.next_line().unwrap()).map(|line| line.bytes).collect()
    }

    #[test]
    fn a_carriage_return_before_the_line_feed_is_dropped() {
        assert_eq!(lines(b"a\r\n\r\nb\rc\nlast\r", b'\n'), [&b"a"[..], b"", b"b\rc", b"last\r"]);
    }

    #[test]
    fn nul_separated_lines_keep_every_other_byte() {
        assert_eq!(lines(b"a\r\n\0\xff\0", 0), [&b"a\r\n"[..], b"\xff"]);
    }

    #[test]
    fn a_line_that_is_too_long_is_named() {
        let mut lines = Lines::new(&b"ok\n12345678901\n"[..], b'\n', 10);
        assert_eq!(lines.next_line().unwrap().unwrap().number, 1);
        assert!(lines.next_line().unwrap_err().to_string().contains("line 2"));
    }
}
