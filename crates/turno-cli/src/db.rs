//! Which database: `--db` or `TURNO_URL`, a path or a URL. It refuses to know engines; `turno::connect` does that.

use std::path::Path;

use turno::{BoxedBackend, ErrorKind};

use crate::exit::{Exit, Fault};

/// Where the jobs are.
#[derive(Debug, Clone)]
pub struct Location {
    /// What `turno::connect` takes.
    url: String,
    /// The file, if it is a SQLite database in a file.
    file: Option<String>,
}

impl Location {
    /// From the text of `--db` or `TURNO_URL`: what starts with a scheme is a URL, anything else a SQLite file.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        if text.is_empty() {
            return Err(Fault::usage("--db (or TURNO_URL) is empty; give a path or a URL").into());
        }
        if let Some(rest) = text.strip_prefix("sqlite:") {
            let path = rest.strip_prefix("//").unwrap_or(rest).split('?').next().unwrap_or(rest);
            return Ok(Location { url: text.to_owned(), file: Some(path.to_owned()) });
        }
        if has_scheme(text) {
            return Ok(Location { url: text.to_owned(), file: None });
        }
        // A path is taken literally, so what means something in a URL is escaped.
        let path = text.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
        Ok(Location { url: format!("sqlite:{path}"), file: Some(text.to_owned()) })
    }

    /// Connects; a SQLite file must exist, so that a mistyped path is an error and not an empty database.
    pub async fn connect(&self) -> anyhow::Result<BoxedBackend> {
        if let Some(file) = &self.file
            && !file.starts_with(":memory:")
            && !Path::new(file).exists()
        {
            let message = format!("there is no database file {file}; `turno migrate --db {file}` creates it");
            return Err(Fault::new(Exit::Unavailable, message).into());
        }
        self.connect_or_create().await
    }

    /// Connects; a SQLite file that does not exist is created, empty.
    pub async fn connect_or_create(&self) -> anyhow::Result<BoxedBackend> {
        turno::connect(&self.url).await.map_err(|error| match error.kind() {
            // What is not found here is the database itself, not a job.
            ErrorKind::NotFound => Fault::new(Exit::Unavailable, error.to_string()).into(),
            _ => error.into(),
        })
    }

    /// What `turno::connect` takes.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it is a SQLite database, whose schema `turno run` creates by itself.
    pub fn is_file(&self) -> bool {
        self.file.is_some()
    }
}

fn has_scheme(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_scheme_is_a_file() {
        for path in ["jobs.db", "/tmp/a b.db", "./x:y.db", "C:jobs.db"] {
            let location = Location::parse(path).unwrap();
            assert_eq!(
                (location.url.as_str(), location.is_file()),
                (format!("sqlite:{path}").as_str(), true)
            );
        }
        for url in ["postgres://db/app", "oracle://db", "sqlite:x.db"] {
            let location = Location::parse(url).unwrap();
            assert_eq!((location.url.as_str(), location.is_file()), (url, url.starts_with("sqlite")));
        }
        assert!(Location::parse("").is_err());
    }
}
