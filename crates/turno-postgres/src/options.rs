//! What a URL may say beyond what the driver understands.

use std::borrow::Cow;
use std::str::FromStr;

use tokio_postgres::Config;
use turno_contract::schema_files::Ahead;
use turno_contract::{Error, Result, limits};

use crate::tls::Verify;

/// How to reach an installation. Made from a URL by [`FromStr`]; turno's own parameters in it begin with `turno_`:
///
/// * `turno_schema=name`: the schema that was chosen at migrate; default `turno`.
/// * `turno_listen=off` or a URL (percent-encoded): no doorbell, or one beside a pooler.
/// * `turno_prepared=off`: for a pooler that does not keep prepared statements.
/// * `turno_payload_bytes_max=n`: the largest payload that this client enqueues.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    pub(crate) target: Target,
    pub(crate) listen: Option<Target>,
    pub(crate) schema: String,
    pub(crate) prepared: bool,
    pub(crate) payload_bytes_max: usize,
    pub(crate) ahead: Option<Ahead>,
}

/// A server, and how to trust it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) config: Config,
    pub(crate) verify: Verify,
}

impl PostgresOptions {
    /// Uses another schema than `turno`. Errors with `InvalidArgument` unless it is 1 to 40 lower-case letters, digits and
    /// underscores, beginning with a letter.
    pub fn schema(mut self, schema: &str) -> Result<Self> {
        let fits = (1..=40).contains(&schema.len())
            && schema.starts_with(|c: char| c.is_ascii_lowercase())
            && schema.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !fits {
            return Err(Error::invalid(format!(
                "turno_schema {schema:?} is not 1 to 40 lower-case letters, digits and underscores"
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
}

impl FromStr for PostgresOptions {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (ours, theirs): (Vec<&str>, Vec<&str>) =
            query.split('&').filter(|pair| !pair.is_empty()).partition(|pair| pair.starts_with("turno_"));
        let target = target_of(&join(base, &theirs))?;
        let mut options = PostgresOptions {
            listen: Some(target.clone()),
            target,
            schema: "turno".into(),
            prepared: true,
            payload_bytes_max: limits::PAYLOAD_BYTES_MAX_DEFAULT,
            ahead: None,
        };
        for pair in ours {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = &*decoded(name, value)?;
            match name {
                "turno_schema" => options = options.schema(value)?,
                "turno_listen" if value == "off" => options.listen = None,
                "turno_listen" => options.listen = Some(target_of(value)?),
                "turno_prepared" => options.prepared = value != "off",
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

fn decoded<'a>(name: &str, value: &'a str) -> Result<Cow<'a, str>> {
    let decoded = percent_encoding::percent_decode_str(value).decode_utf8();
    decoded.map_err(|error| {
        Error::invalid(format!("the URL's parameter {name} is not UTF-8")).with_source(error)
    })
}

fn join(base: &str, pairs: &[&str]) -> String {
    if pairs.is_empty() { base.to_owned() } else { format!("{base}?{}", pairs.join("&")) }
}

/// Takes out what the driver does not know of TLS and leaves the rest to it.
fn target_of(url: &str) -> Result<Target> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut mode, mut root, mut rest) = (None, None, Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value),
            Some(("sslrootcert", value)) => root = Some(decoded("sslrootcert", value)?.into_owned()),
            _ => rest.push(pair),
        }
    }
    let (for_driver, verify) = match (mode, root) {
        (Some("verify-ca" | "verify-full"), Some(path)) => ("sslmode=require", Verify::File(path)),
        (Some("verify-ca" | "verify-full"), None) => ("sslmode=require", Verify::System),
        (Some("disable"), _) => ("sslmode=disable", Verify::No),
        (Some("require"), _) => ("sslmode=require", Verify::No),
        (None | Some("prefer" | "allow"), _) => ("sslmode=prefer", Verify::No),
        (Some(other), _) => {
            let known = "disable, allow, prefer, require, verify-ca, verify-full";
            return Err(Error::invalid(format!("sslmode {other:?} is not one of {known}")));
        }
    };
    rest.push(for_driver);
    Ok(Target { config: driver_config(&join(base, &rest))?, verify })
}

fn driver_config(url: &str) -> Result<Config> {
    // The innermost message names the parameter, never the password.
    let mut config = Config::from_str(url).map_err(|error| {
        let reason = std::error::Error::source(&error).map_or(error.to_string(), |source| source.to_string());
        Error::invalid(format!("the URL is not one for PostgreSQL: {reason}")).with_source(error)
    })?;
    if config.get_application_name().is_none() {
        config.application_name("turno");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(std::time::Duration::from_secs(10));
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_parameters_are_taken_out_of_the_url() {
        let options: PostgresOptions =
            "postgres://u:p@h/d?turno_schema=jobs_2&application_name=x&turno_listen=off".parse().unwrap();
        assert_eq!(options.schema, "jobs_2");
        assert!(options.listen.is_none());
        assert_eq!(options.target.config.get_application_name(), Some("x"));
    }

    #[test]
    fn an_unknown_or_wrong_parameter_is_named() {
        for (url, what) in [
            ("postgres://h/d?turno_shcema=x", "turno_shcema"),
            ("postgres://h/d?turno_schema=Jobs", "turno_schema"),
            ("postgres://h/d?turno_payload_bytes_max=much", "turno_payload_bytes_max"),
            ("postgres://h/d?no_such=1", "no_such"),
            ("postgres://h/d?sslmode=sure", "verify-full"),
        ] {
            let error = url.parse::<PostgresOptions>().unwrap_err();
            assert!(error.to_string().contains(what), "{url}: {error}");
        }
    }
}
