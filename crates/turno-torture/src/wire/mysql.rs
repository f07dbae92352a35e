//! The protocol of MySQL and MariaDB, without TLS and without compression. One command is answered at a time; the end of
//! an answer is found by following its parts. It refuses to read a row.

use std::collections::{HashMap, VecDeque};

use super::{Group, is_commit, operation_in};

/// Length and number of a packet.
const HEADER_BYTES: usize = 4;
const CLIENT_DEPRECATE_EOF: u32 = 1 << 24;
const SERVER_MORE_RESULTS_EXISTS: u16 = 8;

const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_SEND_LONG_DATA: u8 = 0x18;
const COM_STMT_CLOSE: u8 = 0x19;

const OK: u8 = 0x00;
const EOF: u8 = 0xfe;
const ERR: u8 = 0xff;

/// What a server says instead of its greeting when it has no connection left: error 1040.
pub(super) fn too_many_connections() -> Vec<u8> {
    let mut body = vec![ERR];
    body.extend_from_slice(&1040_u16.to_le_bytes());
    body.extend_from_slice(b"Too many connections");
    let mut packet = (body.len() as u32).to_le_bytes()[..3].to_vec();
    packet.push(0);
    packet.extend(body);
    packet
}

/// How long the packet is that begins here, with its header.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let header = bytes.get(..HEADER_BYTES)?;
    Some(u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize + HEADER_BYTES)
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Greeting,
    Login,
    Commands,
}

/// How far the answer to a command has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// What a prepared statement looks like.
    Prepared,
    /// So many packets, then the end.
    Last(u64),
    /// The first packet of a result.
    Result,
    /// So many packets about columns, then rows.
    Columns(u64),
    Rows,
}

/// What one connection is talking about.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    phase: Phase,
    server_flags: u32,
    client_flags: Option<u32>,
    session: Option<u32>,
    statements: HashMap<u32, Option<&'static str>>,
    /// What was carried out last, which a COMMIT makes last.
    done: Option<&'static str>,
    /// Commands that the server has not answered whole.
    open: VecDeque<(Group, Part)>,
}

impl Talk {
    /// Takes in a client's packet; answers the round trip that it begins.
    pub(crate) fn client_message(&mut self, packet: &[u8]) -> Option<Group> {
        let body = packet.get(HEADER_BYTES..)?;
        match self.phase {
            Phase::Greeting => None,
            Phase::Login => {
                self.client_flags = self.client_flags.or(u32_at(body, 0));
                None
            }
            // A packet of another number goes on with what was begun.
            Phase::Commands if packet[3] != 0 => None,
            Phase::Commands => self.command(body),
        }
    }

    fn command(&mut self, body: &[u8]) -> Option<Group> {
        let rest = body.get(1..)?;
        let (operation, part) = match body[0] {
            COM_QUIT | COM_STMT_SEND_LONG_DATA => return None,
            COM_STMT_CLOSE => {
                self.statements.remove(&u32_at(rest, 0)?);
                return None;
            }
            COM_STMT_PREPARE => (operation_in(rest), Part::Prepared),
            COM_STMT_EXECUTE => (self.statements.get(&u32_at(rest, 0)?).copied().flatten(), Part::Result),
            COM_QUERY if is_commit(rest) => (self.done, Part::Result),
            COM_QUERY => (operation_in(rest), Part::Result),
            _ => (None, Part::Result),
        };
        let group = Group { operation, executes: part != Part::Prepared };
        if group.executes {
            self.done = operation;
        }
        self.open.push_back((group, part));
        Some(group)
    }

    /// The round trip that the server is answering.
    pub(crate) fn answering(&self) -> Option<Group> {
        self.open.front().map(|(group, _)| *group)
    }

    /// The server's number for this session, by which it can be ended.
    pub(crate) fn session(&self) -> Option<u32> {
        self.session
    }

    /// Takes in a server's packet; says whether it ends the answer to a round trip.
    pub(crate) fn server_message(&mut self, packet: &[u8]) -> bool {
        let body = packet.get(HEADER_BYTES..).unwrap_or_default();
        match self.phase {
            Phase::Greeting => {
                // Another version, or an error: there is nothing to follow then.
                self.greet(body);
                false
            }
            Phase::Login => {
                if body.first() == Some(&OK) {
                    self.phase = Phase::Commands;
                }
                false
            }
            Phase::Commands => self.answer(body).unwrap_or_default(),
        }
    }

    /// Version 10: a text, the session's number, 8 bytes and a zero, and half of the flags; 3 bytes on the other half.
    fn greet(&mut self, body: &[u8]) -> Option<()> {
        if body.first() != Some(&10) {
            return None;
        }
        let end = body.iter().position(|byte| *byte == 0)? + 1;
        self.session = u32_at(body, end);
        let (low, high) = (u16_at(body, end + 13)?, u16_at(body, end + 18)?);
        self.server_flags = u32::from(low) | u32::from(high) << 16;
        self.phase = Phase::Login;
        Some(())
    }

    fn deprecates_eof(&self) -> bool {
        self.server_flags & self.client_flags.unwrap_or_default() & CLIENT_DEPRECATE_EOF != 0
    }

    /// Follows the answer; `None` if the server speaks unasked.
    fn answer(&mut self, body: &[u8]) -> Option<bool> {
        let deprecates_eof = self.deprecates_eof();
        let (group, part) = *self.open.front()?;
        let next = match part {
            Part::Prepared if body.first() == Some(&OK) => {
                self.statements.insert(u32_at(body, 1)?, group.operation);
                after_prepared(body, deprecates_eof)?
            }
            Part::Prepared => None,
            Part::Last(left) => (left > 1).then(|| Part::Last(left - 1)),
            Part::Result => match *body.first()? {
                OK => more(ok_status(body)?),
                ERR => None,
                _ => Some(after_columns(body, deprecates_eof)?),
            },
            Part::Columns(left) if left > 1 => Some(Part::Columns(left - 1)),
            Part::Columns(_) => Some(Part::Rows),
            Part::Rows => match *body.first()? {
                ERR => None,
                EOF if deprecates_eof && body.len() < 0xff_ffff => more(ok_status(body)?),
                EOF if body.len() < 9 => more(u16_at(body, 3)?),
                _ => Some(Part::Rows),
            },
        };
        match next {
            Some(part) => self.open.front_mut()?.1 = part,
            None => {
                self.open.pop_front();
            }
        }
        Some(next.is_none())
    }
}

fn after_prepared(body: &[u8], deprecates_eof: bool) -> Option<Option<Part>> {
    let (columns, parameters) = (u16_at(body, 5)?, u16_at(body, 7)?);
    let packets = |n: u16| u64::from(n) + u64::from(n > 0 && !deprecates_eof);
    let left = packets(columns) + packets(parameters);
    Some((left > 0).then_some(Part::Last(left)))
}

/// A number of columns. MariaDB adds whether they are described: it does so once if the client remembers them.
fn after_columns(body: &[u8], deprecates_eof: bool) -> Option<Part> {
    let (columns, size) = number(body)?;
    let described = body.get(size).is_none_or(|follows| *follows == 1);
    let left = if described { columns } else { 0 } + u64::from(!deprecates_eof);
    Some(if left > 0 { Part::Columns(left) } else { Part::Rows })
}

fn more(status: u16) -> Option<Part> {
    (status & SERVER_MORE_RESULTS_EXISTS != 0).then_some(Part::Result)
}

/// The status in an OK packet, behind two numbers of varying size.
fn ok_status(body: &[u8]) -> Option<u16> {
    let (_, rows) = number(body.get(1..)?)?;
    let (_, id) = number(body.get(1 + rows..)?)?;
    u16_at(body, 1 + rows + id)
}

/// A number of varying size, and its size.
fn number(bytes: &[u8]) -> Option<(u64, usize)> {
    let size = match *bytes.first()? {
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        small => return Some((u64::from(small), 1)),
    };
    let mut wide = [0; 8];
    wide[..size].copy_from_slice(bytes.get(1..=size)?);
    Some((u64::from_le_bytes(wide), size + 1))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Protocol;
    use crate::wire::tests::assert_framed;

    fn packet(number: u8, body: &[u8]) -> Vec<u8> {
        let mut packet = (body.len() as u32).to_le_bytes()[..3].to_vec();
        packet.push(number);
        packet.extend_from_slice(body);
        packet
    }

    /// A connection that has logged in, as session 7.
    fn talk(deprecates_eof: bool) -> Talk {
        let flags = if deprecates_eof { CLIENT_DEPRECATE_EOF } else { 0 };
        let mut talk = Talk::default();
        let mut greeting = b"\x0a11.8-MariaDB\0\x07\0\0\0saltsalt\0".to_vec();
        greeting.extend_from_slice(&(flags as u16).to_le_bytes());
        greeting.extend_from_slice(&[45, 2, 0]);
        greeting.extend_from_slice(&((flags >> 16) as u16).to_le_bytes());
        assert!(!talk.server_message(&packet(0, &greeting)));
        talk.client_message(&packet(1, &u32::MAX.to_le_bytes()));
        assert!(!talk.server_message(&packet(2, &[OK, 0, 0, 2, 0, 0, 0])));
        assert_eq!(talk.session(), Some(7));
        talk
    }

    fn ends(talk: &mut Talk, bodies: &[&[u8]]) -> Vec<bool> {
        bodies.iter().map(|body| talk.server_message(&packet(1, body))).collect()
    }

    #[test]
    fn packets_are_framed_whatever_the_pieces() {
        assert_framed(Protocol::Mysql, &[packet(0, b"\x03SELECT 1"), packet(1, b"")]);
    }

    #[test]
    fn the_answer_to_a_call_ends_with_its_last_result() {
        let mut talk = talk(true);
        let prepare = talk.client_message(&packet(0, b"\x16CALL turno.claim(?, ?)")).unwrap();
        assert_eq!(prepare, Group { operation: Some("claim"), executes: false });
        let prepared: &[u8] = &[OK, 9, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0];
        assert_eq!(ends(&mut talk, &[prepared, b"?", b"?"]), [false, false, true]);
        let run = talk.client_message(&packet(0, &[COM_STMT_EXECUTE, 9, 0, 0, 0, 0])).unwrap();
        assert_eq!(run, Group { operation: Some("claim"), executes: true });
        assert_eq!(talk.answering(), Some(run));
        // Two columns, a row, more to come; then the routine's own end.
        let bodies: [&[u8]; 6] = [&[2], b"a", b"b", &[0, 0, 1], &[EOF, 0, 0, 10, 0, 0, 0], &[OK, 0, 0, 2, 0]];
        assert_eq!(ends(&mut talk, &bodies), [false, false, false, false, false, true]);
        assert_eq!(talk.answering(), None);
    }

    #[test]
    fn columns_may_be_left_out_and_ends_of_files_may_be_sent() {
        let mut talk = talk(false);
        talk.client_message(&packet(0, b"\x16CALL turno.reap(?)"));
        let prepared: &[u8] = &[OK, 3, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        let eof: &[u8] = &[EOF, 0, 0, 2, 0];
        assert_eq!(ends(&mut talk, &[prepared, b"?", eof]), [false, false, true]);
        talk.client_message(&packet(0, &[COM_STMT_EXECUTE, 3, 0, 0, 0]));
        assert_eq!(ends(&mut talk, &[&[4, 0], eof, &[0, 0, 1], eof]), [false, false, false, true]);
    }

    #[test]
    fn an_error_ends_an_answer_and_a_closed_statement_has_none() {
        let mut talk = talk(true);
        talk.client_message(&packet(0, b"\x03CALL turno.complete(1)"));
        assert_eq!(ends(&mut talk, &[&[ERR, 0, 0]]), [true]);
        assert_eq!(talk.client_message(&packet(0, &[COM_STMT_CLOSE, 9, 0, 0, 0])), None);
        let commit = talk.client_message(&packet(0, b"\x03COMMIT")).unwrap();
        assert_eq!(commit.operation, Some("complete"));
        assert_eq!(ends(&mut talk, &[&[OK, 0, 0, 2, 0]]), [true]);
    }
}
