//! What a URL may say beyond what the driver understands.

use std::str::FromStr;

use mysql_async::{Conn, Opts, OptsBuilder};
use turno_contract::schema_files::Ahead;
use turno_contract::{Error, Result, limits};

use crate::error::from_connect;

/// How to reach an installation. Made from a URL by [`FromStr`], `mysql://user@host:3306/` or `mariadb://...`: the server
/// behind it decides which of the two it is. The database in the path is the session's default and of no meaning to turno.
/// turno's own parameters begin with `turno_`:
///
/// * `turno_schema=name`: the database that was chosen at migrate; default `turno`.
/// * `turno_payload_bytes_max=n`: the largest payload that this client enqueues.
///
/// Of the driver's parameters `require_ssl=true`, `verify_ca=false`, `verify_identity=false` and `socket=path` are of use.
#[derive(Clone, Debug)]
pub struct MysqlOptions {
    pub(crate) target: Opts,
    pub(crate) schema: String,
    pub(crate) payload_bytes_max: usize,
    pub(crate) ahead: Option<Ahead>,
}

impl MysqlOptions {
    /// Uses another database than `turno`. Errors with `InvalidArgument` unless it is 1 to 20 lower-case letters, digits
    /// and underscores, beginning with a letter: MySQL's names of roles have 32 characters, and they begin with it.
    pub fn schema(mut self, schema: &str) -> Result<Self> {
        let fits = (1..=20).contains(&schema.len())
            && schema.starts_with(|c: char| c.is_ascii_lowercase())
            && schema.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !fits {
            return Err(Error::invalid(format!(
                "turno_schema {schema:?} is not 1 to 20 lower-case letters, digits and underscores"
            )));
        }
        self.schema = schema.to_owned();
        Ok(self)
    }

    /// Makes a newer program of this one, for the test of upgrades.
    #[doc(hidden)]
    pub fn ahead(mut self, ahead: Ahead) -> Self {
        self.ahead = Some(ahead);
        self
    }

    /// The database of the installation.
    pub fn schema_name(&self) -> &str {
        &self.schema
    }

    /// A session like those of the backend, for what is no operation of the queue.
    /// Errors: `Unavailable`, `PermissionDenied`.
    pub async fn session(&self) -> Result<Conn> {
        Conn::new(self.target.clone()).await.map_err(from_connect)
    }
}

impl FromStr for MysqlOptions {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (ours, theirs): (Vec<&str>, Vec<&str>) =
            query.split('&').filter(|pair| !pair.is_empty()).partition(|pair| pair.starts_with("turno_"));
        let base = match base.strip_prefix("mariadb://") {
            Some(rest) => format!("mysql://{rest}"),
            None => base.to_owned(),
        };
        let target =
            driver_options(&if theirs.is_empty() { base } else { format!("{base}?{}", theirs.join("&")) })?;
        let payload_bytes_max = limits::PAYLOAD_BYTES_MAX_DEFAULT;
        let mut options = MysqlOptions { target, schema: "turno".into(), payload_bytes_max, ahead: None };
        for pair in ours {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "turno_schema" => options = options.schema(value)?,
                "turno_payload_bytes_max" => {
                    options.payload_bytes_max = value.parse().map_err(|_| {
                        Error::invalid(format!("turno_payload_bytes_max {value:?} is not a number"))
                    })?;
                }
                _ => return Err(Error::invalid(format!("the URL's parameter {name} is unknown"))),
            }
        }
        Ok(options)
    }
}

fn driver_options(url: &str) -> Result<Opts> {
    // The driver's messages name the parameter, never the password.
    let options = Opts::from_url(url).map_err(|error| {
        Error::invalid(format!("the URL is not one for MySQL or MariaDB: {error}")).with_source(error)
    })?;
    let builder = OptsBuilder::from_opts(options)
        // Looking for the server's socket would take a connection and a question of its own.
        .prefer_socket(false)
        .tcp_nodelay(true)
        .client_found_rows(true)
        .stmt_cache_size(64)
        // A server whose sessions begin without autocommit would never commit what a routine does.
        .init(vec!["SET autocommit = 1"])
        .connect_attribute("program_name", "turno");
    Ok(builder.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_parameters_are_taken_out_of_the_url() {
        for scheme in ["mysql", "mariadb"] {
            let url = format!("{scheme}://u:p@h:77/d?turno_schema=jobs_2&turno_payload_bytes_max=5");
            let options: MysqlOptions = url.parse().unwrap();
            assert_eq!((options.schema.as_str(), options.payload_bytes_max), ("jobs_2", 5));
            assert_eq!((options.target.user(), options.target.tcp_port()), (Some("u"), 77));
        }
    }

    #[test]
    fn an_unknown_or_wrong_parameter_is_named() {
        for (url, what) in [
            ("mysql://h/d?turno_shcema=x", "turno_shcema"),
            ("mysql://h/d?turno_schema=Jobs", "turno_schema"),
            ("mysql://h/d?turno_schema=a_name_that_is_too_long", "turno_schema"),
            ("mysql://h/d?turno_payload_bytes_max=much", "turno_payload_bytes_max"),
            ("mysql://h/d?no_such=1", "no_such"),
        ] {
            let error = url.parse::<MysqlOptions>().unwrap_err();
            assert!(error.to_string().contains(what), "{url}: {error}");
        }
    }
}
