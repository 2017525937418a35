//! Credentials of providers: their sources, and the headers and keys of a request.
//!
//! [`Auth`] searches the sources in pi's order: keys given for this run ([`Auth::give`]), `auth.json`, `models.json`, environment
//! variables. [`Auth::status`] reports the source without running a command; [`Auth::credentials`] resolves the key. Every
//! resolved secret is passed to the redaction of logs ([`KeyEnvironment::learned`]) before it is used.

mod copilot;
mod extension_accounts;
pub mod file;
pub mod value;

use crate::catalogue;
use crate::models::Credentials;
use crate::models_json::ProviderConfig;
use crate::provider::http::HttpOptions;
use file::{AuthFile, Login, StoredCredential};
use futures_util::future::BoxFuture;
use pijs_environment::{Ambient, Wait};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use value::ConfigValue;

/// Timeout of a command that prints a key.
const COMMAND_TIME: Duration = Duration::from_secs(10);
/// Time before its expiry at which a token is renewed, in milliseconds.
const RENEW_BEFORE_MS: f64 = 300_000.0;

/// Environment in which keys are resolved.
pub trait KeyEnvironment: Send + Sync {
    /// Returns an environment variable.
    fn variable(&self, name: &str) -> Option<String>;
    /// Runs a shell command and returns its output; `None` if the command fails.
    fn command(&self, line: &str) -> BoxFuture<'static, Option<String>>;
    /// Registers a resolved secret for redaction.
    fn learned(&self, secret: &str);
}

/// An environment without variables and commands.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoKeyEnvironment;

impl KeyEnvironment for NoKeyEnvironment {
    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn command(&self, _: &str) -> BoxFuture<'static, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    fn learned(&self, _: &str) {}
}

/// Source of a provider's credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Source in pi's vocabulary: `runtime`, `stored`, `environment`, `models_json_key`, `models_json_command`.
    pub source: &'static str,
    /// Names of the environment variables.
    pub label: Option<String>,
    /// Whether the credentials are an OAuth login.
    pub oauth: bool,
}

impl Status {
    fn from(source: &'static str) -> Self {
        Self { source, label: None, oauth: false }
    }

    /// Returns the status of an entry of `auth.json`.
    pub fn of_stored(stored: &StoredCredential) -> Self {
        Self { oauth: matches!(stored, StoredCredential::Oauth(_)), ..Self::from("stored") }
    }

    /// Returns pi's `AuthStatus`.
    pub fn to_value(&self) -> Value {
        let mut value = json!({"configured": true, "source": self.source});
        if let Some(label) = &self.label {
            value["label"] = json!(label);
        }
        value
    }
}

/// The credentials of a session's providers.
pub struct Auth {
    around: Arc<dyn KeyEnvironment>,
    file: Option<AuthFile>,
    given: Mutex<BTreeMap<String, String>>,
    /// Output of commands in `auth.json`; each command runs once.
    printed: Mutex<BTreeMap<String, Option<String>>>,
    ambient: Ambient,
    http: HttpOptions,
}

impl Auth {
    /// Creates a source of credentials without `auth.json`.
    pub fn new(around: Arc<dyn KeyEnvironment>, ambient: Ambient, http: HttpOptions) -> Self {
        Self { around, file: None, given: Mutex::default(), printed: Mutex::default(), ambient, http }
    }

    /// Adds `auth.json` as a source.
    #[must_use]
    pub fn with_file(self, file: AuthFile) -> Self {
        Self { file: Some(file), ..self }
    }

    /// Sets a key for this run, which has precedence over all other sources.
    pub fn give(&self, provider: &str, key: &str) {
        self.around.learned(key);
        locked(&self.given).insert(provider.to_owned(), key.to_owned());
    }

    /// Returns the source of a provider's credentials; `None` when there are none.
    pub fn status(&self, provider: &str, config: Option<&ProviderConfig>) -> Option<Status> {
        self.status_of(provider, config, self.stored().get(provider))
    }

    /// Returns the contents of `auth.json`; empty if the file cannot be read. [`Auth::credentials`] reports the error.
    pub fn stored(&self) -> BTreeMap<String, StoredCredential> {
        self.file.as_ref().and_then(|file| file.read().ok()).unwrap_or_default()
    }

    /// Returns the source of a provider's credentials, given its entry of `auth.json`.
    pub fn status_of(
        &self,
        provider: &str,
        config: Option<&ProviderConfig>,
        stored: Option<&StoredCredential>,
    ) -> Option<Status> {
        if locked(&self.given).contains_key(provider) {
            return Some(Status::from("runtime"));
        }
        // Credentials stored by an extension are reserved for that extension.
        match stored.filter(|stored| stored.extension().is_none()) {
            Some(StoredCredential::Oauth(_)) => return Some(Status { oauth: true, ..Status::from("stored") }),
            Some(StoredCredential::ApiKey { key: Some(key), env, .. }) if self.is_there(key, env) => {
                return Some(Status::from("stored"));
            }
            _ => {}
        }
        if let Some(key) = config.and_then(|config| config.api_key.as_ref()) {
            let written = ConfigValue::parse(key);
            let names = written.variables();
            return match &written {
                ConfigValue::Command(_) => Some(Status::from("models_json_command")),
                _ if names.is_empty() => Some(Status::from("models_json_key")),
                _ if !self.is_there(key, &BTreeMap::new()) => None,
                _ => Some(Status { label: Some(names.join(", ")), ..Status::from("environment") }),
            };
        }
        let name = self.set_variable(provider)?;
        Some(Status { label: Some(name), ..Status::from("environment") })
    }

    /// Resolves the credentials for requests to a provider; returns `None` if there are none.
    ///
    /// # Errors
    ///
    /// Fails when a configured key cannot be resolved.
    pub async fn credentials(
        &self,
        provider: &str,
        config: Option<&ProviderConfig>,
        model_headers: &BTreeMap<String, String>,
    ) -> Result<Option<Credentials>, String> {
        let (mut found, env) = match self.key_of(provider, config).await? {
            Some(found) => found,
            None => return Ok(None),
        };
        let headers = config.map(|config| &config.headers).into_iter().flatten().chain(model_headers);
        for (name, written) in headers {
            let what = format!("header {name:?} of provider {provider:?}");
            let value = self.value(written, &env, &what).await?;
            self.around.learned(&value);
            found.headers.retain(|known, _| !known.eq_ignore_ascii_case(name));
            found.headers.insert(name.clone(), value);
        }
        if config.and_then(|config| config.auth_header) == Some(true)
            && let Some(key) = &found.key
        {
            found.headers.insert("Authorization".to_owned(), format!("Bearer {key}"));
        }
        Ok(Some(found))
    }

    async fn key_of(
        &self,
        provider: &str,
        config: Option<&ProviderConfig>,
    ) -> Result<Option<(Credentials, BTreeMap<String, String>)>, String> {
        let plain = |key: String| {
            self.around.learned(&key);
            Credentials { key: Some(key), ..Credentials::default() }
        };
        let none = BTreeMap::new();
        let given = locked(&self.given).get(provider).cloned();
        if let Some(key) = given {
            return Ok(Some((plain(key), none)));
        }
        match self.stored_for(provider).map_err(|error| error.to_string())? {
            Some(StoredCredential::Oauth(login)) => {
                return self.logged_in(provider, login).await.map(|found| Some((found, none)));
            }
            Some(StoredCredential::ApiKey { key: Some(key), env, .. }) => {
                let key = match ConfigValue::parse(&key) {
                    ConfigValue::Command(line) => self.printed_once(&line).await,
                    written => self.filled(&written, &env),
                };
                if let Some(key) = key {
                    return Ok(Some((plain(key), env)));
                }
            }
            _ => {}
        }
        if let Some(written) = config.and_then(|config| config.api_key.as_ref()) {
            let key = self.value(written, &none, &format!("API key for provider {provider:?}")).await?;
            return Ok(Some((plain(key), none)));
        }
        let Some(name) = self.set_variable(provider) else { return Ok(None) };
        let Some(value) = self.around.variable(&name) else { return Ok(None) };
        if name == "ANTHROPIC_AUTH_TOKEN" {
            self.around.learned(&value);
            let headers = BTreeMap::from([("Authorization".to_owned(), format!("Bearer {value}"))]);
            return Ok(Some((Credentials { headers, ..Credentials::default() }, none)));
        }
        Ok(Some((plain(value), none)))
    }

    /// Resolves a required configuration value.
    async fn value(&self, text: &str, env: &BTreeMap<String, String>, what: &str) -> Result<String, String> {
        let written = ConfigValue::parse(text);
        if let ConfigValue::Command(line) = &written {
            let printed = self.run(line).await;
            return printed.ok_or_else(|| format!("Failed to resolve {what} from shell command: {line}"));
        }
        self.filled(&written, env).ok_or_else(|| {
            let names: Vec<&str> =
                written.variables().into_iter().filter(|name| self.named(name, env).is_none()).collect();
            let plural = if names.len() == 1 { "" } else { "s" };
            format!("Failed to resolve {what} from environment variable{plural}: {}", names.join(", "))
        })
    }

    fn filled(&self, written: &ConfigValue, env: &BTreeMap<String, String>) -> Option<String> {
        written.filled(&|name| self.named(name, env)).filter(|value| !value.is_empty())
    }

    fn named(&self, name: &str, env: &BTreeMap<String, String>) -> Option<String> {
        let own = env.get(name).filter(|value| !value.is_empty()).cloned();
        own.or_else(|| self.around.variable(name)).filter(|value| !value.is_empty())
    }

    /// Returns whether a value can be resolved, as far as is known without running a command.
    fn is_there(&self, text: &str, env: &BTreeMap<String, String>) -> bool {
        let written = ConfigValue::parse(text);
        matches!(written, ConfigValue::Command(_)) || self.filled(&written, env).is_some()
    }

    async fn printed_once(&self, line: &str) -> Option<String> {
        let known = locked(&self.printed).get(line).cloned();
        if let Some(known) = known {
            return known;
        }
        let printed = self.run(line).await;
        locked(&self.printed).insert(line.to_owned(), printed.clone());
        printed
    }

    async fn run(&self, line: &str) -> Option<String> {
        tokio::select! {
            printed = self.around.command(line) => {
                printed.map(|printed| printed.trim().to_owned()).filter(|printed| !printed.is_empty())
            }
            () = self.ambient.timer.sleep(Wait::Tool, COMMAND_TIME) => None,
        }
    }

    /// Returns the first environment variable of a provider that is set.
    fn set_variable(&self, provider: &str) -> Option<String> {
        let mut names = catalogue::provider(provider)?.env.iter();
        names.find(|name| self.named(name, &BTreeMap::new()).is_some()).cloned()
    }

    fn stored_for(&self, provider: &str) -> std::io::Result<Option<StoredCredential>> {
        match &self.file {
            Some(file) => Ok(file.read()?.remove(provider).filter(|stored| stored.extension().is_none())),
            None => Ok(None),
        }
    }

    /// Returns the credentials of a login, after renewing an expired token if possible.
    async fn logged_in(&self, provider: &str, login: Login) -> Result<Credentials, String> {
        let variable = catalogue::provider(provider).and_then(|known| known.env.last());
        let or = variable.map(|name| format!(", or set {name}")).unwrap_or_default();
        if provider == "anthropic" {
            return Err(format!(
                "auth.json has a Claude login, which Anthropic accepts only from its own programs: store an API key there{or}"
            ));
        }
        let mut login = login;
        self.around.learned(&login.access);
        self.around.learned(&login.refresh);
        let ends = |login: &Login| self.ambient.epoch_ms() as f64 + RENEW_BEFORE_MS >= login.expires;
        if ends(&login) {
            login = match provider {
                "github-copilot" => self.renew(provider, &ends).await?,
                _ if self.ambient.epoch_ms() as f64 >= login.expires => {
                    return Err(format!(
                        "the login for {provider} in auth.json has expired, and only the real pi can renew it: log in there again{or}"
                    ));
                }
                _ => login,
            };
        }
        let base_url = (provider == "github-copilot").then(|| copilot::base_url(&login));
        Ok(Credentials { key: Some(login.access), base_url, ..Credentials::default() })
    }

    /// Stores a key of the user in `auth.json`.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub async fn store_key(&self, provider: &str, key: &str) -> Result<(), String> {
        self.around.learned(key);
        let (file, _lock) = self.locked_file().await?;
        let stored = StoredCredential::ApiKey { key: Some(key.to_owned()), env: BTreeMap::new(), extension: None };
        file.put(provider, &stored).map_err(said)
    }

    /// Removes the credentials of a provider from `auth.json`; returns whether there were any.
    ///
    /// # Errors
    ///
    /// Fails like [`Auth::store_key`].
    pub async fn forget(&self, provider: &str) -> Result<bool, String> {
        let (file, _lock) = self.locked_file().await?;
        file.remove(provider).map_err(said)
    }

    /// Returns the providers with stored credentials.
    pub fn stored_providers(&self) -> Vec<String> {
        self.stored().into_keys().collect()
    }

    /// Acquires the lock of `auth.json`.
    async fn locked_file(&self) -> Result<(&AuthFile, file::AuthLock), String> {
        let file = self.file.as_ref().ok_or("there is no auth.json")?;
        let mut waited = Duration::ZERO;
        loop {
            if let Some(lock) = file.lock().map_err(said)? {
                return Ok((file, lock));
            }
            if waited >= LOCK_TIMEOUT {
                let folder = file.lock_folder();
                return Err(format!("{} is in use; remove it if no pi is running", folder.display()));
            }
            self.ambient.timer.sleep(Wait::Backoff, POLL_INTERVAL).await;
            waited += POLL_INTERVAL;
        }
    }

    /// Renews a token, unless another process has renewed it already.
    async fn renew(&self, provider: &str, ends: &dyn Fn(&Login) -> bool) -> Result<Login, String> {
        let (file, _lock) = self.locked_file().await?;
        let Some(StoredCredential::Oauth(current)) = file.read().map_err(said)?.remove(provider) else {
            return Err(format!("{provider} was logged out in the meantime"));
        };
        if !ends(&current) {
            return Ok(current);
        }
        let renewed = copilot::renew(&current, &self.http).await?;
        self.around.learned(&renewed.access);
        file.put(provider, &StoredCredential::Oauth(renewed.clone())).map_err(said)?;
        Ok(renewed)
    }
}

fn said(error: std::io::Error) -> String {
    error.to_string()
}

/// Time to wait for another process that holds the lock of `auth.json`; pi's value.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of polling the lock.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

impl std::fmt::Debug for Auth {
    /// Omits keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("file", &self.file).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
