//! Converts the command line to the configuration of a session.

use super::{PolicyMode, RunArgs, SessionArgs, ToolArgs};
use pijs_agent::ToolChoice;
use pijs_hostcall::Mode as GateMode;
use pijs_runtime::{
    ExtensionConfig, ModelConfig, Permissions, Result, RulesConfig, SessionChoice, SessionConfig, StoreConfig,
    UserError,
};

impl RunArgs {
    /// Returns the configuration of the session.
    ///
    /// # Errors
    ///
    /// Fails for options that are mutually exclusive.
    pub(crate) fn config(&self) -> Result<SessionConfig> {
        Ok(SessionConfig {
            extensions: ExtensionConfig {
                named: self.extensions.clone(),
                only_named: self.no_extensions,
                fail_on_error: self.fail_on_extension_error,
            },
            resources: self.resources.options(),
            no_context_files: self.resources.no_context_files,
            permissions: Permissions {
                mode: self.policy.map(Into::into),
                allow: self.allow.clone(),
                deny: self.deny.clone(),
                accept_unsealed: self.accept_unsealed,
            },
            isolation: self.isolation,
            tape: self.tape.clone(),
            profile: self.profile,
            store: self.session.config()?,
            model: ModelConfig {
                name: self.model.clone(),
                provider: self.provider.clone(),
                thinking: self.thinking.clone(),
                api_key: self.api_key.clone(),
                scope: self.models.clone(),
                base_url: self.base_url.clone(),
            },
            system_prompt: self.system_prompt.clone(),
            append_system_prompt: self.append_system_prompt.clone(),
            tools: self.tools.choice(),
            rules: RulesConfig {
                enabled: (self.rules.rules || self.rules.no_rules).then_some(!self.rules.no_rules),
                from: self.rules.rules_from.clone(),
            },
            no_mcp: self.no_mcp,
        })
    }
}

impl From<PolicyMode> for GateMode {
    fn from(mode: PolicyMode) -> Self {
        match mode {
            PolicyMode::Strict => Self::Strict,
            PolicyMode::Prompt => Self::Prompt,
            PolicyMode::Permissive => Self::Permissive,
        }
    }
}

impl ToolArgs {
    fn choice(&self) -> ToolChoice {
        let names = |list: &String| -> Vec<String> {
            list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        ToolChoice {
            only: self.tools.as_ref().map(names).or_else(|| self.no_tools.then(Vec::new)),
            without: self.exclude_tools.as_ref().map(names).unwrap_or_default(),
            builtin: self.no_builtin_tools.then(Vec::new),
        }
    }
}

impl SessionArgs {
    fn config(&self) -> Result<StoreConfig> {
        self.check()?;
        let choice = match (&self.fork, &self.session) {
            _ if self.no_session => SessionChoice::InMemory,
            (Some(name), _) => SessionChoice::ForkOf(name.clone()),
            (None, Some(name)) => SessionChoice::Named(name.clone()),
            (None, None) if self.continue_session => SessionChoice::Latest,
            (None, None) => SessionChoice::New,
        };
        let (id, dir, name) = (self.session_id.clone(), self.session_dir.clone(), self.name.clone());
        Ok(StoreConfig { choice, id, dir, name })
    }

    /// Refuses options that are mutually exclusive.
    fn check(&self) -> Result<()> {
        let given = [
            ("--session", self.session.is_some()),
            ("--continue", self.continue_session),
            ("--resume", self.resume),
            ("--no-session", self.no_session),
        ];
        let beside = |most: usize| {
            given[..most].iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
        };
        let conflict = |name: &str, others: String| match others.is_empty() {
            true => Ok(()),
            false => Err(UserError::usage(format!("{name} cannot be combined with {others}"))),
        };
        if self.fork.is_some() {
            conflict("--fork", beside(4))?;
        }
        if self.session_id.is_some() {
            conflict("--session-id", beside(3))?;
        }
        Ok(())
    }
}
