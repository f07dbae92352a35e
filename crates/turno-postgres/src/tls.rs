//! TLS as libpq's `sslmode` means it: `prefer` (the default) and `require` encrypt and do not ask who the server is;
//! `verify-ca` and `verify-full` do, by the system's certificates or those of `sslrootcert`. (`verify-ca` is taken as
//! `verify-full`, which is never less.)

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;
use turno_contract::{Error, Result};

/// Whom the server's certificate must convince.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Nobody.
    No,
    /// Those who trust the system's certificates.
    System,
    /// Those who trust the certificates of this file.
    File(String),
}

/// Makes the connector. Errors with `InvalidArgument` if certificates cannot be read.
pub(crate) fn connector(verify: &Verify) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::invalid("no TLS version fits").with_source(error))?;
    let config = match verify {
        Verify::No => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
            .with_no_client_auth(),
        Verify::System => builder.with_root_certificates(system_roots()?).with_no_client_auth(),
        Verify::File(path) => builder.with_root_certificates(file_roots(path)?).with_no_client_auth(),
    };
    Ok(MakeRustlsConnect::new(config))
}

fn system_roots() -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(Error::invalid(
            "sslmode=verify-full: the system has no certificates; name some by sslrootcert",
        ));
    }
    Ok(roots)
}

fn file_roots(path: &str) -> Result<RootCertStore> {
    let unreadable = |error: rustls::pki_types::pem::Error| {
        Error::invalid(format!("sslrootcert {path}: {error}")).with_source(error)
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(Path::new(path)).map_err(unreadable)? {
        let certificate = certificate.map_err(unreadable)?;
        roots.add(certificate).map_err(|error| Error::invalid(format!("sslrootcert {path}: {error}")))?;
    }
    if roots.is_empty() {
        return Err(Error::invalid(format!("sslrootcert {path} has no certificate")));
    }
    Ok(roots)
}

/// Believes every certificate, but not that somebody else's is its own: signatures are checked.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
