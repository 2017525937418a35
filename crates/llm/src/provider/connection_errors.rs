//! Texts of failed connections and incomplete replies: the address, the cause, and the next step, in one line.
//!
//! The message of such an error is pi's (`Connection error.`, `terminated`), because extensions search for it. [`explain`] makes
//! the help that follows it in parentheses.

use super::proxy::Proxy;
use reqwest::StatusCode;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Duration;
use url::Url;

/// A failure below HTTP.
#[derive(Debug)]
pub(super) enum ConnectionFailure<'a> {
    /// No response arrived.
    NoResponse(&'a (dyn Error + 'static)),
    /// The proxy answered `CONNECT` with this status.
    RefusedTunnel(u16),
    /// No data arrived for this time.
    Silence(Duration),
    /// The connection failed after the reply had begun.
    BrokenReply(&'a (dyn Error + 'static)),
    /// The connection ended before the reply did.
    ShortReply,
    /// The reply took longer than this.
    LongReply(Duration),
}

/// Returns the explanation of a failure: address and proxy, cause, next step.
pub(super) fn explain(url: &str, proxy: Option<&Proxy>, failure: &ConnectionFailure<'_>) -> String {
    let place = match proxy {
        Some(proxy) => format!("{url} through the proxy {proxy}"),
        None => url.to_owned(),
    };
    match failure {
        ConnectionFailure::NoResponse(error) => {
            let (cause, step) = cause_and_step(url, proxy, *error);
            format!("no response from {place}: {cause}; {step}")
        }
        ConnectionFailure::RefusedTunnel(status) => {
            let reason = StatusCode::from_u16(*status).ok().and_then(|status| status.canonical_reason());
            let reason = reason.map(|reason| format!(" {reason}")).unwrap_or_default();
            let variable = proxy.map_or("HTTPS_PROXY", Proxy::variable);
            format!(
                "no response from {place}: the proxy answered CONNECT with {status}{reason}; set {variable} to a proxy that allows this host, or name the host in NO_PROXY"
            )
        }
        ConnectionFailure::Silence(idle) => format!(
            "{place} sent nothing for {idle:?}; httpIdleTimeoutMs in settings.json allows for more, 0 for any silence"
        ),
        ConnectionFailure::BrokenReply(error) => {
            let (cause, _) = cause_and_step(url, proxy, *error);
            format!("the reply of {place} broke off: {cause}; {}", again(proxy))
        }
        ConnectionFailure::ShortReply => {
            format!(
                "the reply of {place} broke off: the connection was closed before the end of the reply; {}",
                again(proxy)
            )
        }
        ConnectionFailure::LongReply(total) => {
            format!("the reply of {place} took longer than {total:?}; ask again, for less at once")
        }
    }
}

/// Returns whether the proxy refused a tunnel with a status that the error does not contain.
pub(super) fn is_refused_tunnel(error: &(dyn Error + 'static)) -> bool {
    chain(error).ends_with("tunnel error: unsuccessful")
}

/// Returns the causes of an error, outermost first.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let causes: Vec<String> = causes(error).map(ToString::to_string).collect();
    if causes.is_empty() { "the request failed".to_owned() } else { causes.join(": ") }
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'a (dyn Error + 'static)| {
        let cause: &'a (dyn Error + 'static) = *cause;
        cause.source()
    })
}

fn again(proxy: Option<&Proxy>) -> &'static str {
    match proxy {
        Some(_) => "ask again; if it happens again, the time limits of the server or of the proxy are too short",
        None => "ask again; if it happens again, the server or a gateway in front of it ends the connection",
    }
}

fn cause_and_step(url: &str, proxy: Option<&Proxy>, error: &(dyn Error + 'static)) -> (String, String) {
    let text = chain(error);
    let io = causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).last().map(io::Error::kind);
    // A proxy resolves the name of the server, so these errors are about the proxy.
    let (host, address) = match proxy {
        Some(proxy) => (proxy.url().host_str().unwrap_or_default().to_owned(), proxy.variable()),
        None => {
            (Url::parse(url).ok().and_then(|url| Some(url.host_str()?.to_owned())).unwrap_or_default(), "--base-url")
        }
    };
    let (whose, here) = match proxy {
        Some(_) => ("the proxy", ""),
        None => ("the server", ", and --base-url"),
    };
    let (cause, step) = if text.contains("dns error") {
        (format!("the name {host} was not found"), format!("check the network connection, and the host in {address}"))
    } else if text.contains("proxy authorization required") {
        let step = format!("write {address} as http://USER:PASSWORD@HOST:PORT");
        ("the proxy requires a user and a password (407)".to_owned(), step)
    } else if text.contains("UnknownIssuer") || text.contains("invalid peer certificate") {
        let which = text.rsplit("invalid peer certificate: ").next().unwrap_or_default();
        let step = "if the network has a certificate authority of its own, add it to those of the system, or name its file in SSL_CERT_FILE";
        (format!("its certificate is not accepted: {which}"), step.to_owned())
    } else if ["InvalidContentType", "corrupt message", "tls handshake eof"].iter().any(|part| text.contains(part)) {
        ("it does not speak TLS at this port".to_owned(), format!("write http:// in place of https:// in {address}"))
    } else {
        match io {
            Some(ErrorKind::ConnectionRefused) => {
                ("connection refused".to_owned(), format!("check that {whose} runs and listens at this port{here}"))
            }
            Some(ErrorKind::TimedOut) => {
                let step = "check the network and firewalls; a network that requires a proxy needs HTTPS_PROXY";
                ("the connection timed out".to_owned(), step.to_owned())
            }
            Some(ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable | ErrorKind::NetworkDown) => {
                ("the network does not reach it".to_owned(), "check the network connection".to_owned())
            }
            Some(ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe) => {
                ("it reset the connection".to_owned(), format!("ask again; then check the server{here}"))
            }
            Some(ErrorKind::UnexpectedEof) => closed(here),
            _ if text.contains("before message completed") || text.contains("unexpected end of file") => closed(here),
            _ => (text, format!("check the network connection{here}")),
        }
    };
    (cause, step)
}

fn closed(here: &str) -> (String, String) {
    (
        "it closed the connection without a complete response".to_owned(),
        format!("ask again; then check the server{here}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::proxy::Proxies;
    use std::fmt;

    /// An error whose causes are the lines of a text; the last one is an [`io::Error`] of a kind, if it has one.
    #[derive(Debug)]
    struct Layers(&'static str, Option<Box<dyn Error>>);

    impl fmt::Display for Layers {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layers {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref()
        }
    }

    fn layers(texts: &[&'static str], kind: Option<ErrorKind>) -> Layers {
        let innermost = kind.map(|kind| Box::new(io::Error::from(kind)) as Box<dyn Error>);
        let causes = texts.iter().rev().fold(innermost, |inner, text| Some(Box::new(Layers(text, inner))));
        Layers("error sending request", causes)
    }

    #[test]
    fn a_missing_response_names_address_cause_and_step() {
        for (texts, kind, expected) in [
            (
                &["client error (Connect)", "dns error"][..],
                None,
                "the name api.example was not found; check the network connection, and the host in --base-url",
            ),
            (
                &["client error (Connect)", "tcp connect error"],
                Some(ErrorKind::ConnectionRefused),
                "connection refused; check that the server runs and listens at this port, and --base-url",
            ),
            (
                &["client error (Connect)", "tcp connect error"],
                Some(ErrorKind::TimedOut),
                "the connection timed out; check the network and firewalls; a network that requires a proxy needs HTTPS_PROXY",
            ),
            (
                &["client error (Connect)", "invalid peer certificate: UnknownIssuer"],
                None,
                "its certificate is not accepted: UnknownIssuer; if the network has a certificate authority of its own, add it to those of the system, or name its file in SSL_CERT_FILE",
            ),
            (
                &["client error (Connect)", "received corrupt message of type InvalidContentType"],
                None,
                "it does not speak TLS at this port; write http:// in place of https:// in --base-url",
            ),
            (
                &["client error (SendRequest)", "connection closed before message completed"],
                None,
                "it closed the connection without a complete response; ask again; then check the server, and --base-url",
            ),
            (&["new kind"], None, "new kind; check the network connection, and --base-url"),
        ] {
            let error = layers(texts, kind);
            let said = explain("https://api.example/v1", None, &ConnectionFailure::NoResponse(&error));
            assert_eq!(said, format!("no response from https://api.example/v1: {expected}"));
        }
    }

    #[test]
    fn a_failure_of_the_proxy_is_about_the_proxy() {
        let proxies = Proxies::from_variables(|name| (name == "HTTPS_PROXY").then(|| "http://gate:3128".to_owned()));
        let url = Url::parse("https://api.example/v1").expect("a URL");
        let proxy = proxies.for_url(&url).expect("valid").expect("a proxy");
        let (dns, login) =
            (layers(&["dns error"], None), layers(&["tunnel error: proxy authorization required"], None));
        for (failure, expected) in [
            (
                ConnectionFailure::NoResponse(&dns),
                "the name gate was not found; check the network connection, and the host in HTTPS_PROXY",
            ),
            (
                ConnectionFailure::NoResponse(&login),
                "the proxy requires a user and a password (407); write HTTPS_PROXY as http://USER:PASSWORD@HOST:PORT",
            ),
            (
                ConnectionFailure::RefusedTunnel(501),
                "the proxy answered CONNECT with 501 Not Implemented; set HTTPS_PROXY to a proxy that allows this host, or name the host in NO_PROXY",
            ),
        ] {
            let said = explain(url.as_str(), Some(&proxy), &failure);
            let place = "https://api.example/v1 through the proxy http://gate:3128 (HTTPS_PROXY)";
            assert_eq!(said, format!("no response from {place}: {expected}"));
        }
        assert!(is_refused_tunnel(&layers(&["client error (Connect)", "tunnel error: unsuccessful"], None)));
    }

    #[test]
    fn an_incomplete_reply_names_address_cause_and_step() {
        let reset = layers(&["error reading a body"], Some(ErrorKind::ConnectionReset));
        for (failure, expected) in [
            (
                ConnectionFailure::BrokenReply(&reset),
                "the reply of u broke off: it reset the connection; ask again; if it happens again, the server or a gateway in front of it ends the connection",
            ),
            (
                ConnectionFailure::ShortReply,
                "the reply of u broke off: the connection was closed before the end of the reply; ask again; if it happens again, the server or a gateway in front of it ends the connection",
            ),
            (
                ConnectionFailure::Silence(Duration::from_secs(1)),
                "u sent nothing for 1s; httpIdleTimeoutMs in settings.json allows for more, 0 for any silence",
            ),
            (
                ConnectionFailure::LongReply(Duration::from_secs(3600)),
                "the reply of u took longer than 3600s; ask again, for less at once",
            ),
        ] {
            assert_eq!(explain("u", None, &failure), expected);
        }
    }
}
