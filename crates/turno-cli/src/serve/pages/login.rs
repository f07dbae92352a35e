//! Logging in with a token, and out. It refuses to say more than that a token is not known, and to lead anywhere but to
//! a page of this server afterwards.

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::actions::Form;
use super::render;
use super::visitor::{Shell, Visitor};
use crate::serve::extract::Query;
use crate::serve::state::Shared;

/// Where to go afterwards.
#[derive(Debug, Deserialize)]
pub struct Asked {
    #[serde(default)]
    next: String,
}

/// The form.
#[derive(Debug, Deserialize)]
pub struct Login {
    token: String,
    #[serde(default)]
    next: String,
}

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    shell: Option<Shell>,
    next: String,
    wrong: bool,
}

/// Asks for the token; whoever needs none is sent on.
pub async fn ask(State(app): State<Shared>, Query(asked): Query<Asked>) -> Response {
    if !app.access.needs_login() {
        return Redirect::to("/").into_response();
    }
    render(&LoginPage { shell: None, next: asked.next, wrong: false })
}

/// Begins a login.
pub async fn begin(State(app): State<Shared>, headers: HeaderMap, Form(login): Form<Login>) -> Response {
    let tokens = app.access.tokens.as_ref();
    let Some(identity) = tokens.and_then(|tokens| tokens.identity(login.token.trim())) else {
        let page = LoginPage { shell: None, next: login.next, wrong: true };
        return (StatusCode::UNAUTHORIZED, render(&page)).into_response();
    };
    let over_https = headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https");
    let cookie = app.sessions.begin(identity.clone(), over_https);
    ([(header::SET_COOKIE, cookie)], Redirect::to(inside(&login.next))).into_response()
}

/// What a logout sends.
#[derive(Debug, Deserialize)]
pub struct Logout {
    form_token: String,
}

/// Ends a login.
pub async fn end(
    State(app): State<Shared>,
    visitor: Visitor,
    headers: HeaderMap,
    Form(logout): Form<Logout>,
) -> super::Answer {
    visitor.check_form(&logout.form_token)?;
    let cookie = app.sessions.end(&headers);
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/login")).into_response())
}

/// The path, if it is one of this server: `//host` and `/\host` lead elsewhere.
fn inside(next: &str) -> &str {
    let is_ours = next.starts_with('/')
        && !next.starts_with("//")
        && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_ours { next } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_no_other_site() {
        for next in ["", "//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nb", "evil"] {
            assert_eq!(inside(next), "/", "{next:?}");
        }
        assert_eq!(inside("/jobs?state=dead&before=7"), "/jobs?state=dead&before=7");
    }
}
