//! Where the database is and how to treat it: the URL and its options. Refuses options that it does not know.

use std::path::PathBuf;
use std::time::Duration;

use turno_contract::schema_files::Ahead;
use turno_contract::{Error, Result, limits};

/// How a backend behaves. Options in the URL win over these.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// How long an operation tries to get the right to write before it answers `Busy`.
    pub busy_timeout: Duration,
    /// The largest payload or result that this client sends, in bytes.
    pub payload_bytes_max: usize,
    /// Makes a newer program of this one, for the test of upgrades.
    #[doc(hidden)]
    pub ahead: Option<Ahead>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        SqliteOptions {
            busy_timeout: Duration::from_secs(10),
            payload_bytes_max: limits::PAYLOAD_BYTES_MAX_DEFAULT,
            ahead: None,
        }
    }
}

/// Where the database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    File(PathBuf),
    Memory,
}

/// Reads `sqlite:path`, `sqlite:///absolute/path`, `sqlite::memory:` or a plain path. Only the forms with a scheme have
/// a query string; a plain path is taken as it is. Nothing is percent-decoded.
pub(crate) fn parse(url: &str, mut options: SqliteOptions) -> Result<(Place, SqliteOptions)> {
    let Some(rest) = url.strip_prefix("sqlite:") else {
        return Ok((place(url)?, options));
    };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let number = || {
            value
                .parse::<u32>()
                .map_err(|_| Error::invalid(format!("{name}={value}: {value:?} is not a number")))
        };
        match name {
            "busy_timeout_ms" => options.busy_timeout = Duration::from_millis(number()?.into()),
            "payload_bytes_max" => options.payload_bytes_max = number()? as usize,
            _ => {
                return Err(Error::invalid(format!(
                    "unknown option {name:?} in the URL; known are busy_timeout_ms and payload_bytes_max"
                )));
            }
        }
    }
    Ok((place(path.strip_prefix("//").unwrap_or(path))?, options))
}

fn place(path: &str) -> Result<Place> {
    match path {
        "" => Err(Error::invalid("the URL names no database file")),
        ":memory:" => Ok(Place::Memory),
        _ if path.contains('\0') => Err(Error::invalid("the path contains NUL")),
        _ if path.starts_with("file:") => Err(Error::invalid(
            "a URI of SQLite (file:...) is not understood; give the path alone, as in sqlite:jobs.db",
        )),
        _ => Ok(Place::File(PathBuf::from(path))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(url: &str) -> Place {
        parse(url, SqliteOptions::default()).unwrap().0
    }

    #[test]
    fn every_form_of_url_names_its_file() {
        let file = |path: &str| Place::File(PathBuf::from(path));
        assert_eq!(path_of("queue.db"), file("queue.db"));
        assert_eq!(path_of("sqlite:queue.db"), file("queue.db"));
        assert_eq!(path_of("sqlite:/var/queue.db"), file("/var/queue.db"));
        assert_eq!(path_of("sqlite:///var/queue.db"), file("/var/queue.db"));
        assert_eq!(path_of("odd?name.db"), file("odd?name.db"));
        assert_eq!(path_of("sqlite::memory:"), Place::Memory);
        assert_eq!(path_of(":memory:"), Place::Memory);
    }

    #[test]
    fn options_in_the_url_win() {
        let (place, options) =
            parse("sqlite:a.db?busy_timeout_ms=250&payload_bytes_max=99", SqliteOptions::default()).unwrap();
        assert_eq!(place, Place::File("a.db".into()));
        assert_eq!((options.busy_timeout, options.payload_bytes_max), (Duration::from_millis(250), 99));
    }

    #[test]
    fn what_it_does_not_know_is_refused_by_name() {
        for (url, word) in [
            ("sqlite:a.db?mode=rwc", "mode"),
            ("sqlite:a.db?busy_timeout_ms=soon", "soon"),
            ("sqlite:file:a.db", "file:"),
            ("file:a.db", "file:"),
            ("sqlite:", "no database file"),
            ("", "no database file"),
        ] {
            let error = parse(url, SqliteOptions::default()).unwrap_err();
            assert!(error.message().contains(word), "{url}: {error}");
        }
    }
}
