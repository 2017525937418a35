//! Reads the user's `.npmrc`: the registry of each scope, and its token.
//!
//! Reads only the user's own file, never a file in a package or a cloned project.

use crate::error::{InstallCode, PackageError, Result};
use crate::source::{PackageName, printable};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use url::Url;

/// npm's public registry, the default.
const DEFAULT_REGISTRY: &str = "https://registry.npmjs.org/";

/// Registries and credentials.
///
/// # Examples
///
/// ```
/// use pijs_packages::NpmConfig;
///
/// let npmrc = "@corp:registry=https://npm.corp.example/\n//npm.corp.example/:_authToken=${TOKEN}\n";
/// let config = NpmConfig::parse(npmrc, &|name| (name == "TOKEN").then(|| "secret".to_owned())).unwrap();
/// assert!(!format!("{config:?}").contains("secret"));
/// ```
#[derive(Clone)]
pub struct NpmConfig {
    default: Url,
    scopes: BTreeMap<String, Url>,
    /// Value of the `Authorization` header by `//host/path/`.
    credentials: BTreeMap<String, String>,
    /// `https-proxy`, or else `proxy`; applies to every request.
    pub proxy: Option<String>,
    /// `noproxy`: hosts that are contacted directly.
    pub no_proxy: Option<String>,
    proxies: Option<Arc<ChooseProxy>>,
    explicit: bool,
}

/// Chooses the proxy for an address. Fails for a setting that is not the address of a proxy.
pub type ChooseProxy = dyn Fn(&Url) -> Result<Option<ChosenProxy>> + Send + Sync;

/// The proxy of a request.
pub struct ChosenProxy {
    /// Address of the proxy, with user and password.
    pub url: Url,
    /// Address of the proxy without user and password, for messages.
    pub shown: String,
}

impl fmt::Debug for NpmConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NpmConfig")
            .field("default", &self.default.as_str())
            .field("scopes", &self.scopes.iter().map(|(scope, url)| (scope.as_str(), url.as_str())).collect::<Vec<_>>())
            .field("credentials", &self.credentials.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Default for NpmConfig {
    fn default() -> Self {
        Self {
            default: Url::parse(DEFAULT_REGISTRY).expect("a constant URL"),
            scopes: BTreeMap::new(),
            credentials: BTreeMap::new(),
            proxy: None,
            no_proxy: None,
            proxies: None,
            explicit: false,
        }
    }
}

impl NpmConfig {
    /// Parses the text of an `.npmrc`; `env` resolves `${NAME}`. Keys that do not concern fetching are ignored.
    pub fn parse(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let (mut this, mut secure) = (Self::default(), None);
        for line in text.trim_start_matches('\u{feff}').lines() {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            let key = key.trim();
            let value = expand(value.trim().trim_matches('"'), env);
            if key == "registry" {
                this.default = registry_url(&value)?;
            } else if let Some(scope) = key.strip_suffix(":registry").filter(|scope| scope.starts_with('@')) {
                this.scopes.insert(scope.to_owned(), registry_url(&value)?);
            } else if let Some(place) = key.strip_suffix(":_authToken") {
                this.credentials.insert(place.to_owned(), format!("Bearer {value}"));
            } else if let Some(place) = key.strip_suffix(":_auth") {
                this.credentials.insert(place.to_owned(), format!("Basic {value}"));
            } else if let "https-proxy" | "proxy" | "noproxy" = key {
                let value = Some(value).filter(|value| !value.is_empty() && value != "null");
                match key {
                    "https-proxy" => secure = value,
                    "proxy" => this.proxy = value,
                    _ => this.no_proxy = value,
                }
            }
        }
        this.proxy = secure.or(this.proxy);
        Ok(this)
    }

    /// Sets the function that returns the proxy for a registry. Without it, registries are contacted directly.
    #[must_use]
    pub fn with_proxies(self, choose: Arc<ChooseProxy>) -> Self {
        Self { proxies: Some(choose), ..self }
    }

    /// Returns the proxy for an address.
    pub(crate) fn proxy_for(&self, url: &Url) -> Result<Option<ChosenProxy>> {
        self.proxies.as_ref().map_or(Ok(None), |choose| choose(url))
    }

    /// Uses `url` for packages whose scope has no registry (`--registry`).
    pub fn with_registry(mut self, url: &str) -> Result<Self> {
        self.default = registry_url(url)?;
        self.explicit = true;
        Ok(self)
    }

    /// Returns the registry of a package. A scope with its own registry is never looked up elsewhere.
    pub(crate) fn registry(&self, name: &PackageName) -> &Url {
        name.scope().and_then(|scope| self.scopes.get(scope)).unwrap_or(&self.default)
    }

    /// Returns whether the command line names the registry, which overrides the lock file's registry.
    pub(crate) fn is_explicit(&self) -> bool {
        self.explicit
    }

    /// Returns the `Authorization` header for a URL, from the longest configured prefix.
    pub(crate) fn credential(&self, url: &Url) -> Option<&str> {
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let target = format!("//{}{port}{}", url.host_str().unwrap_or_default(), url.path());
        self.credentials
            .iter()
            .filter(|(place, _)| {
                let place = place.trim_end_matches('/');
                target.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
            .max_by_key(|(place, _)| place.len())
            .map(|(_, value)| value.as_str())
    }
}

fn expand(value: &str, env: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = value;
    while let Some(start) = rest.find("${") {
        let Some(end) = rest[start..].find('}') else { break };
        out.push_str(&rest[..start]);
        let name = &rest[start + 2..start + end];
        match env(name) {
            Some(found) => out.push_str(&found),
            // npm leaves an unknown variable as written.
            None => out.push_str(&rest[start..=start + end]),
        }
        rest = &rest[start + end + 1..];
    }
    out + rest
}

fn registry_url(text: &str) -> Result<Url> {
    let refuse = |why: &str| {
        PackageError::new(InstallCode::Source, printable(text), why).help("example: https://registry.example/")
    };
    let with_slash = if text.ends_with('/') { text.to_owned() } else { format!("{text}/") };
    let url = Url::parse(&with_slash).map_err(|_| refuse("not a registry URL"))?;
    if !matches!(url.scheme(), "https" | "http") || url.host_str().is_none() {
        return Err(refuse("a registry URL begins with https:// or http://"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err(refuse("a registry URL has no password, query or fragment; tokens belong into .npmrc"));
    }
    Ok(url)
}
