//! From a request to whoever asks, for the HTTP API: a bearer token, a proxy's word, or nothing at the loopback
//! address. It refuses the cookie of a page: a browser sends it along by itself, whoever made the browser ask.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use super::access::{Access, Identity, Right};
use super::problem::Problem;
use super::state::Shared;

/// Whoever asks.
#[derive(Debug, Clone)]
pub struct Caller {
    identity: Identity,
    read_only: bool,
}

impl Caller {
    /// An error unless the caller has this right.
    pub fn need(&self, right: Right) -> Result<(), Problem> {
        if right.is_change() && self.read_only {
            return Err(Problem::forbidden("read_only", "this server was started with --read-only"));
        }
        if !self.identity.may(right) {
            let roles: Vec<&str> = self.identity.roles.iter().map(|role| role.as_str()).collect();
            let detail = format!("the role {} may not do this", roles.join(", "));
            return Err(Problem::forbidden("permission_denied", detail));
        }
        Ok(())
    }
}

impl FromRequestParts<Shared> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Problem> {
        let access = &app.access;
        let identity = match bearer(&parts.headers) {
            Some(token) => access
                .tokens
                .as_ref()
                .and_then(|tokens| tokens.identity(token?).cloned())
                .ok_or_else(|| Problem::unauthorized("the bearer token is not known"))?,
            None => without_token(parts, access)
                .ok_or_else(|| Problem::unauthorized("send `Authorization: Bearer <token>`"))?,
        };
        Ok(Caller { identity, read_only: access.read_only })
    }
}

/// The token of the header, if there is such a header; the inner `None` is one in another form.
fn bearer(headers: &HeaderMap) -> Option<Option<&str>> {
    let value = headers.get(header::AUTHORIZATION)?;
    Some(value.to_str().ok().and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    }))
}

/// Who it is where nothing has to be proved, or a proxy has asked for the proof.
pub fn without_token(parts: &Parts, access: &Access) -> Option<Identity> {
    if let Some(proxy) = &access.proxy
        && peer(parts).is_some_and(|peer| proxy.from.contains(&peer))
        && let Some(name) = parts.headers.get(&proxy.header).and_then(|value| value.to_str().ok())
        && !name.trim().is_empty()
    {
        return Some(Identity { name: name.trim().to_owned(), roles: proxy.roles.clone() });
    }
    (!access.needs_login()).then(Access::local)
}

fn peer(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip().to_canonical())
}

/// How the OpenAPI document names the bearer token.
pub fn security_scheme() -> SecurityScheme {
    SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build())
}
