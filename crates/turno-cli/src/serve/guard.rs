//! What stands before every request: whether it came to the right name and from the right site, the headers that tell a
//! browser to be strict, and a net under panics. It refuses before anything is read or asked.

use axum::Router;
use axum::extract::{OriginalUri, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use super::api;
use super::pages;
use super::problem::Problem;
use super::state::Shared;

/// No inline script or style, nothing from elsewhere, no frame around us.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src \
     'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What proxies add: with one of these a request does not come from this machine, whatever its address says.
const PROXY_HEADERS: [&str; 3] = ["forwarded", "x-forwarded-for", "via"];

/// Refuses requests for another name or from another site.
pub async fn guard(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = text(headers, &header::HOST);
    let by_proxy = app.access.proxy.as_ref().is_some_and(|proxy| headers.contains_key(&proxy.header));
    if (app.access.is_open || by_proxy) && !app.access.host_is_known(host) {
        let detail = "without a login of its own this server answers only to the names of this machine, and to those \
                      of --host";
        return Problem::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", detail).into_response();
    }
    if app.access.is_open && PROXY_HEADERS.iter().any(|name| headers.contains_key(*name)) {
        let detail = "the request came through a proxy, and nobody has to log in here: start the server with \
                      --proxy-header or --token-file";
        return Problem::forbidden("proxied", detail).into_response();
    }
    if !is_safe(request.method()) && is_from_elsewhere(headers, host) {
        let detail = "the request comes from a page of another site";
        return Problem::forbidden("cross_origin", detail).into_response();
    }
    next.run(request).await
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Browsers say where a request comes from; other clients say nothing.
fn is_from_elsewhere(headers: &HeaderMap, host: &str) -> bool {
    let site = text(headers, &HeaderName::from_static("sec-fetch-site"));
    if matches!(site, "cross-site" | "same-site") {
        return true;
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, rest)| rest);
    // A proxy may put its own name for us into Host; what the browser asked for is then beside it. A page of another
    // site cannot add that header to a form.
    let forwarded = text(headers, &HeaderName::from_static("x-forwarded-host"));
    !authority.is_some_and(|authority| authority == host || authority == forwarded)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Adds the headers, and the net.
pub fn with_headers(router: Router<Shared>) -> Router<Shared> {
    let headers = [
        ("content-security-policy", CONTENT_POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        // Not `no-referrer`, with which browsers send forms with the origin `null`.
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
        ("cache-control", "no-store"),
    ];
    let router = router.layer(CatchPanicLayer::custom(|_| {
        // The panic itself has been written to standard error.
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "a bug of turno").into_response()
    }));
    headers.into_iter().fold(router, |router, (name, value)| {
        let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
        router.layer(SetResponseHeaderLayer::if_not_present(name, value))
    })
}

/// There is no such address.
pub async fn not_found(OriginalUri(uri): OriginalUri) -> Response {
    refuse(&uri, Problem::not_found(format!("there is nothing at {}", uri.path())))
}

/// The address takes other methods.
pub async fn method_not_allowed(OriginalUri(uri): OriginalUri) -> Response {
    let detail = format!("{} takes other methods", uri.path());
    refuse(&uri, Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail))
}

fn refuse(uri: &Uri, problem: Problem) -> Response {
    if uri.path().starts_with(api::PREFIX) { problem.into_response() } else { pages::problem(&problem) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_must_come_from_a_page_of_ours_or_from_no_page() {
        let table: [(&[(&'static str, &'static str)], bool); 8] = [
            (&[], false),
            (&[("origin", "http://localhost:80")], false),
            (&[("origin", "https://turno.example"), ("x-forwarded-host", "turno.example")], false),
            (&[("sec-fetch-site", "same-origin"), ("origin", "http://localhost:80")], false),
            (&[("origin", "http://evil.example")], true),
            (&[("origin", "null")], true),
            (&[("origin", "http://localhost:81")], true),
            (&[("sec-fetch-site", "same-site")], true),
        ];
        for (pairs, elsewhere) in table {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            assert_eq!(is_from_elsewhere(&headers, "localhost:80"), elsewhere, "{pairs:?}");
        }
    }
}
