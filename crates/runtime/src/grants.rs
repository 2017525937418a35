//! Derives the gate's grants from the scan, the settings and the command line.

use crate::config::Permissions;
use crate::environment::Environment;
use crate::package_request::PackageRequest;
use crate::text::clean;
use crate::user_error::{Result, UserError, is_missing};
use pijs_agent::ModelQuotaLimits;
use pijs_agent::settings::Settings as SessionSettings;
use pijs_host::PiProfile;
use pijs_hostcall::grant_store::{AnswerValidity, PackageRecord, refuses};
use pijs_hostcall::requests::{allow_command, as_grants, describe, widening};
use pijs_hostcall::vocabulary::CAPABILITIES;
use pijs_hostcall::{Gate, Grant, Mode, Policy, Profile};
use pijs_llm::provider::ProviderOptions;
use pijs_packages::DiscoveryOrigin;
use pijs_protocol::manifest::{CapabilityManifest, CapabilityRequest, Scope};
use pijs_protocol::{Capability, guard};
use pijs_terminal::similar_names;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// The part of `settings.json` that concerns extensions (`docs/spec/capabilities.md`, Policies).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ExtensionSettings {
    extensions: ExtensionsMember,
    /// Version of pi that extensions see.
    #[serde(rename = "extensionProfile")]
    profile: Option<String>,
}

impl ExtensionSettings {
    fn policy(self) -> PolicySettings {
        match self.extensions {
            ExtensionsMember::Policy { policy } => policy,
            ExtensionsMember::Other => PolicySettings::default(),
        }
    }
}

/// `extensions` is pi's list of paths, or an object with the policy; only the latter is used here.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Value")]
enum ExtensionsMember {
    Policy {
        policy: PolicySettings,
    },
    #[default]
    Other,
}

impl TryFrom<Value> for ExtensionsMember {
    type Error = String;

    /// A policy that cannot be parsed is an error: ignoring it would deny nothing.
    fn try_from(mut given: Value) -> std::result::Result<Self, String> {
        let Some(policy) = given.get_mut("policy").map(Value::take).filter(|policy| !policy.is_null()) else {
            return Ok(Self::Other);
        };
        let read =
            match policy.as_object().and_then(|members| members.keys().find(|key| !MEMBERS.contains(&key.as_str()))) {
                Some(unknown) => Err(format!("`{unknown}` is not a member; the members are {}", MEMBERS.join(", "))),
                None => serde_json::from_value(policy).map_err(|error| error.to_string()),
            };
        match read.and_then(PolicySettings::of_known_capabilities) {
            Ok(policy) => Ok(Self::Policy { policy }),
            Err(_) if !guard!(PolicyReadable) => Ok(Self::Other),
            Err(error) => Err(format!("extensions.policy: {error}")),
        }
    }
}

/// `extensions.policy`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub struct PolicySettings {
    #[serde(flatten)]
    policy: Policy,
    /// Maximum heap of a realm, in MiB.
    pub max_memory_mb: Option<u64>,
    /// Maximum number of concurrent model requests of one extension.
    pub max_model_requests: Option<u64>,
    /// Maximum number of tokens of one extension in a run.
    pub max_model_tokens: Option<u64>,
    /// Maximum duration of a turn of a sealed realm, in milliseconds, without time in hostcalls.
    pub max_turn_ms: Option<u64>,
}

/// Members of `extensions.policy`. A misspelt one is an error, because it would have no effect.
const MEMBERS: [&str; 7] =
    ["default_caps", "deny_caps", "max_memory_mb", "max_model_requests", "max_model_tokens", "max_turn_ms", "mode"];

impl PolicySettings {
    fn of_known_capabilities(self) -> std::result::Result<Self, String> {
        let Policy { default_caps, deny_caps, .. } = &self.policy;
        match default_caps.iter().chain(deny_caps).find(|name| !exists(name.as_str())) {
            Some(unknown) => Err(format!("`{unknown}` is not a capability; use one of {}", all_capabilities())),
            None => Ok(self),
        }
    }

    fn asks(&self) -> ModelQuotaLimits {
        let usual = ModelQuotaLimits::default();
        ModelQuotaLimits {
            at_once: self.max_model_requests.unwrap_or(usual.at_once),
            tokens: self.max_model_tokens.unwrap_or(usual.tokens),
        }
    }
}

/// Decisions of the user for this run.
pub struct UserDecisions {
    /// Policy for capabilities that were not granted.
    pub policy: Policy,
    /// Quota of an extension's own requests to models.
    pub asks: ModelQuotaLimits,
    /// Maximum heap of a realm, in MiB.
    pub max_memory_mb: Option<u64>,
    /// Maximum duration of a turn of a sealed realm, in milliseconds.
    pub max_turn_ms: Option<u64>,
    /// Version of pi that extensions see.
    pub profile: PiProfile,
    allowed: Vec<Grant>,
}

impl UserDecisions {
    /// Merges the settings of the user with the command line.
    pub fn new(environment: &Environment, args: &Permissions, profile: Option<PiProfile>) -> Result<Self> {
        let settings = settings(environment)?;
        let profile = match profile {
            Some(profile) => profile,
            None => profile_of(&settings)?,
        };
        let settings = settings.policy();
        let asks = settings.asks();
        let mut policy = settings.policy;
        policy.mode = args.mode.unwrap_or(policy.mode);
        for name in &args.deny {
            must_exist(name)?;
            policy.deny_caps.push(Capability::new(name.as_str()));
        }
        let allowed = args
            .allow
            .iter()
            .map(|text| parse_grant(text).map(|grant| Grant { id: format!("--allow {text}"), ..grant }))
            .collect::<Result<_>>()?;
        let (max_memory_mb, max_turn_ms) = (settings.max_memory_mb, settings.max_turn_ms);
        Ok(Self { policy, asks, max_memory_mb, max_turn_ms, profile, allowed })
    }

    /// Reads the settings of the user only.
    pub fn of_settings(environment: &Environment) -> Result<Self> {
        let settings = settings(environment)?;
        let profile = profile_of(&settings)?;
        let settings = settings.policy();
        let asks = settings.asks();
        let PolicySettings { policy, max_memory_mb, max_turn_ms, .. } = settings;
        Ok(Self { policy, asks, max_memory_mb, max_turn_ms, profile, allowed: Vec::new() })
    }

    /// Returns the grants of `--allow` for every extension.
    pub fn allowed(&self) -> &[Grant] {
        &self.allowed
    }

    /// Computes the grants of an extension: those of its record, those that naming it with `-e` implies, and those of `--allow`.
    ///
    /// An extension without a record gets the grants of one named with `-e`, unless the policy is strict, because the user put it
    /// into the folder that it is loaded from.
    pub fn held(
        &self,
        applicant: &PackageRequest,
        origin: DiscoveryOrigin,
        record: Option<&PackageRecord>,
    ) -> ExtensionGrants {
        let named = origin == DiscoveryOrigin::Named;
        let present = applicant.present();
        let more = |more: &[CapabilityRequest]| more.iter().map(describe).collect::<Vec<_>>().join("; ");
        let ask = |more: &[CapabilityRequest]| {
            let grants: Vec<String> = more.iter().flat_map(as_grants).collect();
            let source = applicant.id.strip_prefix("path:").unwrap_or(&applicant.id);
            if grants.is_empty() {
                return format!("answer with: pi install {source}");
            }
            format!("answer with: pi install {source}, or {}", allow_command(&applicant.id, &grants))
        };
        let (mut grants, note) = match record.map(|record| (record, record.standing(present))) {
            None => (Vec::new(), None),
            Some((record, AnswerValidity::Holds)) => (record.grants(), None),
            Some((record, AnswerValidity::Widened(wider))) if present.local => {
                let note = format!("it requests more than it was granted ({}); {}", more(&wider), ask(&wider));
                (record.grants(), Some(note))
            }
            Some((_, AnswerValidity::Widened(wider))) => {
                let note = format!(
                    "it requests more than it was granted ({}), so its grants are void; {}",
                    more(&wider),
                    ask(&applicant.asked.capabilities)
                );
                (Vec::new(), Some(note))
            }
            Some((_, AnswerValidity::Changed)) => {
                let ask = ask(&applicant.asked.capabilities);
                (Vec::new(), Some(format!("its code has changed since you answered; {ask}")))
            }
        };
        if named || (record.is_none() && self.policy.mode != Mode::Strict) {
            let found: Vec<Capability> =
                applicant.found.capabilities.iter().map(|request| request.capability.clone()).collect();
            grants.extend(Grant::for_named_file(&found));
        }
        grants.extend(self.allowed.iter().cloned());
        ExtensionGrants { grants, never: record.map(PackageRecord::never).unwrap_or_default(), note }
    }
}

impl UserDecisions {
    /// Lists the requests of an extension beyond its grants, without those that the user or the policy denied permanently.
    pub fn wanted(&self, applicant: &PackageRequest, grants: &[Grant], never: &[Grant]) -> Vec<CapabilityRequest> {
        let of = |grant: &Grant| CapabilityRequest {
            capability: grant.capability.clone(),
            methods: grant.methods.clone(),
            scope: grant.scope.clone(),
        };
        let held = CapabilityManifest { capabilities: grants.iter().map(of).collect(), ..applicant.asked.clone() };
        let mut more = widening(&held, &applicant.asked);
        more.retain(|request| !refuses(never, request) && !self.policy.deny_caps.contains(&request.capability));
        more
    }

    /// Returns the grants and refusals of a local extension before its code is known: those of its record, and `--allow`. They
    /// decide which files its build reads.
    pub fn before_build(&self, record: Option<&PackageRecord>) -> (Vec<Grant>, Vec<Grant>) {
        let mut grants = record.map(PackageRecord::grants).unwrap_or_default();
        grants.extend(self.allowed.iter().cloned());
        grants.retain(|grant| grant.capability.as_str() == "read");
        (grants, record.map(PackageRecord::never).unwrap_or_default())
    }

    /// Returns the grants whose scopes can be parsed. An unreadable scope of a package grants nothing, with a note, instead of
    /// ending the run; one of the command line is an error.
    pub fn readable(&self, gate: &Gate, profile: &Profile, grants: Vec<Grant>) -> (Vec<Grant>, Vec<String>) {
        let mut notes = Vec::new();
        let mut is_readable = |grant: &Grant| match gate.check(profile, grant) {
            Err(error) if !self.allowed.contains(grant) && guard!(GrantsReadable) => {
                let capability = &grant.capability;
                let extension = &profile.extension;
                notes.push(format!("{extension}: its grants of {capability} are ignored: {error}"));
                false
            }
            _ => true,
        };
        let readable = grants.into_iter().filter(&mut is_readable).collect();
        (readable, notes)
    }
}

/// Grants of an extension in a session.
pub struct ExtensionGrants {
    /// Grants that are in effect without a question.
    pub grants: Vec<Grant>,
    /// Requests that the user answered with *never*.
    pub never: Vec<Grant>,
    /// Reason why the extension has fewer grants than the user may expect.
    pub note: Option<String>,
}

fn settings(environment: &Environment) -> Result<ExtensionSettings> {
    let path = environment.dirs.agent_dir.join("settings.json");
    let text = match crate::settings::read_text(&path) {
        Ok(text) => text,
        Err(error) if is_missing(&error) => return Ok(ExtensionSettings::default()),
        Err(error) => return Err(UserError::failed(format!("{} cannot be read: {error}", path.display()))),
    };
    serde_json::from_str(&text).map_err(|error| {
        UserError::failed(format!("{}: {error}", path.display())).help("correct the file, or remove it")
    })
}

fn profile_of(settings: &ExtensionSettings) -> Result<PiProfile> {
    let name = settings.profile.as_deref().map(str::parse).transpose();
    let chosen = name.map_err(|error| UserError::failed(format!("extensionProfile of settings.json: {error}")))?;
    Ok(chosen.unwrap_or_default())
}

/// Reads the settings of compaction and retries over pi's defaults.
pub fn agent_settings_of(environment: &Environment, provider: ProviderOptions) -> SessionSettings {
    let path = environment.dirs.agent_dir.join("settings.json");
    let given = match crate::settings::read_text(&path) {
        // Errors of the file were reported when the policy was read.
        Ok(text) => serde_json::from_str::<serde_json::Map<String, Value>>(&text).unwrap_or_default(),
        Err(_) => serde_json::Map::new(),
    };
    agent_settings(SessionSettings { provider, ..SessionSettings::default() }, &given)
}

/// Applies pi's settings `compaction`, `retry`, `httpIdleTimeoutMs`, `steeringMode` and `followUpMode` to `base`.
pub fn agent_settings(base: SessionSettings, given: &serde_json::Map<String, Value>) -> SessionSettings {
    let of = |group: &str, key: &str| given.get(group).and_then(|group| group.get(key));
    let number = |group: &str, key: &str| of(group, key).and_then(Value::as_u64);
    let is = |group: &str| of(group, "enabled").and_then(Value::as_bool);
    let mut settings = base;
    let http = &mut settings.provider.http;
    let of_provider = |key: &str| of("retry", "provider").and_then(|group| group.get(key)).and_then(Value::as_u64);
    if let Some(most) = of_provider("maxRetries").and_then(|most| u32::try_from(most).ok()) {
        http.retries = most;
    }
    http.retry_after_cap = of_provider("maxRetryDelayMs").map_or(http.retry_after_cap, unless_zero);
    http.idle = given.get("httpIdleTimeoutMs").and_then(milliseconds).map_or(http.idle, unless_zero);
    let (compaction, retry) = (&mut settings.compaction, &mut settings.retry);
    compaction.enabled = is("compaction").unwrap_or(compaction.enabled);
    compaction.reserve_tokens = number("compaction", "reserveTokens").unwrap_or(compaction.reserve_tokens);
    compaction.keep_recent_tokens = number("compaction", "keepRecentTokens").unwrap_or(compaction.keep_recent_tokens);
    retry.enabled = is("retry").unwrap_or(retry.enabled);
    retry.base_delay_ms = number("retry", "baseDelayMs").unwrap_or(retry.base_delay_ms);
    let most = number("retry", "maxRetries").and_then(|most| u32::try_from(most).ok());
    retry.max_retries = most.unwrap_or(retry.max_retries);
    retry.max_delay_ms = number("retry", "maxAgentDelayMs").unwrap_or(retry.max_delay_ms);
    let takes_all = |key: &str| given.get(key).and_then(Value::as_str).map(|mode| mode == "all");
    settings.steer_all = takes_all("steeringMode").unwrap_or(settings.steer_all);
    settings.follow_up_all = takes_all("followUpMode").unwrap_or(settings.follow_up_all);
    settings
}

/// Parses a time of pi's settings: a number, also as text, or `disabled`.
fn milliseconds(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) if text.trim().eq_ignore_ascii_case("disabled") => Some(0),
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_u64(),
    }
}

/// Converts a limit in milliseconds, where 0 means none.
fn unless_zero(limit: u64) -> Duration {
    match limit {
        0 => Duration::MAX,
        limit => Duration::from_millis(limit),
    }
}

fn exists(capability: &str) -> bool {
    CAPABILITIES.iter().any(|(name, _)| *name == capability)
}

fn all_capabilities() -> String {
    CAPABILITIES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Fails for an unknown capability: a rule about it would have no effect.
fn must_exist(capability: &str) -> Result<()> {
    if exists(capability) || !guard!(PolicyReadable) {
        return Ok(());
    }
    let message = format!("{}: no such capability", clean(capability));
    let meant = similar_names(capability, CAPABILITIES.iter().map(|(name, _)| *name), str::to_owned);
    let meant = meant.map(|meant| format!("did you mean {meant}? ")).unwrap_or_default();
    Err(UserError::usage(message).help(format!("{meant}one of: {}", all_capabilities())))
}

/// Parses `CAP[:SCOPE]`; the capability decides whether the scope is a path pattern, a host, a program, a variable or a tool of
/// an MCP server.
pub fn parse_grant(text: &str) -> Result<Grant> {
    let (capability, scope) = match text.split_once(':') {
        Some((capability, scope)) => (capability, Some(scope)),
        None => (text, None),
    };
    if capability.is_empty() {
        return Err(UserError::usage(format!("{text:?}: a capability is missing")).help("write exec:git"));
    }
    must_exist(capability)?;
    let id = text;
    let Some(scope) = scope else {
        return Ok(Grant::any(id, capability));
    };
    let one = || Some(vec![scope.to_owned()]);
    let scope = match capability {
        "read" | "write" => Scope { paths: one(), ..Scope::default() },
        "http" => Scope { hosts: one(), ..Scope::default() },
        "exec" => Scope { commands: one(), ..Scope::default() },
        "env" => Scope { env: one(), ..Scope::default() },
        "mcp" => Scope { tools: one(), ..Scope::default() },
        other => {
            return Err(UserError::usage(format!("{text:?}: {other} takes no scope")).help(format!("write {other}")));
        }
    };
    Ok(Grant::scoped(id, capability, scope))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_parsed_by_capability() {
        let grant = parse_grant("exec:git status").expect("well-formed");
        assert_eq!(grant.scope.expect("scoped").commands, Some(vec!["git status".to_owned()]));
        let grant = parse_grant("http:api.github.com:8443").expect("well-formed");
        assert_eq!(grant.scope.expect("scoped").hosts, Some(vec!["api.github.com:8443".to_owned()]));
        assert_eq!(parse_grant("write").expect("well-formed").scope, None);
        assert!(parse_grant(":x").is_err() && parse_grant("ui:x").is_err());
    }

    #[test]
    fn pi_s_list_of_extensions_is_not_a_policy() {
        let settings: ExtensionSettings =
            serde_json::from_str(r#"{"extensions": ["./a.ts"], "theme": "dark"}"#).expect("valid");
        assert!(matches!(settings.extensions, ExtensionsMember::Other));
        let settings: ExtensionSettings = serde_json::from_str(
            r#"{"extensions": {"policy": {"mode": "strict", "max_memory_mb": 64, "max_turn_ms": 900, "deny_caps": ["exec"]}}}"#,
        )
        .expect("valid");
        let ExtensionsMember::Policy { policy } = settings.extensions else { panic!("a policy") };
        assert_eq!(policy.policy.mode, Mode::Strict);
        assert_eq!((policy.max_memory_mb, policy.max_turn_ms), (Some(64), Some(900)));
        for bad in [
            r#"{"mode": "strcit"}"#,
            r#"{"mode": "strict", "deny_caps": "exec"}"#,
            r#"{"mode": "strict", "max_turn_ms": "900"}"#,
            r#"{"mode": "strict", "deny_cap": ["exec"]}"#,
            r#"{"mode": "strict", "deny_caps": ["exce"]}"#,
            r#"["strict"]"#,
        ] {
            let read = serde_json::from_str::<ExtensionSettings>(&format!(r#"{{"extensions": {{"policy": {bad}}}}}"#));
            assert!(read.is_err_and(|error| error.to_string().contains("extensions.policy")), "{bad}");
        }
    }
}
