//! Asks a proxy once more for a tunnel that it refused, because the HTTP client does not report the status.

use super::proxy::Proxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

/// Maximum number of bytes that are read; the status line comes first.
const MAX_BYTES: usize = 1024;

/// Returns the status with which a proxy answers `CONNECT` for the host of an address. Returns `None` for a proxy over TLS, and
/// if the proxy does not answer.
pub(super) async fn tunnel_status(proxy: &Proxy, url: &Url) -> Option<u16> {
    if proxy.url().scheme() != "http" {
        return None;
    }
    let host = proxy.url().host_str()?.trim_matches(['[', ']']).to_owned();
    let mut stream = TcpStream::connect((host, proxy.url().port_or_known_default()?)).await.ok()?;
    let target = format!("{}:{}", url.host_str()?, url.port_or_known_default()?);
    let login = proxy.basic_auth().map(|login| format!("Proxy-Authorization: {login}\r\n")).unwrap_or_default();
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    while !answer.contains(&b'\n') && answer.len() < MAX_BYTES {
        if stream.read_buf(&mut answer).await.ok()? == 0 {
            break;
        }
    }
    status(&answer)
}

/// Parses a status line: `HTTP/1.1 501 Not Implemented`.
fn status(answer: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(answer.split(|byte| *byte == b'\n').next()?).ok()?;
    let (version, rest) = line.split_once(' ')?;
    let code = rest.split_whitespace().next()?;
    (version.starts_with("HTTP/") && code.len() == 3).then(|| code.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_the_second_word_of_the_first_line() {
        for (answer, expected) in [
            ("HTTP/1.1 501 Not Implemented\r\nX: 1\r\n", Some(501)),
            ("HTTP/1.0 403\r\n", Some(403)),
            ("SSH-2.0-x\r\n", None),
            ("HTTP/1.1 yes\r\n", None),
            ("", None),
        ] {
            assert_eq!(status(answer.as_bytes()), expected, "{answer:?}");
        }
    }
}
