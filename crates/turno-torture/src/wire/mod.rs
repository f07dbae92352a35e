//! As much of the database's protocol as the proxy has to read: where messages end, which operation they are for, and
//! which answer belongs to them. One module per protocol. It refuses to change a byte.

mod mysql;
mod postgres;
mod tds;

/// The operations whose calls can be told apart.
pub(crate) const OPERATIONS: [&str; 8] =
    ["claim", "heartbeat", "complete", "fail", "release", "reap", "promote", "enqueue"];

/// Whose words pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Postgres,
    /// MariaDB's as well.
    Mysql,
    /// SQL Server's.
    Tds,
}

impl Protocol {
    /// What a client hears when the server has no connection left, one answer for each time that the server speaks.
    pub(crate) fn too_many_connections(self) -> Vec<Vec<u8>> {
        match self {
            Protocol::Postgres => vec![postgres::too_many_connections()],
            Protocol::Mysql => vec![mysql::too_many_connections()],
            Protocol::Tds => tds::too_many_connections(),
        }
    }

    /// Whether the client says nothing before the server has.
    pub(crate) fn server_speaks_first(self) -> bool {
        self == Protocol::Mysql
    }

    /// For what a client sends.
    pub(crate) fn client_framer(self) -> Framer {
        Framer { bytes: Vec::new(), protocol: self, startup: self == Protocol::Postgres }
    }

    /// For what a server sends.
    pub(crate) fn server_framer(self) -> Framer {
        Framer { bytes: Vec::new(), protocol: self, startup: false }
    }

    /// A connection's talk, from its beginning.
    pub(crate) fn talk(self) -> Talk {
        match self {
            Protocol::Postgres => Talk::Postgres(postgres::Talk::default()),
            Protocol::Mysql => Talk::Mysql(mysql::Talk::default()),
            Protocol::Tds => Talk::Tds(tds::Talk::default()),
        }
    }
}

/// Cuts a stream of bytes into whole messages.
#[derive(Debug)]
pub(crate) struct Framer {
    bytes: Vec<u8>,
    protocol: Protocol,
    /// Whether PostgreSQL's first message, which has no type, is still to come.
    startup: bool,
}

impl Framer {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, with its header.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        let length = match self.protocol {
            Protocol::Postgres => postgres::length(&self.bytes, self.startup),
            Protocol::Mysql => mysql::length(&self.bytes),
            Protocol::Tds => tds::length(&self.bytes),
        }?;
        if self.bytes.len() < length {
            return None;
        }
        self.startup = false;
        let rest = self.bytes.split_off(length);
        Some(std::mem::replace(&mut self.bytes, rest))
    }
}

/// What is answered together: one round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) operation: Option<&'static str>,
    /// Whether it carries the operation out, and does not only prepare it.
    pub(crate) executes: bool,
}

/// What one connection is talking about.
#[derive(Debug)]
pub(crate) enum Talk {
    Postgres(postgres::Talk),
    Mysql(mysql::Talk),
    Tds(tds::Talk),
}

impl Talk {
    /// Takes in a client's message; answers the round trip that it completes.
    pub(crate) fn client_message(&mut self, message: &[u8]) -> Option<Group> {
        match self {
            Talk::Postgres(talk) => talk.client_message(message),
            Talk::Mysql(talk) => talk.client_message(message),
            Talk::Tds(talk) => talk.client_message(message),
        }
    }

    /// The round trip that the server is answering.
    pub(crate) fn answering(&self) -> Option<Group> {
        match self {
            Talk::Postgres(talk) => talk.answering(),
            Talk::Mysql(talk) => talk.answering(),
            Talk::Tds(talk) => talk.answering(),
        }
    }

    /// Takes in a server's message; says whether it ends the answer to a round trip.
    pub(crate) fn server_message(&mut self, message: &[u8]) -> bool {
        match self {
            Talk::Postgres(talk) => talk.server_message(message),
            Talk::Mysql(talk) => talk.server_message(message),
            Talk::Tds(talk) => talk.server_message(message),
        }
    }

    /// The server's own number for this session, if it told it by now.
    pub(crate) fn session(&self) -> Option<u32> {
        match self {
            Talk::Postgres(_) | Talk::Tds(_) => None,
            Talk::Mysql(talk) => talk.session(),
        }
    }
}

/// The operation that a query calls; `before` is what stands before its arguments.
fn operation_of(query: &str, before: char) -> Option<&'static str> {
    OPERATIONS.into_iter().find(|operation| {
        ["", "_many", "_prioritized", "_many_prioritized"]
            .iter()
            .any(|end| query.contains(&format!(".{operation}{end}{before}")))
    })
}

/// The same of a query that is UTF-8, and has its arguments in brackets.
fn operation_in(query: &[u8]) -> Option<&'static str> {
    operation_of(&String::from_utf8_lossy(query), '(')
}

/// Whether it is the end of a transaction, which belongs to the operation that was carried out in it.
fn is_commit(query: &[u8]) -> bool {
    query.eq_ignore_ascii_case(b"COMMIT")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client's messages are found as they were sent, whatever the pieces that they come in.
    pub(super) fn assert_framed(protocol: Protocol, messages: &[Vec<u8>]) {
        let (mut framer, mut found) = (protocol.client_framer(), Vec::new());
        for byte in messages.concat() {
            framer.push(&[byte]);
            found.extend(framer.next());
        }
        assert_eq!(found, messages);
    }

    #[test]
    fn a_claim_of_another_name_is_no_operation() {
        assert_eq!(operation_in(b"SELECT turno.claim_check(1)"), None);
        assert_eq!(operation_in(b"SELECT * FROM jobs_2.claim($1)"), Some("claim"));
        assert_eq!(operation_in(b"CALL turno.enqueue_many_prioritized(?)"), Some("enqueue"));
        assert_eq!(operation_of("EXEC turno.enqueue_many @P1", ' '), Some("enqueue"));
        assert_eq!(operation_of("EXEC turno.jobs @P1", ' '), None);
    }
}
