//! Client of npm registries: fetches package documents and tarballs within limits of bytes and time.
//!
//! A document is only fetched from the registry that is configured for the package; a redirect to another origin is refused. A
//! tarball may be on another server, but is then fetched only over https and without the token; its digest is verified.

use crate::archive::InstallLimits;
use crate::error::{InstallCode, PackageError, Result};
use crate::manifest::{if_readable, readable_members};
use crate::npmrc::NpmConfig;
use crate::source::{PackageName, VersionRequest, printable};
use nodejs_semver::{Range, Version};
use pijs_protocol::guard;
use reqwest::header::{ACCEPT, AUTHORIZATION, LOCATION};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::error::Error as _;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use url::Url;

/// Media types that request the abbreviated document: a tenth of the bytes, and enough for installing.
const ABBREVIATED: &str = "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*";
const MAX_REDIRECTS: usize = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Client for all registries of one configuration.
pub(crate) struct RegistryClient {
    http: reqwest::Client,
    config: NpmConfig,
    limits: InstallLimits,
    /// Versions that were published after this time are ignored.
    not_newer_than: Option<SystemTime>,
}

/// All versions of one package.
pub(crate) struct PackageDocument {
    name: PackageName,
    tags: BTreeMap<String, String>,
    versions: Map<String, Value>,
    /// Whether versions were left out because they are too new.
    waits: bool,
}

/// Entry of the registry for one version.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VersionInfo {
    pub(crate) name: String,
    pub(crate) version: String,
    #[serde(default, deserialize_with = "readable_members")]
    pub(crate) dependencies: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "readable_members")]
    pub(crate) optional_dependencies: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "readable_members")]
    pub(crate) peer_dependencies: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "readable_members")]
    pub(crate) peer_dependencies_meta: BTreeMap<String, PeerMeta>,
    #[serde(default, alias = "bundledDependencies", deserialize_with = "if_readable")]
    pub(crate) bundle_dependencies: Bundled,
    #[serde(default)]
    pub(crate) os: Value,
    #[serde(default)]
    pub(crate) cpu: Value,
    pub(crate) dist: Dist,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PeerMeta {
    #[serde(default)]
    pub(crate) optional: bool,
}

/// `bundleDependencies`: names, or `true` for all.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Bundled {
    All(bool),
    Names(Vec<String>),
}

impl Default for Bundled {
    fn default() -> Self {
        Self::All(false)
    }
}

impl Bundled {
    pub(crate) fn contains(&self, name: &str) -> bool {
        match self {
            Self::All(all) => *all,
            Self::Names(names) => names.iter().any(|bundled| bundled == name),
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Dist {
    pub(crate) tarball: String,
    #[serde(default)]
    pub(crate) integrity: Option<String>,
}

impl RegistryClient {
    pub(crate) fn new(config: NpmConfig, limits: InstallLimits) -> Result<Self> {
        let failed = |error: reqwest::Error| {
            PackageError::new(InstallCode::Io, "https client", error.to_string()).caused_by(error)
        };
        let proxies = config.clone();
        // An invalid proxy is reported before the request.
        let proxy = reqwest::Proxy::custom(move |url| Some(proxies.proxy_for(url).ok()??.url));
        let http = reqwest::Client::builder()
            .no_proxy()
            .proxy(proxy)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(limits.idle)
            .timeout(limits.total)
            .user_agent(concat!("pijs/", env!("CARGO_PKG_VERSION")));
        Ok(Self { http: http.build().map_err(failed)?, config, limits, not_newer_than: None })
    }

    /// Ignores versions that were published after `time`, or at an unknown time.
    pub(crate) fn not_newer_than(&mut self, time: SystemTime) {
        self.not_newer_than = Some(time);
    }

    pub(crate) fn config(&self) -> &NpmConfig {
        &self.config
    }

    /// Fetches the document of a package.
    pub(crate) async fn document(&self, name: &PackageName) -> Result<PackageDocument> {
        let base = self.config.registry(name);
        let url = base.join(&name.as_str().replace('/', "%2f")).expect("a checked name is a relative URL");
        let body = self.get(&url, base, &Want::Document(name)).await?;
        let broken = |why: String| PackageError::new(InstallCode::Format, format!("npm:{name}"), why);
        let value: Value = serde_json::from_slice(&body).map_err(|error| {
            broken(format!("{base} did not answer with a package document: {error}")).caused_by(error)
        })?;
        let Value::Object(mut document) = value else {
            return Err(broken(format!("{base} did not answer with a package document")));
        };
        let times = document.remove("time");
        let (Some(Value::Object(mut versions)), Some(Value::Object(tags))) =
            (document.remove("versions"), document.remove("dist-tags"))
        else {
            return Err(broken(format!("{base} did not answer with a package document")));
        };
        if let Some(latest) = self.not_newer_than
            && guard!(RegistryAge)
        {
            versions.retain(|version, _| is_older(times.as_ref(), version, latest));
        }
        let tags = tags.into_iter().filter_map(|(tag, version)| Some((tag, version.as_str()?.to_owned()))).collect();
        Ok(PackageDocument { name: name.clone(), tags, versions, waits: self.not_newer_than.is_some() })
    }

    /// Fetches a tarball; only its size is checked.
    pub(crate) async fn tarball(&self, name: &PackageName, location: &str) -> Result<Vec<u8>> {
        let base = self.config.registry(name);
        let url = base.join(location).map_err(|_| {
            PackageError::new(
                InstallCode::Source,
                format!("npm:{name}"),
                format!("its tarball has no usable URL: {}", printable(location)),
            )
        })?;
        self.get(&url, base, &Want::Tarball(name)).await
    }

    /// Returns the address of a tarball relative to the package's registry, so that a mirror can serve the same lock file.
    ///
    /// Documents of npm's own registry name its host; with a mirror, the mirror's host is used.
    pub(crate) fn location(&self, name: &PackageName, tarball: &str) -> String {
        let base = self.config.registry(name);
        let Ok(url) = Url::parse(tarball) else { return tarball.to_owned() };
        let public = NpmConfig::default();
        for home in [base, public.registry(name)] {
            if url.origin() == home.origin()
                && let Some(rest) = url.path().strip_prefix(home.path())
            {
                return rest.to_owned();
            }
        }
        tarball.to_owned()
    }

    async fn get(&self, url: &Url, base: &Url, want: &Want<'_>) -> Result<Vec<u8>> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            want.may_ask(&url, base)?;
            let proxy = self.config.proxy_for(&url)?.map(|proxy| proxy.shown);
            let mut request = self.http.get(url.clone());
            if matches!(want, Want::Document(_)) {
                // Only the full document states when a version was published.
                let form = if self.not_newer_than.is_some() { "application/json" } else { ABBREVIATED };
                request = request.header(ACCEPT, form);
            }
            if url.origin() == base.origin()
                && let Some(credential) = self.config.credential(&url)
            {
                request = request.header(AUTHORIZATION, credential);
            }
            let response = request.send().await.map_err(|error| want.failed(&url, proxy.as_deref(), error))?;
            let status = response.status();
            if status.is_redirection() {
                let next =
                    response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).and_then(|to| url.join(to).ok());
                url = next
                    .ok_or_else(|| want.refuse(InstallCode::Format, format!("{} redirects to nowhere", place(&url))))?;
                continue;
            }
            if !status.is_success() {
                return Err(want.status(&url, proxy.as_deref(), status));
            }
            return self.body(response, &url, want).await;
        }
        Err(want.refuse(InstallCode::Source, format!("more than {MAX_REDIRECTS} redirects")))
    }

    async fn body(&self, mut response: reqwest::Response, url: &Url, want: &Want<'_>) -> Result<Vec<u8>> {
        let cap = match want {
            Want::Document(_) => self.limits.metadata,
            Want::Tarball(_) => self.limits.compressed,
        };
        let too_big = || want.refuse(InstallCode::Size, format!("{} sent more than {cap} bytes", place(url)));
        let cap = if guard!(RegistrySize) { cap } else { usize::MAX / 2 };
        if response.content_length().is_some_and(|length| length > cap as u64) {
            return Err(too_big());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| want.failed(url, None, error))? {
            if body.len() + chunk.len() > cap {
                return Err(too_big());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

impl PackageDocument {
    /// Selects a version: the version of a tag; otherwise `latest` if it satisfies the range; otherwise the highest version that
    /// is not deprecated.
    pub(crate) fn pick(&self, wanted: &str) -> Result<VersionInfo> {
        let none = |why: String| {
            let tags: Vec<_> = self.tags.iter().map(|(tag, version)| format!("{tag} is {version}")).collect();
            PackageError::new(InstallCode::Source, format!("npm:{}@{wanted}", self.name), why).help(format!(
                "the registry has {} versions; {}",
                self.versions.len(),
                tags.join(", ")
            ))
        };
        let range = match VersionRequest::parse(wanted) {
            Some(VersionRequest::Range(range)) => range,
            Some(VersionRequest::Tag(tag)) => {
                let version = self.tags.get(&tag).ok_or_else(|| none(format!("there is no version tagged {tag}")))?;
                if !self.waits || self.versions.contains_key(version) {
                    return self.version(version);
                }
                // The tagged version is too new, so the newest older version that is not a prerelease replaces it.
                Range::parse("*").expect("a constant range")
            }
            None => return Err(none("not a version, range or tag".to_owned())),
        };
        if let Some(latest) = self.tags.get("latest")
            && Version::parse(latest).is_ok_and(|version| range.satisfies(&version))
            && self.versions.contains_key(latest)
        {
            return self.version(latest);
        }
        let deprecated =
            |text: &str| self.versions[text].get("deprecated").is_some_and(|note| note != &Value::Bool(false));
        let best = self
            .versions
            .keys()
            .filter_map(|text| Some((Version::parse(text).ok().filter(|version| range.satisfies(version))?, text)))
            .max_by(|(a, a_text), (b, b_text)| (!deprecated(a_text), a).cmp(&(!deprecated(b_text), b)));
        match best {
            Some((_, text)) => self.version(text),
            None => Err(none("no version satisfies the range".to_owned())),
        }
    }

    fn version(&self, version: &str) -> Result<VersionInfo> {
        let subject = format!("npm:{}@{version}", self.name);
        let value = self.versions.get(version).ok_or_else(|| {
            PackageError::new(
                InstallCode::Format,
                subject.as_str(),
                "the registry's document names this version but does not contain it",
            )
        })?;
        let info: VersionInfo = serde_json::from_value(value.clone()).map_err(|error| {
            PackageError::new(
                InstallCode::Format,
                subject.as_str(),
                format!("the registry's entry cannot be read: {error}"),
            )
            .caused_by(error)
        })?;
        let is_it = info.name == self.name.as_str() && info.version == version && Version::parse(version).is_ok();
        if !is_it && guard!(ManifestNamed) {
            let named = format!("{}@{}", printable(&info.name), printable(&info.version));
            return Err(PackageError::new(
                InstallCode::Manifest,
                subject,
                format!("the registry's entry names {named}"),
            ));
        }
        Ok(info)
    }
}

/// Returns whether the registry lists a version as published no later than `latest`.
fn is_older(times: Option<&Value>, version: &str, latest: SystemTime) -> bool {
    let published = times.and_then(|times| times.get(version)).and_then(Value::as_str);
    let parsed = published.and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
    parsed.is_some_and(|time| SystemTime::from(time) <= latest)
}

/// Purpose of a request, which determines the hosts that it may contact and the wording of its errors.
enum Want<'a> {
    Document(&'a PackageName),
    Tarball(&'a PackageName),
}

impl Want<'_> {
    fn name(&self) -> &PackageName {
        let (Self::Document(name) | Self::Tarball(name)) = self;
        name
    }

    fn refuse(&self, code: InstallCode, why: String) -> PackageError {
        PackageError::new(code, format!("npm:{}", self.name()), why)
    }

    fn may_ask(&self, url: &Url, base: &Url) -> Result<()> {
        if url.origin() == base.origin() || !guard!(RegistryOrigin) {
            return Ok(());
        }
        let elsewhere = matches!(self, Self::Tarball(_))
            && url.scheme() == "https"
            && matches!(url.host(), Some(url::Host::Domain(_)));
        if elsewhere {
            return Ok(());
        }
        Err(self
            .refuse(InstallCode::Source, format!("{} redirects to {}, which is not contacted", place(base), place(url)))
            .help("only the configured registry is contacted; name another with --registry or in .npmrc"))
    }

    fn failed(&self, url: &Url, proxy: Option<&str>, error: reqwest::Error) -> PackageError {
        let mut why = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            why = inner.to_string();
            cause = inner.source();
        }
        let error_is_timeout = error.is_timeout();
        let error = error.without_url();
        if error_is_timeout {
            return self
                .refuse(InstallCode::Timeout, format!("{} did not answer in time", place(url)))
                .help("try again, or name another registry with --registry")
                .caused_by(error);
        }
        let (what, help) = match proxy {
            Some(proxy) => (
                format!("{} cannot be reached through the proxy {proxy}: {why}", place(url)),
                "check the proxy, or name the registry's host in NO_PROXY",
            ),
            None => (
                format!("{} cannot be reached: {why}", place(url)),
                "check the network, or name another registry with --registry",
            ),
        };
        self.refuse(InstallCode::Io, what).help(help).caused_by(error)
    }

    fn status(&self, url: &Url, proxy: Option<&str>, status: reqwest::StatusCode) -> PackageError {
        match status.as_u16() {
            407 => self
                .refuse(InstallCode::Io, format!("the proxy {} denied access ({status})", proxy.unwrap_or_default()))
                .help("write the proxy as http://USER:PASSWORD@HOST:PORT"),
            404 => self
                .refuse(InstallCode::Source, format!("{} does not have it", place(url)))
                .help("check the spelling; for a folder write ./NAME"),
            401 | 403 => self
                .refuse(InstallCode::Source, format!("{} denied access ({status})", place(url)))
                .help("put a token for this registry into your .npmrc"),
            _ => self.refuse(InstallCode::Io, format!("{} answered {status}", place(url))).help("try again later"),
        }
    }
}

/// Returns the scheme, host and port of a URL, without the path, which may contain secrets.
fn place(url: &Url) -> String {
    url.origin().ascii_serialization()
}
