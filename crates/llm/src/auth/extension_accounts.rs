//! Keys and logins of providers that extensions register.
//!
//! An entry of `auth.json` stored through an extension names that extension, and no other extension receives it, because any
//! extension can register any provider name.

use super::file::{Login, StoredCredential};
use super::value::ConfigValue;
use super::{Auth, said};
use pijs_environment::Wait;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time before its expiry at which a token is renewed, in milliseconds; pi's value.
const RENEW_BEFORE_MS: f64 = 300_000.0;
/// Maximum size of a login in bytes. The file is shared and has a size limit.
const MAX_LOGIN_BYTES: usize = 1 << 16;
/// Timeout of a renewal, during which other processes wait for the lock; pi's value.
const RENEW_TIME: Duration = Duration::from_secs(15);

impl Auth {
    /// Returns the credentials stored for a provider through this extension.
    pub fn stored_for_extension(&self, extension: &str, provider: &str) -> Option<StoredCredential> {
        self.stored().remove(provider).filter(|stored| stored.extension() == Some(extension))
    }

    /// Stores the result of an extension's login: pi's `OAuthCredentials`.
    ///
    /// # Errors
    ///
    /// Fails when the value has another format, or when the file cannot be written.
    pub async fn store_login(&self, extension: &str, provider: &str, given: Value) -> Result<(), String> {
        let login = self.login_of(extension, provider, given)?;
        let (file, _lock) = self.locked_file().await?;
        file.put(provider, &StoredCredential::Oauth(login)).map_err(said)
    }

    /// Stores a key that the user entered for an extension's provider.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub async fn store_key_for_extension(&self, extension: &str, provider: &str, key: &str) -> Result<(), String> {
        self.around.learned(key);
        let (file, _lock) = self.locked_file().await?;
        let extension = Some(extension.to_owned());
        file.put(provider, &StoredCredential::ApiKey { key: Some(key.to_owned()), env: BTreeMap::new(), extension })
            .map_err(said)
    }

    /// Returns the credential stored for a provider through this extension, in pi's format with the key resolved.
    pub async fn credential_for_extension(&self, extension: &str, provider: &str) -> Option<Value> {
        let stored = self.stored_for_extension(extension, provider)?;
        let StoredCredential::ApiKey { key, env, .. } = &stored else { return Some(self.told(&stored)) };
        let key = match ConfigValue::parse(key.as_deref()?) {
            ConfigValue::Command(line) => self.printed_once(&line).await,
            written => self.filled(&written, env),
        }?;
        self.around.learned(&key);
        Some(json!({"type": "api_key", "key": key}))
    }

    /// Renews a login that expires soon, unless another process has renewed it already. `renew` maps pi's credential to a new
    /// one.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be renewed or stored.
    pub async fn renew_for_extension(
        &self,
        extension: &str,
        provider: &str,
        renew: impl AsyncFnOnce(Value) -> Result<Value, String>,
    ) -> Result<(), String> {
        let ending = || self.stored_for_extension(extension, provider).filter(|stored| self.ends_soon(stored));
        if ending().is_none() {
            return Ok(());
        }
        let (file, _lock) = self.locked_file().await?;
        let Some(stored) = ending() else { return Ok(()) };
        let failed =
            |why: String| format!("OAuth refresh failed for {provider}: {why}; log in again with: /login {provider}");
        let renewed = tokio::select! {
            renewed = renew(self.told(&stored)) => renewed.map_err(failed)?,
            () = self.ambient.timer.sleep(Wait::Tool, RENEW_TIME) => {
                return Err(failed(format!("no response within {} s", RENEW_TIME.as_secs())));
            }
        };
        let renewed = self.login_of(extension, provider, renewed)?;
        file.put(provider, &StoredCredential::Oauth(renewed)).map_err(said)
    }

    fn ends_soon(&self, stored: &StoredCredential) -> bool {
        let now = self.ambient.epoch_ms() as f64;
        matches!(stored, StoredCredential::Oauth(login) if now + RENEW_BEFORE_MS >= login.expires)
    }

    /// Returns the credential in the format for its extension, without the extension's name.
    fn told(&self, stored: &StoredCredential) -> Value {
        if let StoredCredential::Oauth(login) = stored {
            self.around.learned(&login.access);
            self.around.learned(&login.refresh);
        }
        let mut value = serde_json::to_value(stored).unwrap_or_default();
        if let Some(members) = value.as_object_mut() {
            members.shift_remove("extension");
        }
        value
    }

    fn login_of(&self, extension: &str, provider: &str, given: Value) -> Result<Login, String> {
        if given.to_string().len() > MAX_LOGIN_BYTES {
            return Err(format!("the login of {provider} returned more than {MAX_LOGIN_BYTES} bytes"));
        }
        let wrong = |_| format!("the login of {provider} did not return credentials with access, refresh and expires");
        let mut login: Login = serde_json::from_value(given).map_err(wrong)?;
        // The type is stored separately.
        login.rest.shift_remove("type");
        login.rest.insert("extension".to_owned(), extension.into());
        self.around.learned(&login.access);
        self.around.learned(&login.refresh);
        Ok(login)
    }
}
