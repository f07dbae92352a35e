//! From a URL to a backend: the only place that knows which engines exist. It refuses to guess: a URL without a
//! known scheme is an error that names the known ones, and no error ever shows the URL's password.

use turno_contract::{BoxedBackend, Error, Result};

/// The URL schemes of this build, with what stands behind them.
const SCHEMES: &[&str] = &[
    #[cfg(feature = "sqlite")]
    "sqlite:",
    #[cfg(feature = "postgres")]
    "postgres://",
    #[cfg(feature = "postgres")]
    "postgresql://",
    #[cfg(feature = "mysql")]
    "mysql://",
    #[cfg(feature = "mysql")]
    "mariadb://",
    #[cfg(feature = "sqlserver")]
    "sqlserver://",
    #[cfg(feature = "sqlserver")]
    "mssql://",
];

/// Connects to the database that the URL names: `sqlite:jobs.db`, `postgres://user@host/database`,
/// `mysql://user@host/`, `mariadb://user@host/`, and with the feature `sqlserver` `sqlserver://user:password@host/database`.
///
/// The schema is neither created nor changed: [`Backend::migrate`](turno_contract::Backend::migrate) does that.
/// Errors: `InvalidArgument` if no engine of this build has the URL's scheme; else what the engine answers.
pub async fn connect(url: &str) -> Result<BoxedBackend> {
    // With this feature there are two libraries of cryptography in the program, and rustls refuses to choose.
    #[cfg(feature = "sqlserver")]
    turno_sqlserver::choose_cryptography();
    let scheme = url.split_once(':').map(|(scheme, _)| scheme).unwrap_or_default();
    match scheme {
        #[cfg(feature = "sqlite")]
        "sqlite" => {
            let options = turno_sqlite::SqliteOptions::default();
            Ok(std::sync::Arc::new(turno_sqlite::SqliteBackend::connect(url, options).await?))
        }
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            Ok(std::sync::Arc::new(turno_postgres::PostgresBackend::connect(url).await?))
        }
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => Ok(std::sync::Arc::new(turno_mysql::MysqlBackend::connect(url).await?)),
        #[cfg(feature = "sqlserver")]
        "sqlserver" | "mssql" => {
            Ok(std::sync::Arc::new(turno_sqlserver::SqlServerBackend::connect(url).await?))
        }
        _ => Err(unknown_scheme(url)),
    }
}

/// The URL as it may be shown: whatever stands between `://` and the last `@` of the authority is hidden.
pub fn redact(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // A password that was not percent-encoded may itself hold the delimiters, so the last `@` of all is the safe end.
    let hidden = redact_parameters(match rest.rfind('@') {
        Some(at) if at < authority_end || rest[..at].contains(':') => &rest[at..],
        _ => rest,
    });
    if hidden.starts_with('@') { format!("{scheme}://…{hidden}") } else { format!("{scheme}://{hidden}") }
}

/// Hides the value of a `password` parameter.
fn redact_parameters(rest: &str) -> String {
    let Some((path, query)) = rest.split_once('?') else { return rest.to_owned() };
    let shown: Vec<String> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, _)) if name.to_ascii_lowercase().contains("password") => format!("{name}=…"),
            _ => pair.to_owned(),
        })
        .collect();
    format!("{path}?{}", shown.join("&"))
}

fn unknown_scheme(url: &str) -> Error {
    let known = SCHEMES.join(", ");
    match url.split_once("://").or_else(|| url.split_once(':')) {
        Some((scheme, _)) if is_scheme(scheme) => {
            Error::invalid(format!("no engine has the URL scheme {scheme:?}; this build knows {known}"))
        }
        _ => Error::invalid(format!("the database URL has no scheme; this build knows {known}")),
    }
}

/// Whether the text can be shown as a scheme: a user's name or password never can.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.len() <= 20
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An application asks for the feature here and not of each backend: without the forwarding this does not compile.
    #[test]
    fn the_feature_sqlx_reaches_both_backends() {
        let _ = turno_postgres::PostgresBackend::enqueue_in_sqlx;
        let _ = turno_postgres::PostgresBackend::complete_in_sqlx;
        let _ = turno_mysql::MysqlBackend::enqueue_in_sqlx;
        let _ = turno_mysql::MysqlBackend::complete_in_sqlx;
    }

    #[tokio::test]
    async fn an_unknown_scheme_is_refused_by_name() {
        let error = connect("redis://user:secret@host/1").await.err().unwrap();
        assert_eq!(error.kind(), turno_contract::ErrorKind::InvalidArgument);
        assert!(error.message().contains("redis"), "{error}");
        for scheme in SCHEMES {
            assert!(error.message().contains(scheme), "{error}");
        }
        assert!(!format!("{error:?}").contains("secret"));
    }

    #[tokio::test]
    async fn a_url_without_a_scheme_shows_nothing_of_itself() {
        for url in ["", "jobs.db", "my secret:word@host", "user_secret:x"] {
            let error = connect(url).await.err().unwrap();
            assert!(!format!("{error:?}").contains("secret"), "{error}");
            assert!(error.message().contains("has no scheme"), "{error}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let table = [
            ("postgres://user:secret@host/db", "postgres://…@host/db"),
            ("postgres://user:se/cr?et@host/db", "postgres://…@host/db"),
            ("postgres://user:a@secret@host/db?x=1", "postgres://…@host/db?x=1"),
            ("postgres://host/db?user=u&password=secret", "postgres://host/db?user=u&password=…"),
            ("postgres://host/db", "postgres://host/db"),
            ("sqlite:jobs.db", "sqlite:jobs.db"),
        ];
        for (url, shown) in table {
            assert_eq!(redact(url), shown);
        }
    }
}
