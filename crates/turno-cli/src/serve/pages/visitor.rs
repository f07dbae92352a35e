//! Whoever looks at a page: logged in, vouched for by a proxy, or at this very machine. It refuses bearer tokens: those
//! are for programs, and there is the API.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Redirect, Response};

use super::super::access::{Identity, Right};
use super::super::caller::without_token;
use super::super::problem::Problem;
use super::super::state::Shared;

/// Whoever looks.
#[derive(Debug, Clone)]
pub struct Visitor {
    identity: Identity,
    form_token: String,
    has_session: bool,
    read_only: bool,
}

/// What every page shows around its content.
#[derive(Debug, Clone)]
pub struct Shell {
    /// Which entry of the navigation this is.
    pub page: &'static str,
    /// Whether the page refreshes itself.
    pub refreshes: bool,
    /// Whoever looks.
    pub name: String,
    /// Whether there is a login that can be ended.
    pub has_session: bool,
    /// What forms carry.
    pub form_token: String,
    /// Whether changes are refused.
    pub read_only: bool,
}

impl Visitor {
    /// An error unless they may see or do this.
    pub fn need(&self, right: Right) -> Result<(), Problem> {
        if self.may(right) {
            return Ok(());
        }
        if right.is_change() && self.read_only {
            return Err(Problem::forbidden("read_only", "This server was started with --read-only."));
        }
        let roles: Vec<&str> = self.identity.roles.iter().map(|role| role.as_str()).collect();
        let detail = format!("The role {} may not do this.", roles.join(", "));
        Err(Problem::forbidden("permission_denied", detail))
    }

    /// Whether they may see or do this.
    pub fn may(&self, right: Right) -> bool {
        self.identity.may(right) && !(right.is_change() && self.read_only)
    }

    /// An error unless the form is one of ours, made for this login.
    pub fn check_form(&self, form_token: &str) -> Result<(), Problem> {
        if form_token == self.form_token {
            return Ok(());
        }
        let detail = "The form is not of this login; open the page again.";
        Err(Problem::forbidden("stale_form", detail))
    }

    /// What forms carry.
    pub fn form_token(&self) -> String {
        self.form_token.clone()
    }

    /// What stands around a page.
    pub fn shell(&self, page: &'static str, refreshes: bool) -> Option<Shell> {
        Some(Shell {
            page,
            refreshes,
            name: self.identity.name.clone(),
            has_session: self.has_session,
            form_token: self.form_token.clone(),
            read_only: self.read_only,
        })
    }
}

/// Nobody: a redirect to the login, or a refusal.
pub struct Nobody(Response);

impl IntoResponse for Nobody {
    fn into_response(self) -> Response {
        self.0
    }
}

impl FromRequestParts<Shared> for Visitor {
    type Rejection = Nobody;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Nobody> {
        let read_only = app.access.read_only;
        if let Some(identity) = without_token(parts, &app.access) {
            let form_token = app.sessions.form_token.clone();
            return Ok(Visitor { identity, form_token, has_session: false, read_only });
        }
        if let Some(session) = app.sessions.find(&parts.headers) {
            let (identity, form_token) = (session.identity, session.form_token);
            return Ok(Visitor { identity, form_token, has_session: true, read_only });
        }
        let may_return = parts.method == Method::GET;
        let target = if may_return { login_for(&parts.uri) } else { "/login".to_owned() };
        Err(Nobody(Redirect::to(&target).into_response()))
    }
}

fn login_for(uri: &Uri) -> String {
    let here = uri.path_and_query().map_or("/", |here| here.as_str());
    if here == "/" { "/login".to_owned() } else { format!("/login?next={}", super::show::escaped(here)) }
}
