//! Encrypts a connection to a vetted address with TLS. Certificates are always verified for the host name that the gate decided
//! about, against the system's authorities or those that the caller provides.

use super::{Connected, halves, io};
use pijs_protocol::HostcallError;
use pijs_protocol::call::TlsOptions;
use rustls_platform_verifier::BuilderVerifierExt as _;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore, crypto};

/// Maximum time for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// TLS options of a `connect`.
#[derive(Default)]
pub(crate) struct TlsSettings {
    /// Certificate authorities in PEM; if empty, the system's are used.
    ca: Vec<String>,
    /// ALPN protocols to offer, in order of preference.
    alpn: Vec<String>,
}

impl TlsSettings {
    /// Reads the options; fails if `servername` is not the host that the gate decided about.
    pub(super) fn of(tls: &TlsOptions, host: &str) -> Result<Self, HostcallError> {
        let TlsOptions { ca, alpn, servername } = tls;
        let named = servername.as_deref().unwrap_or(host).trim_end_matches('.').to_ascii_lowercase();
        if named != host {
            let problem = format!("net: tls.servername is {named:?}, but the connection was allowed for {host:?}");
            return Err(HostcallError::invalid("schema", problem));
        }
        Ok(Self { ca: ca.clone(), alpn: alpn.clone() })
    }

    fn config(&self) -> Result<ClientConfig, HostcallError> {
        let failed = |error: Error| io("EPROTO", "connect", &format!("TLS cannot be set up: {error}"));
        let builder = ClientConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(failed)?;
        let mut config = if self.ca.is_empty() {
            builder.with_platform_verifier().map_err(failed)?.with_no_client_auth()
        } else {
            let mut roots = RootCertStore::empty();
            for text in &self.ca {
                for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
                    let wrong =
                        || HostcallError::invalid("schema", "net: tls.ca contains something that is not a certificate");
                    roots.add(certificate.map_err(|_| wrong())?).map_err(|_| wrong())?;
                }
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        };
        config.alpn_protocols = self.alpn.iter().map(|name| name.clone().into_bytes()).collect();
        Ok(config)
    }

    /// Performs the handshake. Reports Node's members about the connection in addition to the addresses.
    pub(super) async fn connect(
        &self,
        stream: TcpStream,
        host: &str,
        (local, remote): (SocketAddr, SocketAddr),
    ) -> Result<Connected, HostcallError> {
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
            .map_err(|_| HostcallError::invalid("url", format!("net: {host:?} is not a valid server name")))?;
        let connector = TlsConnector::from(Arc::new(self.config()?));
        let stream = match tokio::time::timeout(HANDSHAKE, connector.connect(name, stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(handshake_failed(&error, host)),
            Err(_) => return Err(io("ETIMEDOUT", "connect", &format!("TLS with {remote} took too long"))),
        };
        let (_, session) = stream.get_ref();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut about = super::about(local, remote);
        about["protocol"] = match session.protocol_version() {
            Some(tokio_rustls::rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2".into(),
            _ => "TLSv1.3".into(),
        };
        about["cipher"] = session
            .negotiated_cipher_suite()
            .and_then(|suite| suite.suite().as_str().map(|name| name.replacen("TLS13_", "TLS_", 1)))
            .into();
        about["alpn"] = session.alpn_protocol().map_or(json!(false), |chosen| text(chosen).into());
        let (reader, writer) = tokio::io::split(stream);
        let (reader, writer) = halves(reader, writer);
        Ok((reader, writer, about))
    }
}

/// Converts a failed handshake to Node's error code and message.
fn handshake_failed(error: &std::io::Error, host: &str) -> HostcallError {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let (code, words) = match tls {
        Some(Error::InvalidCertificate(problem)) => match problem {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                ("CERT_HAS_EXPIRED", "certificate has expired".to_owned())
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                ("CERT_NOT_YET_VALID", "certificate is not yet valid".to_owned())
            }
            CertificateError::Revoked => ("CERT_REVOKED", "certificate revoked".to_owned()),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
                "ERR_TLS_CERT_ALTNAME_INVALID",
                format!(
                    "Hostname/IP does not match certificate's altnames: Host: {host}. is not in the cert's altnames"
                ),
            ),
            CertificateError::UnknownIssuer => {
                ("UNABLE_TO_VERIFY_LEAF_SIGNATURE", "unable to verify the first certificate".to_owned())
            }
            other => ("CERT_REJECTED", format!("certificate rejected: {other:?}")),
        },
        Some(other) => ("EPROTO", format!("TLS with {host} failed: {other}")),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            ("ECONNRESET", "Client network socket disconnected before secure TLS connection was established".to_owned())
        }
        None => return super::failed(error, "connect"),
    };
    io(code, "connect", &words)
}
