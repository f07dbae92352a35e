//! Who is logged in at the pages, kept in memory: a restart logs everybody out. It refuses to keep the token that
//! somebody logged in with.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use uuid::Uuid;

use super::access::Identity;

/// The name of the cookie.
const COOKIE: &str = "turno_session";
/// How long a login lasts.
const LASTS: Duration = Duration::from_secs(12 * 3600);
/// Most logins at the same time.
const SESSIONS_MAX: usize = 10_000;

/// One login.
#[derive(Debug, Clone)]
pub struct Session {
    /// Whose it is.
    pub identity: Identity,
    /// What every form of this login carries: another site cannot know it.
    pub form_token: String,
    ends_at: Instant,
}

/// All logins, and the form token of those who need none.
#[derive(Debug)]
pub struct Sessions {
    by_id: Mutex<HashMap<String, Session>>,
    /// The form token where nobody logs in: a page of another site cannot read ours.
    pub form_token: String,
}

impl Sessions {
    /// Nobody.
    pub fn new() -> Self {
        Sessions { by_id: Mutex::default(), form_token: secret() }
    }

    /// Logs in, and answers the value of `Set-Cookie`.
    pub fn begin(&self, identity: Identity, over_https: bool) -> String {
        let (id, now) = (secret(), Instant::now());
        let mut sessions = self.lock();
        sessions.retain(|_, session| session.ends_at > now);
        if sessions.len() >= SESSIONS_MAX
            && let Some(oldest) =
                sessions.iter().min_by_key(|(_, session)| session.ends_at).map(|(id, _)| id.clone())
        {
            sessions.remove(&oldest);
        }
        let session = Session { identity, form_token: secret(), ends_at: now + LASTS };
        sessions.insert(id.clone(), session);
        cookie(&id, LASTS.as_secs(), over_https)
    }

    /// The login that a request's cookie names.
    pub fn find(&self, headers: &HeaderMap) -> Option<Session> {
        let session = self.lock().get(&id_of(headers)?)?.clone();
        (session.ends_at > Instant::now()).then_some(session)
    }

    /// Logs out, and answers the value of `Set-Cookie`.
    pub fn end(&self, headers: &HeaderMap) -> String {
        if let Some(id) = id_of(headers) {
            self.lock().remove(&id);
        }
        cookie("", 0, false)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 244 random bits.
fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

fn cookie(value: &str, seconds: u64, over_https: bool) -> String {
    let secure = if over_https { "; Secure" } else { "" };
    format!("{COOKIE}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

fn id_of(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::access::Access;

    #[test]
    fn a_login_is_found_by_its_cookie_until_it_ends() {
        let sessions = Sessions::new();
        let cookie = sessions.begin(Access::local(), true);
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
        let mut headers = HeaderMap::new();
        let value = format!("other=1; {}", cookie.split(';').next().unwrap());
        headers.insert(header::COOKIE, value.parse().unwrap());
        let session = sessions.find(&headers).unwrap();
        assert!(session.form_token.len() == 64 && session.form_token != sessions.form_token);
        assert!(sessions.end(&headers).contains("Max-Age=0"));
        assert!(sessions.find(&headers).is_none() && sessions.find(&HeaderMap::new()).is_none());
    }
}
