//! Keys and log-ins of providers that an extension brings.
//!
//! An entry of `auth.json` that came about through an extension names it, and is handed to no other one: the name of a
//! provider can be taken by anybody.

use super::file::{Login, Stored};
use super::value::Written;
use super::{Auth, said};
use pijs_environment::Wait;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// A token is renewed when it ends sooner than this; pi's figure.
const RENEW_BEFORE_MS: f64 = 300_000.0;
/// Largest log-in that is stored, in bytes: the file is everybody's, and read up to a limit.
const LARGEST: usize = 1 << 16;
/// Renewing takes no longer: other processes wait for it. pi's figure.
const RENEW_TIME: Duration = Duration::from_secs(15);

impl Auth {
    /// What is stored for a provider through this extension.
    pub fn stored_through(&self, extension: &str, provider: &str) -> Option<Stored> {
        self.stored().remove(provider).filter(|stored| stored.extension() == Some(extension))
    }

    /// Stores what an extension's log-in came to: pi's `OAuthCredentials`.
    ///
    /// # Errors
    ///
    /// A sentence, when it is something else, or the file cannot be written.
    pub async fn store_login(&self, extension: &str, provider: &str, given: Value) -> Result<(), String> {
        let login = self.login_of(extension, provider, given)?;
        let (file, _held) = self.held().await?;
        file.put(provider, &Stored::Oauth(login)).map_err(said)
    }

    /// Stores a key that a person gave for an extension's provider.
    ///
    /// # Errors
    ///
    /// A sentence, when the file cannot be written.
    pub async fn store_key_through(&self, extension: &str, provider: &str, key: &str) -> Result<(), String> {
        self.around.learned(key);
        let (file, _held) = self.held().await?;
        let extension = Some(extension.to_owned());
        file.put(provider, &Stored::ApiKey { key: Some(key.to_owned()), env: BTreeMap::new(), extension }).map_err(said)
    }

    /// What is stored for a provider through this extension, as pi's credential: a key is filled in.
    pub async fn credential_through(&self, extension: &str, provider: &str) -> Option<Value> {
        let stored = self.stored_through(extension, provider)?;
        let Stored::ApiKey { key, env, .. } = &stored else { return Some(self.told(&stored)) };
        let key = match Written::parse(key.as_deref()?) {
            Written::Command(line) => self.printed_once(&line).await,
            written => self.filled(&written, env),
        }?;
        self.around.learned(&key);
        Some(json!({"type": "api_key", "key": key}))
    }

    /// Renews a log-in that ends soon, unless another process has done so meanwhile. `renew` gets pi's credential and
    /// gives another one.
    ///
    /// # Errors
    ///
    /// A sentence, when it cannot be renewed or stored.
    pub async fn renew_through(
        &self,
        extension: &str,
        provider: &str,
        renew: impl AsyncFnOnce(Value) -> Result<Value, String>,
    ) -> Result<(), String> {
        let ending = || self.stored_through(extension, provider).filter(|stored| self.ends_soon(stored));
        if ending().is_none() {
            return Ok(());
        }
        let (file, _held) = self.held().await?;
        let Some(stored) = ending() else { return Ok(()) };
        let failed =
            |why: String| format!("OAuth refresh failed for {provider}: {why}; log in again with: /login {provider}");
        let renewed = tokio::select! {
            renewed = renew(self.told(&stored)) => renewed.map_err(failed)?,
            () = self.ambient.timer.sleep(Wait::Tool, RENEW_TIME) => {
                return Err(failed(format!("no answer within {} s", RENEW_TIME.as_secs())));
            }
        };
        let renewed = self.login_of(extension, provider, renewed)?;
        file.put(provider, &Stored::Oauth(renewed)).map_err(said)
    }

    fn ends_soon(&self, stored: &Stored) -> bool {
        let now = self.ambient.epoch_ms() as f64;
        matches!(stored, Stored::Oauth(login) if now + RENEW_BEFORE_MS >= login.expires)
    }

    /// The credential as its extension gets it, which names no extension.
    fn told(&self, stored: &Stored) -> Value {
        if let Stored::Oauth(login) = stored {
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
        if given.to_string().len() > LARGEST {
            return Err(format!("the log-in of {provider} gave more than {LARGEST} bytes to store"));
        }
        let wrong = |_| format!("the log-in of {provider} gave no credentials: they have access, refresh and expires");
        let mut login: Login = serde_json::from_value(given).map_err(wrong)?;
        // Which of the two kinds it is stands beside it.
        login.rest.shift_remove("type");
        login.rest.insert("extension".to_owned(), extension.into());
        self.around.learned(&login.access);
        self.around.learned(&login.refresh);
        Ok(login)
    }
}
