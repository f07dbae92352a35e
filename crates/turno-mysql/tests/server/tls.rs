//! TLS as the URL asks for it, against a certificate that nobody knows.

use mysql_async::prelude::Queryable;
use turno_contract::ErrorKind;
use turno_mysql::MysqlOptions;

use crate::rig::servers;

/// `require_ssl` refuses a server that nobody vouches for, or one without TLS, unless the URL says not to ask who it is.
#[tokio::test]
async fn require_ssl_means_encrypted_or_not_at_all() {
    for server in servers() {
        let offered = {
            let options: MysqlOptions = server.parse().expect("a URL");
            let mut session = options.session().await.expect("a session");
            let file: Option<Option<String>> =
                session.query_first("SELECT NULLIF(@@ssl_cert, '')").await.expect("a variable");
            file.flatten().is_some()
        };
        let strict: MysqlOptions = format!("{server}?require_ssl=true").parse().expect("a URL");
        let error = strict.session().await.map(drop).expect_err("nobody knows this certificate");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{server}: {error}");
        let trusting = format!("{server}?require_ssl=true&verify_ca=false&verify_identity=false");
        let trusting: MysqlOptions = trusting.parse().expect("a URL");
        let session = trusting.session().await;
        if !offered {
            println!("{server}: TLS: only refused (the test server offers none)");
            assert!(session.is_err(), "{server}: there is no TLS here");
            continue;
        }
        let mut session = session.unwrap_or_else(|error| panic!("{server}: {error}"));
        let cipher: Option<(String, String)> =
            session.query_first("SHOW SESSION STATUS LIKE 'Ssl_cipher'").await.expect("a status");
        assert!(cipher.is_some_and(|(_, cipher)| !cipher.is_empty()), "{server}: not encrypted");
    }
}
