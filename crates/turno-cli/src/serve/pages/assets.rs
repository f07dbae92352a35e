//! The style sheet, the script and the icon, built into the program.

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::serve::problem::Problem;

/// One of them.
pub async fn asset(Path(name): Path<String>) -> Response {
    let (kind, text) = match &*name {
        "style.css" => ("text/css; charset=utf-8", include_str!("../templates/style.css")),
        "refresh.js" => ("text/javascript; charset=utf-8", include_str!("../templates/refresh.js")),
        "icon.svg" => ("image/svg+xml", include_str!("../templates/icon.svg")),
        _ => return super::problem(&Problem::not_found("There is no such file.")),
    };
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text).into_response()
}
