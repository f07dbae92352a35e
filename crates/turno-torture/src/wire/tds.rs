//! TDS, the protocol of SQL Server, without TLS. Messages are cut into packets; one request is answered by one message.
//! It refuses to read a token: where a message ends stands in the header of its last packet.

use super::{Group, operation_of};

/// Kind, status, length and session of a packet, its number, and a byte that nobody uses.
const HEADER_BYTES: usize = 8;
/// In the status of a message's last packet.
const END_OF_MESSAGE: u8 = 1;

const SQL_BATCH: u8 = 0x01;
const RPC: u8 = 0x03;
const ANSWER: u8 = 0x04;
const ATTENTION: u8 = 0x06;

/// What a server says when it has no connection left: it agrees about the protocol first, and refuses the login with error
/// 17809.
pub(super) fn too_many_connections() -> Vec<Vec<u8>> {
    // The version (16) and the encryption (none), each by its place behind this list.
    let agreed = [&[0, 0, 11, 0, 6, 1, 0, 17, 0, 1, 0xff][..], &[16, 0, 0, 0, 0, 0, 2]].concat();
    let text: Vec<u8> = "the maximum number of user connections has been reached"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let mut error = 17809_u32.to_le_bytes().to_vec();
    error.extend_from_slice(&[1, 20]);
    error.extend_from_slice(&((text.len() / 2) as u16).to_le_bytes());
    error.extend(text);
    // No name of the server, no procedure, line 1.
    error.extend_from_slice(&[0, 0, 1, 0, 0, 0]);
    let mut refused = vec![0xaa];
    refused.extend_from_slice(&(error.len() as u16).to_le_bytes());
    refused.extend(error);
    // The end of the answer, with an error.
    refused.extend_from_slice(&[0xfd, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    vec![packet(ANSWER, END_OF_MESSAGE, &agreed), packet(ANSWER, END_OF_MESSAGE, &refused)]
}

fn packet(kind: u8, status: u8, body: &[u8]) -> Vec<u8> {
    let [high, low] = ((body.len() + HEADER_BYTES) as u16).to_be_bytes();
    [&[kind, status, high, low, 0, 0, 1, 0], body].concat()
}

/// How long the packet is that begins here, with its header.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let length = bytes.get(2..4)?;
    Some(usize::from(u16::from_be_bytes([length[0], length[1]])).max(HEADER_BYTES))
}

/// What one connection is talking about.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    /// Of the message whose packets are coming in.
    operation: Option<&'static str>,
    /// Whether its first packet has come.
    begun: bool,
    /// What was carried out last, which a COMMIT makes last.
    done: Option<&'static str>,
    /// The request that the server has not answered: there is one at a time.
    open: Option<Group>,
}

impl Talk {
    /// Takes in a client's packet; answers the round trip that it completes.
    pub(crate) fn client_message(&mut self, packet: &[u8]) -> Option<Group> {
        let (kind, ends) = (*packet.first()?, packet.get(1)? & END_OF_MESSAGE != 0);
        if kind == ATTENTION {
            // The answer to the request that it gives up ends as any does.
            return None;
        }
        // The text stands before the arguments, and ours are shorter than a packet.
        if !std::mem::replace(&mut self.begun, !ends) {
            self.operation = match kind {
                SQL_BATCH | RPC => self.operation(packet.get(HEADER_BYTES..)?),
                _ => None,
            };
        }
        if !ends {
            return None;
        }
        let group = Group { operation: self.operation.take(), executes: true };
        self.done = group.operation;
        self.open = Some(group);
        Some(group)
    }

    fn operation(&self, body: &[u8]) -> Option<&'static str> {
        let texts = [utf16(body), utf16(body.get(1..)?)];
        match texts.iter().any(|text| text.contains("COMMIT TRANSACTION")) {
            true => self.done,
            false => texts.iter().find_map(|text| operation_of(text, ' ')),
        }
    }

    /// The round trip that the server is answering.
    pub(crate) fn answering(&self) -> Option<Group> {
        self.open
    }

    /// Takes in a server's packet; says whether it ends the answer to a round trip.
    pub(crate) fn server_message(&mut self, packet: &[u8]) -> bool {
        let ends = packet.get(1).is_some_and(|status| status & END_OF_MESSAGE != 0);
        ends && self.open.take().is_some()
    }
}

/// What is text in a message, which begins at an even or at an odd place.
fn utf16(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Protocol;
    use crate::wire::tests::assert_framed;

    /// A call, `shift` bytes behind the header.
    fn call(shift: usize, status: u8, text: &str) -> Vec<u8> {
        let mut body = vec![0xe7; shift];
        body.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
        packet(RPC, status, &body)
    }

    fn group(operation: &'static str) -> Option<Group> {
        Some(Group { operation: Some(operation), executes: true })
    }

    #[test]
    fn packets_are_framed_whatever_the_pieces() {
        assert_framed(Protocol::Tds, &[call(1, 0, "EXEC turno.claim @P1"), packet(ATTENTION, 1, b"")]);
    }

    #[test]
    fn a_call_is_known_by_its_first_packet_and_complete_with_its_last() {
        for shift in [4, 33] {
            let mut talk = Talk::default();
            assert_eq!(talk.client_message(&call(shift, 0, "EXEC turno.complete_many @P1, @P2")), None);
            assert_eq!(talk.answering(), None);
            // An argument that looks like a call.
            assert_eq!(talk.client_message(&call(0, 1, "EXEC turno.fail @P1")), group("complete"));
            assert_eq!(talk.answering(), group("complete"));
            assert!(!talk.server_message(&packet(ANSWER, 0, b"rows")));
            assert!(talk.server_message(&packet(ANSWER, END_OF_MESSAGE, b"done")));
            assert_eq!(talk.answering(), None);
        }
    }

    #[test]
    fn a_commit_belongs_to_what_was_carried_out_before_it() {
        let mut talk = Talk::default();
        talk.client_message(&call(22, 1, "EXEC turno.enqueue @P1"));
        talk.server_message(&packet(ANSWER, END_OF_MESSAGE, b""));
        assert_eq!(talk.client_message(&call(22, 1, "COMMIT TRANSACTION")), group("enqueue"));
    }

    #[test]
    fn an_attention_is_no_round_trip_of_its_own() {
        let mut talk = Talk::default();
        talk.client_message(&call(22, 1, "EXEC turno.reap @P1"));
        assert_eq!(talk.client_message(&packet(ATTENTION, END_OF_MESSAGE, b"")), None);
        assert!(talk.server_message(&packet(ANSWER, END_OF_MESSAGE, b"")));
        assert!(!talk.server_message(&packet(ANSWER, END_OF_MESSAGE, b"")), "nobody asked");
    }
}
