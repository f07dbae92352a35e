//! Who may do what over HTTP: roles as the database has them, tokens bound to roles, a proxy that vouches for its
//! users, or anybody at the loopback address. It refuses to be the last word: the database's own role is.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;

use anyhow::Context;
use sha2::{Digest, Sha256};

use crate::exit::Fault;

/// Shortest token: long enough that nobody guesses one.
const TOKEN_CHARS_MIN: usize = 20;
/// Longest token.
const TOKEN_CHARS_MAX: usize = 500;
/// Most lines of a token file.
const TOKENS_MAX: usize = 10_000;

/// One kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Enqueue without a priority.
    Enqueue,
    /// Enqueue with a priority, and change priorities.
    Prioritize,
    /// Claim, heartbeat and settle.
    Work,
    /// Cancel jobs.
    Cancel,
    /// Retry dead jobs.
    Retry,
    /// Pause and resume queues.
    Pause,
    /// Pause and resume schedules.
    PauseSchedule,
    /// Create and change schedules.
    PutSchedule,
    /// Remove schedules.
    RemoveSchedule,
    /// See numbers about queues.
    Stats,
    /// See jobs.
    Jobs,
    /// See attempts, refused results and errors.
    Story,
    /// See the queues' settings.
    Queues,
    /// See schedules.
    Schedules,
}

impl Right {
    /// Whether it changes anything.
    pub fn is_change(self) -> bool {
        !matches!(self, Right::Stats | Right::Jobs | Right::Story | Right::Queues | Right::Schedules)
    }
}

/// The roles of the installation, with the rights that their grants in the database give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Enqueues.
    Producer,
    /// Works.
    Worker,
    /// Enqueues with a priority.
    Scheduler,
    /// Repairs.
    Operator,
    /// Looks.
    Viewer,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 5] = [Role::Producer, Role::Worker, Role::Scheduler, Role::Operator, Role::Viewer];

    /// The word in a token file.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Producer => "producer",
            Role::Worker => "worker",
            Role::Scheduler => "scheduler",
            Role::Operator => "operator",
            Role::Viewer => "viewer",
        }
    }

    /// Whether the role has this right.
    pub fn may(self, right: Right) -> bool {
        match right {
            Right::Enqueue => matches!(self, Role::Producer | Role::Scheduler | Role::Operator),
            Right::Prioritize => self == Role::Scheduler,
            Right::Work => self == Role::Worker,
            Right::Cancel => matches!(self, Role::Operator | Role::Scheduler),
            Right::Retry | Right::Pause => self == Role::Operator,
            Right::PauseSchedule => matches!(self, Role::Scheduler | Role::Operator),
            Right::PutSchedule | Right::RemoveSchedule => self == Role::Scheduler,
            Right::Stats | Right::Schedules => self != Role::Producer,
            Right::Jobs => matches!(self, Role::Scheduler | Role::Operator | Role::Viewer),
            Right::Story => matches!(self, Role::Operator | Role::Viewer),
            Right::Queues => true,
        }
    }
}

impl std::str::FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Role::ALL.map(Role::as_str).join(", ");
        let found = Role::ALL.into_iter().find(|role| role.as_str() == text);
        found.ok_or_else(|| format!("{text:?} is no role; the roles are {known}"))
    }
}

/// Somebody whose request is answered: what they may do, and a name for the log and the page.
#[derive(Debug, Clone)]
pub struct Identity {
    /// A label; decides nothing.
    pub name: String,
    /// Their roles.
    pub roles: Vec<Role>,
}

impl Identity {
    /// Whether one of the roles has the right.
    pub fn may(&self, right: Right) -> bool {
        self.roles.iter().any(|role| role.may(right))
    }
}

/// The tokens of a file, by their hash, so that no comparison takes longer the more of a guess is right.
#[derive(Default)]
pub struct Tokens(HashMap<[u8; 32], Identity>);

impl Tokens {
    /// Reads `token role` lines; a token that stands in several lines has several roles. `#` begins a comment.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the token file {}", path.display()))?;
        let tokens = Tokens::parse(&text)
            .map_err(|why| Fault::usage(format!("token file {}: {why}", path.display())))?;
        Ok(tokens)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = HashMap::<[u8; 32], Identity>::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            // The token itself must not get into an error, and so into a log.
            let mut words = line.split_whitespace();
            let (Some(token), Some(role), None) = (words.next(), words.next(), words.next()) else {
                return Err(format!("line {number} is not `token role`"));
            };
            let chars = token.chars().count();
            if !(TOKEN_CHARS_MIN..=TOKEN_CHARS_MAX).contains(&chars) || !token.is_ascii() {
                return Err(format!(
                    "line {number}: a token has {TOKEN_CHARS_MIN}..={TOKEN_CHARS_MAX} ASCII characters, not {chars}"
                ));
            }
            let role: Role = role.parse().map_err(|why| format!("line {number}: {why}"))?;
            let name = format!("token of line {number}");
            let identity = tokens.entry(hash(token)).or_insert_with(|| Identity { name, roles: Vec::new() });
            identity.roles.push(role);
            if tokens.len() > TOKENS_MAX {
                return Err(format!("more than {TOKENS_MAX} tokens"));
            }
        }
        if tokens.is_empty() {
            return Err("it holds no token".to_owned());
        }
        Ok(Tokens(tokens))
    }

    /// Whose token it is.
    pub fn identity(&self, token: &str) -> Option<&Identity> {
        self.0.get(&hash(token))
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// A proxy in front that has asked its users who they are.
#[derive(Debug)]
pub struct Proxy {
    /// The header with the user's name, in lower case.
    pub header: axum::http::HeaderName,
    /// What every user of the proxy may do.
    pub roles: Vec<Role>,
    /// The addresses from which the header is believed.
    pub from: Vec<IpAddr>,
}

/// How requests prove who they are.
#[derive(Debug)]
pub struct Access {
    /// Tokens, if there is a file of them.
    pub tokens: Option<Tokens>,
    /// The proxy, if one is trusted.
    pub proxy: Option<Proxy>,
    /// Nothing at all has to be proved, since only this machine can ask.
    pub is_open: bool,
    /// The names by which the server may be called where a browser's own word is not enough: see [`Access::host_is_known`].
    pub hosts: Vec<String>,
    /// Whether changes are refused, whoever asks.
    pub read_only: bool,
}

impl Access {
    /// Who may see and do everything, since they are at this machine already.
    pub fn local() -> Identity {
        Identity { name: "local".into(), roles: Role::ALL.to_vec() }
    }

    /// Whether people have to log in before they see a page.
    pub fn needs_login(&self) -> bool {
        !self.is_open
    }

    /// Whether the server is called by a name of its own: a page of another site can make a browser resolve that site's
    /// name to here, and then send what it likes, also the header of a proxy.
    pub fn host_is_known(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => name,
            _ => host,
        };
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_file_binds_tokens_to_roles() {
        let text = "# for the web\naaaaaaaaaaaaaaaaaaaa producer\n\nbbbbbbbbbbbbbbbbbbbb viewer # eyes\n\
                    bbbbbbbbbbbbbbbbbbbb operator\n";
        let tokens = Tokens::parse(text).unwrap();
        let producer = tokens.identity("aaaaaaaaaaaaaaaaaaaa").unwrap();
        assert!(producer.may(Right::Enqueue) && !producer.may(Right::Jobs));
        let eyes = tokens.identity("bbbbbbbbbbbbbbbbbbbb").unwrap();
        assert!(eyes.may(Right::Pause) && eyes.may(Right::Story) && !eyes.may(Right::Work));
        assert!(tokens.identity("aaaaaaaaaaaaaaaaaaab").is_none() && tokens.identity("").is_none());
    }

    #[test]
    fn a_bad_token_file_names_the_line_and_never_the_token() {
        let table = [
            ("", "no token"),
            ("secretsecretsecretsecret", "line 1 is not"),
            ("\nsecretsecretsecretsecret boss", "line 2: \"boss\" is no role"),
            ("secret viewer", "20..=500"),
            ("secretsecretsecretsecret viewer operator", "line 1 is not"),
        ];
        for (text, why) in table {
            let error = Tokens::parse(text).unwrap_err();
            assert!(error.contains(why) && !error.contains("secret"), "{text:?}: {error}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_answered_without_a_login() {
        let hosts = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).to_vec();
        let access = Access { tokens: None, proxy: None, is_open: true, hosts, read_only: false };
        for host in ["localhost:80", "LOCALHOST", "127.0.0.1:9", "[::1]:8080", "[::1]"] {
            assert!(access.host_is_known(host), "{host}");
        }
        for host in ["", "evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example"] {
            assert!(!access.host_is_known(host), "{host}");
        }
    }
}
