//! PostgreSQL's protocol. It refuses to read a row.

use std::collections::{HashMap, VecDeque};

use super::{Group, is_commit, operation_in};

/// The answer to a client when the server has no connection left: FATAL, SQLSTATE 53300.
pub(super) fn too_many_connections() -> Vec<u8> {
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

/// How long the message is that begins here, with its header.
pub(super) fn length(bytes: &[u8], startup: bool) -> Option<usize> {
    let offset = usize::from(!startup);
    let length = bytes.get(offset..offset + 4)?;
    Some(u32::from_be_bytes(length.try_into().ok()?) as usize + offset)
}

/// What one connection is talking about.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    statements: HashMap<Vec<u8>, Option<&'static str>>,
    operation: Option<&'static str>,
    executes: bool,
    /// What was carried out last, which a COMMIT makes last.
    done: Option<&'static str>,
    /// Round trips that the server has not answered yet.
    open: VecDeque<Group>,
}

impl Talk {
    /// Takes in a client's message; answers the round trip that it completes.
    pub(crate) fn client_message(&mut self, message: &[u8]) -> Option<Group> {
        let body = message.get(5..).unwrap_or_default();
        let mut texts = body.split(|byte| *byte == 0);
        match message.first()? {
            b'P' => {
                let (name, query) = (texts.next()?, texts.next()?);
                self.operation = operation_in(query);
                self.statements.insert(name.to_vec(), self.operation);
            }
            b'B' => {
                let _portal = texts.next()?;
                self.operation = self.statements.get(texts.next()?).copied().flatten();
            }
            b'E' => self.executes = true,
            b'Q' => {
                let query = texts.next()?;
                self.operation = if is_commit(query) { self.done } else { operation_in(query) };
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
        if group.executes {
            self.done = group.operation;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Protocol;
    use crate::wire::tests::assert_framed;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut message = vec![kind];
        message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        message.extend_from_slice(body);
        message
    }

    #[test]
    fn messages_are_framed_whatever_the_pieces() {
        let startup = vec![0, 0, 0, 8, 0, 3, 0, 0];
        assert_framed(Protocol::Postgres, &[startup, message(b'Q', b"SELECT 1\0")]);
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
    fn a_commit_belongs_to_what_was_done_in_its_transaction() {
        let mut talk = Talk::default();
        talk.client_message(&message(b'Q', b"SELECT turno.complete(1)\0"));
        let commit = talk.client_message(&message(b'Q', b"COMMIT\0"));
        assert_eq!(commit, Some(Group { operation: Some("complete"), executes: true }));
        talk.client_message(&message(b'Q', b"SELECT 1\0"));
        assert_eq!(talk.client_message(&message(b'Q', b"COMMIT\0")).unwrap().operation, None);
    }
}
