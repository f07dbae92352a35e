//! As much of PostgreSQL's protocol as the proxy has to read: where messages end, which operation they are for, and
//! which answer belongs to them. It refuses to change a byte.

use std::collections::{HashMap, VecDeque};

/// The operations whose calls can be told apart.
pub(crate) const OPERATIONS: [&str; 8] =
    ["claim", "heartbeat", "complete", "fail", "release", "reap", "promote", "enqueue"];

/// The answer to a client when the server has no connection left: FATAL, SQLSTATE 53300.
pub(crate) fn too_many_connections() -> Vec<u8> {
    let mut body = Vec::new();
    for (field, text) in
        [('S', "FATAL"), ('V', "FATAL"), ('C', "53300"), ('M', "sorry, too many clients already")]
    {
        body.push(field as u8);
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }
    body.push(0);
    let mut message = vec![b'E'];
    message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    message.extend(body);
    message
}

/// Cuts a stream of bytes into whole messages.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    bytes: Vec<u8>,
    /// Whether the first message, which has no type, is still to come.
    startup: bool,
}

impl Framer {
    /// For what a client sends.
    pub(crate) fn client() -> Self {
        Framer { bytes: Vec::new(), startup: true }
    }

    /// For what a server sends.
    pub(crate) fn server() -> Self {
        Framer::default()
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, with its header.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        let offset = usize::from(!self.startup);
        let length = self.bytes.get(offset..offset + 4)?;
        let length = u32::from_be_bytes(length.try_into().ok()?) as usize + offset;
        if self.bytes.len() < length {
            return None;
        }
        self.startup = false;
        let rest = self.bytes.split_off(length);
        Some(std::mem::replace(&mut self.bytes, rest))
    }
}

/// A group of messages that one `ReadyForQuery` answers: one round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) operation: Option<&'static str>,
    /// Whether it carries the operation out, and does not only prepare it.
    pub(crate) executes: bool,
}

/// What one connection is talking about.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    statements: HashMap<Vec<u8>, Option<&'static str>>,
    operation: Option<&'static str>,
    executes: bool,
    /// Round trips that the server has not answered yet.
    pub(crate) open: VecDeque<Group>,
}

impl Talk {
    /// Takes in a client's message; answers the round trip that it completes.
    pub(crate) fn client_message(&mut self, message: &[u8]) -> Option<Group> {
        let body = message.get(5..).unwrap_or_default();
        let mut texts = body.split(|byte| *byte == 0);
        match message.first()? {
            b'P' => {
                let (name, query) = (texts.next()?, texts.next()?);
                self.operation = operation_of(query);
                self.statements.insert(name.to_vec(), self.operation);
            }
            b'B' => {
                let _portal = texts.next()?;
                self.operation = self.statements.get(texts.next()?).copied().flatten();
            }
            b'E' => self.executes = true,
            b'Q' => {
                self.operation = operation_of(texts.next()?);
                self.executes = true;
                return Some(self.end_group());
            }
            b'S' => return Some(self.end_group()),
            _ => {}
        }
        None
    }

    fn end_group(&mut self) -> Group {
        let group = Group { operation: self.operation.take(), executes: std::mem::take(&mut self.executes) };
        self.open.push_back(group);
        group
    }

    /// The round trip that the server is answering.
    pub(crate) fn answering(&self) -> Option<Group> {
        self.open.front().copied()
    }

    /// Takes in a server's message; says whether it ends the answer to a round trip.
    pub(crate) fn server_message(&mut self, message: &[u8]) -> bool {
        let ends = message.first() == Some(&b'Z');
        if ends {
            // The one after the startup belongs to no round trip.
            self.open.pop_front();
        }
        ends
    }
}

fn operation_of(query: &[u8]) -> Option<&'static str> {
    let query = String::from_utf8_lossy(query);
    OPERATIONS.into_iter().find(|operation| {
        ["(", "_many(", "_prioritized("].iter().any(|end| query.contains(&format!(".{operation}{end}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut message = vec![kind];
        message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        message.extend_from_slice(body);
        message
    }

    #[test]
    fn messages_are_framed_whatever_the_pieces() {
        let mut framer = Framer::client();
        let mut all = vec![0, 0, 0, 8, 0, 3, 0, 0];
        all.extend(message(b'Q', b"SELECT 1\0"));
        let mut found = Vec::new();
        for byte in &all {
            framer.push(&[*byte]);
            found.extend(framer.next());
        }
        assert_eq!(found.len(), 2);
        assert_eq!(found.concat(), all);
    }

    #[test]
    fn a_round_trip_knows_its_operation_by_its_prepared_statement() {
        let mut talk = Talk::default();
        talk.client_message(&message(b'P', b"s1\0SELECT * FROM turno.complete_many($1)\0\0\0"));
        let prepare = talk.client_message(&message(b'S', b"")).unwrap();
        assert_eq!(prepare, Group { operation: Some("complete"), executes: false });
        talk.client_message(&message(b'B', b"\0s1\0\0\0"));
        talk.client_message(&message(b'E', b"\0\0\0\0\0"));
        let run = talk.client_message(&message(b'S', b"")).unwrap();
        assert_eq!(run, Group { operation: Some("complete"), executes: true });
        assert_eq!(talk.answering(), Some(prepare));
        assert!(talk.server_message(&message(b'Z', b"I")));
        assert_eq!(talk.answering(), Some(run));
    }

    #[test]
    fn a_claim_of_another_name_is_no_operation() {
        assert_eq!(operation_of(b"SELECT turno.claim_check(1)"), None);
        assert_eq!(operation_of(b"SELECT * FROM jobs_2.claim($1)"), Some("claim"));
    }
}
