//! Tests encrypted connections with valid and invalid certificates to a local server.

mod support;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use serde_json::{Value, json};
use std::sync::Arc;
use support::{World, hosts, ok};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};
use tokio_rustls::rustls::{ServerConfig, crypto};

/// Properties of a server's certificate.
struct Certificate {
    name: &'static str,
    is_expired: bool,
}

const SOUND: Certificate = Certificate { name: "127.0.0.1", is_expired: false };

/// Starts an echo server whose certificate is signed by a new authority; returns its port and the authority as PEM.
async fn server(certificate: Certificate) -> (u16, String) {
    let authority = {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority of the tests");
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![certificate.name.to_owned()]).unwrap();
    if certificate.is_expired {
        params.not_after = date_time_ymd(2001, 1, 1);
    }
    let leaf = params.signed_by(&key, &authority).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"echo/2".to_vec(), b"echo/1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut piece = [0; 1024];
                while let Ok(read @ 1..) = stream.read(&mut piece).await {
                    let _ = stream.write_all(&piece[..read]).await;
                }
                let _ = stream.shutdown().await;
            });
        }
    });
    (port, authority.pem())
}

fn world(port: u16) -> World {
    World::new(&[hosts(&[format!("127.0.0.1:{port}"), format!("localhost:{port}")])])
}

fn connect(port: u16, tls: Value) -> Value {
    json!({"op": "connect", "socket": "s", "host": "127.0.0.1", "port": port, "tls": tls})
}

#[tokio::test]
async fn data_is_encrypted_and_arrives() {
    let (port, ca) = server(SOUND).await;
    let world = world(port);
    let mut call = world.start("http", "net", connect(port, json!({"ca": [ca], "alpn": ["echo/1"]})), Vec::new());
    let connected = ok(call.next().await)["connected"].clone();
    assert_eq!(connected["protocol"], "TLSv1.3");
    assert_eq!(connected["alpn"], "echo/1");
    assert_eq!(connected["remotePort"], port);
    assert!(connected["cipher"].as_str().is_some_and(|name| name.starts_with("TLS_")), "{connected}");
    let said = json!({"op": "write", "socket": "s", "data": {"$bytes": 0}});
    let mut written = world.start("http", "net", said, vec![b"hello".to_vec()]);
    ok(written.next().await);
    let chunk = call.next().await;
    assert_eq!(chunk.bytes, [b"hello".to_vec()]);
    ok(world.start("http", "net", json!({"op": "end", "socket": "s"}), Vec::new()).next().await);
    assert_eq!(ok(call.next().await)["end"], true);
}

#[tokio::test]
async fn an_invalid_certificate_is_reported_as_in_node() {
    for (certificate, brings, code) in [
        (SOUND, false, "UNABLE_TO_VERIFY_LEAF_SIGNATURE"),
        (Certificate { name: "example.com", is_expired: false }, true, "ERR_TLS_CERT_ALTNAME_INVALID"),
        (Certificate { name: "127.0.0.1", is_expired: true }, true, "CERT_HAS_EXPIRED"),
    ] {
        let (port, ca) = server(certificate).await;
        let tls = if brings { json!({"ca": [ca]}) } else { json!({}) };
        let result = world(port).start("http", "net", connect(port, tls), Vec::new()).next().await;
        let error = result.error.expect("the connection is refused");
        assert_eq!(error.details["errno"], code, "{error:?}");
    }
}

#[tokio::test]
async fn a_server_name_other_than_the_allowed_host_is_refused() {
    let (port, ca) = server(SOUND).await;
    let tls = json!({"ca": [ca], "servername": "elsewhere.example"});
    let result = world(port).start("http", "net", connect(port, tls), Vec::new()).next().await;
    let error = result.error.expect("refused");
    assert!(error.message.contains("elsewhere.example"), "{error:?}");
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_ends_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    });
    let result = world(port).start("http", "net", connect(port, json!({})), Vec::new()).next().await;
    assert_eq!(result.error.expect("an error").details["errno"], "EPROTO");
}
