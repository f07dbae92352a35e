//! What a URL says: where the server is, who we are to it, and how its certificate is trusted.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use tiberius::{AuthMethod, Config, EncryptionLevel};
use turno_contract::schema_files::Ahead;
use turno_contract::{Error, Result, limits};

use crate::call::{Connection, connect};

/// How long connecting may take, and then each answer.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
const ANSWER_MAX: Duration = Duration::from_secs(90);

/// How to reach an installation. Made from a URL by [`FromStr`]: `sqlserver://user:password@host:1433/database?...`, or
/// `mssql://...`; what is not a plain letter or digit is percent-encoded. Parameters, beside `turno_schema=name` (the schema that
/// was chosen at migrate; default `turno`) and `turno_payload_bytes_max=n`:
///
/// * `encrypt=true` (the default), `strict` (TDS 8) or `false` (the password is then hidden from no one on the way).
/// * `trust_server_certificate=true`: any certificate will do. For a test server only.
/// * `ca_file=path`: one more authority whose certificates are trusted, a PEM or DER file.
/// * `host_name_in_certificate=name`: if the server's certificate names it otherwise than the URL.
/// * `application_name=name`: what the server shows of this program; default `turno`.
#[derive(Clone, Debug)]
pub struct SqlServerOptions {
    pub(crate) config: Config,
    pub(crate) address: String,
    pub(crate) schema: String,
    pub(crate) payload_bytes_max: usize,
    pub(crate) ahead: Option<Ahead>,
}

impl SqlServerOptions {
    /// Makes a newer program of this one, for the test of upgrades.
    #[doc(hidden)]
    pub fn ahead(mut self, ahead: Ahead) -> Self {
        self.ahead = Some(ahead);
        self
    }

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
}

impl SqlServerOptions {
    /// The schema of the installation.
    pub fn schema_name(&self) -> &str {
        &self.schema
    }

    /// A connection of the caller's own to this server, for [`SettlingTransaction`](crate::SettlingTransaction) and its kind.
    ///
    /// Errors: `Unavailable`, `PermissionDenied`, `NotFound` for the database.
    pub async fn connect(&self) -> Result<Connection> {
        connect(self).await
    }
}

impl FromStr for SqlServerOptions {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        let rest = ["sqlserver://", "mssql://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        let rest = rest.ok_or_else(|| Error::invalid("the URL does not begin with sqlserver://"))?;
        let (base, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = base.split_once('/').unwrap_or((base, ""));
        let (login, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (host, port) = host_and_port(address)?;
        let mut config = Config::new();
        config.host(host);
        config.port(port);
        config.application_name("turno");
        config.handshake_timeout(Some(HANDSHAKE_MAX));
        config.command_timeout(Some(ANSWER_MAX));
        if !database.is_empty() {
            config.database(decoded("database", database)?);
        }
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        if user.is_empty() {
            return Err(Error::invalid("the URL has no user: sqlserver://user:password@host/database"));
        }
        config.authentication(AuthMethod::sql_server(decoded("user", user)?, decoded("password", password)?));
        let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let mut options = SqlServerOptions {
            config,
            address,
            schema: "turno".into(),
            payload_bytes_max: limits::PAYLOAD_BYTES_MAX_DEFAULT,
            ahead: None,
        };
        let mut security = Security::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            options = options.parameter(&mut security, name, &decoded(name, value)?)?;
        }
        security.apply(&mut options.config)?;
        Ok(options)
    }
}

impl SqlServerOptions {
    fn parameter(mut self, security: &mut Security, name: &str, value: &str) -> Result<Self> {
        match name {
            "turno_schema" => return self.schema(value),
            "turno_payload_bytes_max" => {
                self.payload_bytes_max = value.parse().map_err(|_| {
                    Error::invalid(format!("turno_payload_bytes_max {value:?} is not a number"))
                })?;
            }
            "encrypt" => security.encrypt = value.to_ascii_lowercase(),
            "trust_server_certificate" | "TrustServerCertificate" => security.trust = yes_or_no(name, value)?,
            "ca_file" => security.authority = Some(value.to_owned()),
            "host_name_in_certificate" => self.config.hostname_in_certificate(value),
            "application_name" => self.config.application_name(value),
            _ => return Err(Error::invalid(format!("the URL's parameter {name} is unknown"))),
        }
        Ok(self)
    }
}

/// What the URL wants of TLS.
struct Security {
    encrypt: String,
    trust: bool,
    authority: Option<String>,
}

impl Default for Security {
    fn default() -> Self {
        Security { encrypt: "true".into(), trust: false, authority: None }
    }
}

impl Security {
    fn apply(self, config: &mut Config) -> Result<()> {
        let level = match self.encrypt.as_str() {
            "false" | "off" | "no" => {
                config.encryption(EncryptionLevel::NotSupported);
                return Ok(());
            }
            _ if !cfg!(feature = "tls") => {
                let message = "this build of turno-sqlserver has no TLS: build it with the feature `tls`, or say encrypt=false";
                return Err(Error::invalid(message));
            }
            "true" | "on" | "yes" | "mandatory" => EncryptionLevel::Required,
            #[cfg(feature = "tls")]
            "strict" => EncryptionLevel::Strict,
            other => {
                return Err(Error::invalid(format!("encrypt {other:?} is not one of true, strict, false")));
            }
        };
        config.encryption(level);
        match (self.trust, self.authority) {
            (true, Some(_)) => {
                return Err(Error::invalid("trust_server_certificate and ca_file contradict each other"));
            }
            (true, None) => config.trust_cert(),
            (false, Some(path)) => config.trust_cert_ca(path),
            (false, None) => {}
        }
        Ok(())
    }
}

fn host_and_port(address: &str) -> Result<(&str, u16)> {
    let (host, port) = match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match address.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let port = match port {
        None => 1433,
        Some(port) => port.parse().map_err(|_| Error::invalid("the URL's port is not a number"))?,
    };
    if host.is_empty() {
        return Err(Error::invalid("the URL has no host"));
    }
    Ok((host, port))
}

fn yes_or_no(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Ok(true),
        "false" | "no" | "off" => Ok(false),
        _ => Err(Error::invalid(format!("{name} {value:?} is neither true nor false"))),
    }
}

fn decoded<'a>(name: &str, value: &'a str) -> Result<Cow<'a, str>> {
    let decoded = percent_encoding::percent_decode_str(value).decode_utf8();
    decoded.map_err(|error| Error::invalid(format!("the URL's {name} is not UTF-8")).with_source(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str) -> Result<SqlServerOptions> {
        url.parse()
    }

    #[test]
    fn a_url_says_everything() {
        for scheme in ["sqlserver", "mssql"] {
            let url = format!(
                "{scheme}://app:p%40ss@db.example:77/jobs?encrypt=false&turno_schema=jobs_2&turno_payload_bytes_max=5"
            );
            let options = options(&url).unwrap();
            assert_eq!(options.address, "db.example:77");
            assert_eq!((options.schema.as_str(), options.payload_bytes_max), ("jobs_2", 5));
        }
        assert_eq!(options("sqlserver://u:p@[::1]/d?encrypt=false").unwrap().address, "[::1]:1433");
        assert_eq!(options("sqlserver://u:p@h?encrypt=false").unwrap().address, "h:1433");
    }

    #[test]
    fn an_unknown_or_wrong_parameter_is_named_and_the_password_is_not() {
        for (url, what) in [
            ("sqlserver://u:secret@h/d?turno_shcema=x", "turno_shcema"),
            ("sqlserver://u:secret@h/d?turno_schema=Jobs", "turno_schema"),
            ("sqlserver://u:secret@h/d?turno_payload_bytes_max=much", "turno_payload_bytes_max"),
            (
                "sqlserver://u:secret@h/d?encrypt=false&trust_server_certificate=perhaps",
                "trust_server_certificate",
            ),
            ("sqlserver://u:secret@h:port/d?encrypt=false", "port"),
            ("sqlserver://u:secret@/d", "host"),
            ("sqlserver://h/d", "user"),
            ("postgres://u:secret@h/d", "sqlserver://"),
        ] {
            let error = options(url).unwrap_err();
            assert_eq!(error.kind(), turno_contract::ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(what), "{url}: {error}");
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }

    #[test]
    fn a_connection_is_encrypted_unless_the_url_says_otherwise() {
        let encrypted = options("sqlserver://u:p@h/d");
        if cfg!(feature = "tls") {
            encrypted.unwrap();
            options("sqlserver://u:p@h/d?encrypt=strict&ca_file=/ca.pem").unwrap();
            options("sqlserver://u:p@h/d?encrypt=true&trust_server_certificate=true").unwrap();
            for wrong in ["encrypt=perhaps", "trust_server_certificate=true&ca_file=/ca.pem"] {
                options(&format!("sqlserver://u:p@h/d?{wrong}")).unwrap_err();
            }
        } else {
            assert!(encrypted.unwrap_err().to_string().contains("has no TLS"));
        }
        options("sqlserver://u:p@h/d?encrypt=false").unwrap();
    }
}
