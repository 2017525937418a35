//! Chooses the proxy of a request from `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`.
//!
//! Requests over https use `HTTPS_PROXY`, requests over http use `HTTP_PROXY`. A missing variable is replaced by `ALL_PROXY`, as
//! in curl, and then by `HTTP_PROXY`, as in pi, because a user who sets a proxy wants no request to bypass it. Lower-case names
//! take precedence. [`Matcher`] evaluates `NO_PROXY` after its entries are normalised, because Node also accepts ports, brackets,
//! spaces as separators and a leading `*.`.

use super::{ErrorKind, ProviderError};
use hyper_util::client::proxy::matcher::Matcher;
use std::fmt;
use url::Url;

/// Proxies of the user; the default is no proxy.
#[derive(Clone, Default)]
pub struct Proxies {
    http: Option<Setting>,
    https: Option<Setting>,
    /// Value of `NO_PROXY`.
    exempt: String,
}

/// An environment variable with a proxy.
#[derive(Clone)]
struct Setting {
    variable: String,
    /// Value of the variable, which may contain a password.
    value: String,
}

/// The proxy for one address. Displayed without its password.
#[derive(Clone)]
pub struct Proxy {
    variable: String,
    url: Url,
}

impl Proxies {
    /// Reads the environment variables.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let read = |name: &str| {
            let lower = name.to_ascii_lowercase();
            [lower.as_str(), name].into_iter().find_map(|name| {
                let value = variable(name).filter(|value| !value.trim().is_empty())?;
                Some(Setting { variable: name.to_owned(), value: value.trim().to_owned() })
            })
        };
        let (http, https, all) = (read("HTTP_PROXY"), read("HTTPS_PROXY"), read("ALL_PROXY"));
        let http = http.or_else(|| all.clone());
        let exempt = read("NO_PROXY").map(|setting| setting.value).unwrap_or_default();
        Self { https: https.or(all).or_else(|| http.clone()), http, exempt }
    }

    /// Uses one proxy for every scheme, as the configuration of another program names it.
    #[must_use]
    pub fn replaced_by(self, name: &str, value: &str) -> Self {
        let setting = Some(Setting { variable: name.to_owned(), value: value.trim().to_owned() });
        Self { http: setting.clone(), https: setting, ..self }
    }

    /// Returns the proxy for an address, if there is one.
    ///
    /// # Errors
    ///
    /// Fails when the variable is not the address of a supported proxy.
    pub fn for_url(&self, url: &Url) -> Result<Option<Proxy>, ProviderError> {
        let setting = if url.scheme() == "https" { &self.https } else { &self.http };
        match setting {
            Some(setting) if !self.is_exempt(url) => setting.proxy().map(Some),
            _ => Ok(None),
        }
    }

    /// Returns whether `NO_PROXY` covers an address.
    fn is_exempt(&self, url: &Url) -> bool {
        let port = url.port_or_known_default();
        let entries = self.exempt.split(|c: char| c == ',' || c.is_whitespace()).filter_map(|entry| {
            let (host, of_port) = split_port(entry);
            let host = host.strip_prefix("*.").unwrap_or(host);
            let host = if host.len() > 1 { host.trim_end_matches('.') } else { host };
            (!host.is_empty() && (of_port.is_none() || of_port == port)).then_some(host)
        });
        let entries: Vec<&str> = entries.collect();
        let Ok(uri) = url.as_str().parse() else { return false };
        // With a proxy for all addresses, the result depends on the exceptions only.
        Matcher::builder().all("http://proxy").no(entries.join(",")).build().intercept(&uri).is_none()
    }
}

/// Splits an entry of `NO_PROXY` into a host and an optional port.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    if let Some((host, rest)) = entry.strip_prefix('[').and_then(|entry| entry.split_once(']')) {
        return (host, rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match entry.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
        Some((host, Ok(port))) if !host.contains(':') => (host, Some(port)),
        _ => (entry, None),
    }
}

impl Setting {
    fn proxy(&self) -> Result<Proxy, ProviderError> {
        let with_scheme = match self.value.contains("://") {
            true => self.value.clone(),
            false => format!("http://{}", self.value),
        };
        let url = Url::parse(&with_scheme).ok();
        let scheme = url.as_ref().map_or("", Url::scheme).to_owned();
        // A single word was probably meant for another variable; a host without a domain needs a scheme or port.
        let is_word = self.value.chars().all(|character| character.is_alphanumeric() || "-_".contains(character));
        let is_word = is_word && self.value != "localhost";
        match url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host() && !is_word) {
            Some(url) => Ok(Proxy { variable: self.variable.clone(), url }),
            None => {
                let what = match scheme.as_str() {
                    "socks" | "socks4" | "socks4a" | "socks5" | "socks5h" => "a SOCKS proxy, which is not supported",
                    _ => "not the address of a proxy",
                };
                Err(ProviderError::new(ErrorKind::Rejected, format!("{} is {what}", self.variable)).with_help(format!(
                    "set {} to http://HOST:PORT, unset it, or name the host in NO_PROXY",
                    self.variable
                )))
            }
        }
    }
}

impl Proxy {
    /// Returns the proxy for the HTTP client, with user and password.
    pub fn to_reqwest(&self) -> reqwest::Result<reqwest::Proxy> {
        reqwest::Proxy::all(self.url.clone())
    }

    /// Returns the address, with user and password.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the value of `Proxy-Authorization`, if the address has a user.
    pub(super) fn basic_auth(&self) -> Option<String> {
        let target = "http://host".parse().ok()?;
        let intercept = Matcher::builder().all(self.url.as_str()).build().intercept(&target)?;
        intercept.basic_auth().and_then(|login| Some(login.to_str().ok()?.to_owned()))
    }

    /// Returns the name of the variable.
    pub fn variable(&self) -> &str {
        &self.variable
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.url.host_str().unwrap_or_default();
        write!(f, "{}://{host}", self.url.scheme())?;
        if let Some(port) = self.url.port() {
            write!(f, ":{port}")?;
        }
        write!(f, " ({})", self.variable)
    }
}

impl fmt::Debug for Proxy {
    /// Omits the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

impl fmt::Debug for Proxies {
    /// Omits passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variable = |setting: &Option<Setting>| setting.as_ref().map(|setting| setting.variable.clone());
        f.debug_struct("Proxies")
            .field("http", &variable(&self.http))
            .field("https", &variable(&self.https))
            .field("exempt", &self.exempt)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        Proxies::from_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn chosen(variables: &[(&str, &str)], url: &str) -> Option<String> {
        let url = Url::parse(url).expect("a URL");
        proxies(variables).for_url(&url).expect("a proxy").map(|proxy| proxy.to_string())
    }

    #[test]
    fn each_scheme_has_a_variable_with_fallbacks() {
        let (secure, plain) = ("https://api.example/v1", "http://api.example/v1");
        let all = [
            ("HTTP_PROXY", "http://plain:1"),
            ("HTTPS_PROXY", "http://u:p@secure:2"),
            ("ALL_PROXY", "https://all:3"),
            ("https_proxy", "lower:4"),
        ];
        for (variables, url, expected) in [
            (&all[..], plain, Some("http://plain:1 (HTTP_PROXY)")),
            (&all[..], secure, Some("http://lower:4 (https_proxy)")),
            (&all[..3], secure, Some("http://secure:2 (HTTPS_PROXY)")),
            (&all[2..3], plain, Some("https://all:3 (ALL_PROXY)")),
            (&all[2..3], secure, Some("https://all:3 (ALL_PROXY)")),
            (&all[..1], secure, Some("http://plain:1 (HTTP_PROXY)")),
            (&all[1..2], plain, None),
            (&[("HTTPS_PROXY", " ")], secure, None),
            (&[], secure, None),
        ] {
            assert_eq!(chosen(variables, url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn no_proxy_is_parsed_as_by_curl_and_node() {
        for (exempt, url, is_exempt) in [
            ("example.com", "https://example.com/", true),
            ("example.com", "https://api.example.com/", true),
            (".example.com", "https://api.example.com/", true),
            ("*.example.com", "https://api.example.com/", true),
            ("EXAMPLE.com.", "https://api.example.com/", true),
            ("example.com", "https://notexample.com/", false),
            ("other, example.com", "https://example.com/", true),
            ("other example.com", "https://example.com/", true),
            ("example.com:8443", "https://example.com:8443/", true),
            ("example.com:8443", "https://example.com/", false),
            ("example.com:443", "https://example.com/", true),
            ("10.0.0.0/8", "http://10.1.2.3/", true),
            ("127.0.0.1", "http://127.0.0.1:8080/v1", true),
            ("127.0.0.1:8080", "http://127.0.0.1:8080/v1", true),
            ("127.0.0.1:8081", "http://127.0.0.1:8080/v1", false),
            ("::1", "http://[::1]:8080/", true),
            ("[::1]", "http://[::1]:8080/", true),
            ("[::1]:8080", "http://[::1]:8080/", true),
            ("[::1]:8081", "http://[::1]:8080/", false),
            ("*", "https://example.com/", true),
            ("", "https://example.com/", false),
            (",", "https://example.com/", false),
        ] {
            let used = chosen(&[("ALL_PROXY", "http://proxy:1"), ("NO_PROXY", exempt)], url);
            assert_eq!(used.is_none(), is_exempt, "{exempt:?} {url}");
        }
    }

    #[test]
    fn an_invalid_proxy_is_reported_without_its_password() {
        let url = Url::parse("https://api.example/").expect("a URL");
        for (value, said) in [
            ("socks5://me:secret@host:1", "SOCKS"),
            ("http://me:secret@:x", "not the address"),
            ("notaurl", "not the address"),
        ] {
            let error = proxies(&[("ALL_PROXY", value)]).for_url(&url).expect_err("refused").to_string();
            assert!(error.contains("ALL_PROXY") && error.contains(said) && !error.contains("secret"), "{error}");
        }
        for value in ["http://proxy", "proxy:3128", "proxy.corp.example", "localhost", "10.0.0.1"] {
            assert!(proxies(&[("ALL_PROXY", value)]).for_url(&url).is_ok(), "{value}");
        }
        let shown = format!("{:?}", proxies(&[("ALL_PROXY", "http://me:secret@host:1")]));
        assert!(!shown.contains("secret"), "{shown}");
        assert!(proxies(&[("ALL_PROXY", "socks5://x"), ("NO_PROXY", "api.example")]).for_url(&url).is_ok());
    }
}
