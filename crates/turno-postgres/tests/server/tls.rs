//! TLS as libpq's `sslmode` means it, against a certificate that nobody knows.

use turno_contract::{Backend, ErrorKind};
use turno_postgres::PostgresBackend;

use crate::rig::{server_url, session};

/// The path of the server's certificate, if it offers TLS.
async fn certificate() -> Option<String> {
    let client = session(&server_url()).await;
    let row = client
        .query_one("SELECT current_setting('ssl'), current_setting('ssl_cert_file')", &[])
        .await
        .unwrap();
    (row.get::<_, &str>(0) == "on").then(|| row.get(1))
}

fn with_mode(mode: &str) -> String {
    let url = server_url();
    let base = url.split('?').next().expect("a URL");
    format!("{base}?{mode}")
}

/// `require` encrypts without asking who it is; `verify-full` asks.
#[tokio::test]
async fn sslmode_means_what_it_means_to_libpq() {
    let Some(certificate) = certificate().await else {
        println!("TLS: not run (the test server offers none)");
        return;
    };
    for mode in
        ["sslmode=require", "sslmode=prefer", &format!("sslmode=verify-full&sslrootcert={certificate}")]
    {
        let backend =
            PostgresBackend::connect(&with_mode(mode)).await.unwrap_or_else(|e| panic!("{mode}: {e}"));
        // No schema in this database: the server was asked, through TLS.
        assert!(backend.audit().await.is_err(), "{mode}");
    }
    let error = PostgresBackend::connect(&with_mode("sslmode=verify-full")).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
    let missing = PostgresBackend::connect(&with_mode("sslmode=verify-full&sslrootcert=/no/such/file")).await;
    assert!(missing.map(drop).unwrap_err().to_string().contains("/no/such/file"));
}
