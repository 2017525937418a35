//! Permits decide about subjects that connectors resolve.

use super::evaluation::{AllowedBy, Denial, Evaluation};
use super::listeners::ListenAddress;
use super::{Authority, Gate, GateGrant, Listening};
use crate::caller::Profile;
use crate::decision::Reason;
use crate::places::{Places, ProgramView};
use crate::policy::Mode;
use crate::scope::{Command, CompiledScope};
use crate::subject::Access;
use crate::variables::{Variable, VariableEffect};
use crate::vocabulary::is_free_variable;
use pijs_protocol::{ExtensionId, Method, guard};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

/// The authority of a caller during one call.
///
/// A connector asks the permit about every resolved subject that the call did not name: the target of a link, a redirect, the
/// file of a program's name.
#[derive(Clone)]
pub struct Permit {
    pub(super) gate: Gate,
    pub(super) profile: Arc<Profile>,
    pub(super) authority: Arc<Authority>,
    pub(super) method: Method,
    /// Grants of the user for this call only.
    pub(super) once: Vec<GateGrant>,
    /// The influence of an extension on a call of the model.
    pub(super) model: Option<ModelCall>,
    /// Permits of other extensions with influence on the same call; each of them has to allow the access.
    pub(super) also: Vec<Permit>,
}

/// Restrictions of a command in pi's own shell.
#[derive(Debug, Clone, Default)]
pub struct CommandLimits {
    /// Files that the command cannot access, and its environment.
    pub view: ProgramView,
    /// Permit of the extension that wrote the command, which is restricted like a program of that extension.
    pub author: Option<Permit>,
}

/// An extension's influence on a call of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelCall {
    /// The call runs with the authority of the extension.
    Bound,
    /// The model made the call after a message of the extension: the call may access the paths that the model may access, mounted
    /// file systems included.
    Led,
    /// Like [`ModelCall::Led`], but without a user to prompt; the policy allows calls that would prompt.
    LedUnasked,
}

impl Permit {
    pub(super) fn case(&self) -> Evaluation<'_> {
        Evaluation { inner: &self.gate.inner, profile: &self.profile, authority: &self.authority, method: &self.method }
    }

    fn check(
        &self,
        verdict: Result<AllowedBy, Denial>,
        capability: &str,
        once: impl Fn(&CompiledScope) -> bool,
    ) -> Result<(), Reason> {
        // A one-time grant for another capability does not apply: a scope of programs has no list of paths.
        let is_of_it = |grant: &&GateGrant| grant.capability.as_str() == capability || !guard!(GateOnce);
        let allowed_once = || self.once.iter().filter(is_of_it).any(|grant| once(&grant.scope));
        match verdict {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.reason.can_be_asked() && (self.passes_unasked() || allowed_once()) => Ok(()),
            Err(refusal) => Err(refusal.reason),
        }
    }

    /// Returns whether a call that would prompt is allowed without a prompt.
    pub(super) fn passes_unasked(&self) -> bool {
        self.model == Some(ModelCall::LedUnasked)
    }

    /// Sets the extension's influence on a call of the model.
    #[must_use]
    pub fn of_model(self, call: ModelCall) -> Self {
        Self { model: Some(call), ..self }
    }

    /// Adds the one-time grants of the same call.
    #[must_use]
    pub fn with_once_of(mut self, other: Self) -> Self {
        self.once.extend(other.once);
        self
    }

    /// Adds the permit of another extension with influence on the same call.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.also.push(other);
        self
    }

    /// Returns whether `access` is allowed at an absolute path that was resolved without following links.
    pub fn path(&self, access: Access, path: &Path) -> Result<(), Reason> {
        self.also.iter().try_for_each(|permit| permit.path(access, path))?;
        if access == Access::Look && self.case().is_behind_a_program(path) {
            return Ok(());
        }
        self.check(self.case().path(access, path), access.capability(), |scope| scope.path(path))
    }

    /// Returns whether [`Access::Make`] at a path must not touch an existing file. The connector then creates the file
    /// exclusively, and reports it with [`Permit::made`].
    pub fn only_new(&self, path: &Path) -> bool {
        self.places().session_folder_of(path).is_some()
            && self.path(Access::Write, path).is_err()
            && guard!(GateCreateOnly)
    }

    /// Returns whether what is written to a path runs or configures programs later, so that a grant has to name it: a part of the
    /// home that holds settings, or code of another extension.
    pub fn runs_later(&self, path: &Path) -> bool {
        let inner = &self.gate.inner;
        inner.places.is_in_settings(path) || inner.code.is_others(Access::Make, path, &self.profile)
    }

    /// Returns whether the session may switch to a file. Every extension sees its content, and later entries are written there.
    /// So the file must have been the session's file before, or have the name of a session and be readable and writable by the
    /// caller.
    pub fn session(&self, file: &Path) -> Result<(), Reason> {
        if self.gate.inner.sessions.is_known(file) || !guard!(GateSwitch) {
            return Ok(());
        }
        if file.extension().is_none_or(|ending| ending != "jsonl") {
            return Err(Reason::Scope);
        }
        self.path(Access::Read, file).and_then(|()| self.path(Access::Write, file))
    }

    /// Records that the extension created a file.
    pub fn made(&self, path: &Path) {
        self.gate.inner.sessions.note_made(&self.profile.extension, path);
    }

    /// Registers a socket in the file system at which the extension listens, until the guard is dropped.
    pub fn listens_at(&self, socket: &Path) -> Listening {
        Listening::new(self.gate.clone(), self.profile.extension.clone(), ListenAddress::Socket(socket.to_owned()))
    }

    /// Records that the content of a file is read, by its real path, which may differ from the name of a link.
    pub fn reads_content(&self, real: &Path) {
        self.also.iter().for_each(|permit| permit.reads_content(real));
        if matches!(self.model, Some(ModelCall::Led | ModelCall::LedUnasked)) {
            return;
        }
        self.gate.note_read(&self.profile.extension, &real.to_string_lossy());
    }

    /// Records that any file of a folder may be read, for folders that are too large to check each file.
    pub fn reads_folder(&self, folder: &Path) {
        self.also.iter().for_each(|permit| permit.reads_folder(folder));
        if !matches!(self.model, Some(ModelCall::Led | ModelCall::LedUnasked)) {
            self.gate.note_secret(&self.profile.extension, &folder.to_string_lossy());
        }
    }

    /// Returns whether the extension has read a file that may hold secrets.
    pub fn has_read_secrets(&self) -> bool {
        self.gate.has_read_secrets(&self.profile.extension) && self.also.iter().all(Self::has_read_secrets)
    }

    /// Registers an address at which the extension listens, until the guard is dropped.
    pub fn listens(&self, address: SocketAddr) -> Listening {
        Listening::new(self.gate.clone(), self.profile.extension.clone(), ListenAddress::Address(address))
    }

    /// Returns whether the extension itself listens at this address.
    pub fn is_own_server(&self, address: SocketAddr) -> bool {
        self.gate.inner.listeners.is_own(&self.profile.extension, ListenAddress::Address(address))
    }

    /// Returns whether a server may be contacted.
    pub fn host(&self, scheme: &str, host: &str, port: u16) -> Result<(), Reason> {
        if self.case().is_own_server(host, port) {
            return Ok(());
        }
        let covers = |scope: &CompiledScope| scope.host(scheme, host, port);
        if !self.case().permanent_denials_of("http", covers).is_empty() {
            return Err(Reason::User);
        }
        self.check(self.case().by_grant("http", covers), "http", covers)
    }

    /// Returns whether arbitrary bytes may be sent to a server, not only HTTP requests. True for every connection in permissive
    /// mode.
    pub fn sends_raw(&self, host: &str, port: u16) -> bool {
        let raw = |grant: &GateGrant| grant.capability.as_str() == "http" && grant.scope.raw_host(host, port);
        self.gate.inner.policy.mode == Mode::Permissive
            || self.authority.grants.iter().chain(&self.authority.defaults).any(raw)
            || self.once.iter().any(raw)
    }

    /// Returns whether a grant names this address and port, which a private address requires.
    pub fn names_address(&self, address: IpAddr, port: u16) -> bool {
        let named = |grant: &GateGrant| grant.capability.as_str() == "http" && grant.scope.names_address(address, port);
        self.authority.grants.iter().any(named) || self.once.iter().any(named)
    }

    /// Returns whether a grant names `localhost` with this port. The name always resolves to this machine (RFC 6761), so it is
    /// treated like an address.
    pub fn names_localhost(&self, port: u16) -> bool {
        let named = |grant: &GateGrant| grant.capability.as_str() == "http" && grant.scope.names_localhost(port);
        self.authority.grants.iter().any(named) || self.once.iter().any(named)
    }

    /// Returns whether a grant names the program's full path, which a program in a folder that extensions may write requires.
    /// Always true in permissive mode.
    pub fn names_program(&self, program: &Path) -> bool {
        let project = &self.places().project;
        let named =
            |grant: &GateGrant| grant.capability.as_str() == "exec" && grant.scope.names_program(program, project);
        self.gate.inner.policy.mode == Mode::Permissive
            || self.authority.grants.iter().any(named)
            || self.once.iter().any(named)
    }

    /// Returns whether a program with these arguments may run other programs. A grant of a bare name covers its plain uses only;
    /// always true in permissive mode.
    pub fn means_program(&self, command: &str, args: &[&str]) -> bool {
        let means = |grant: &GateGrant| grant.capability.as_str() == "exec" && grant.scope.means_command(command, args);
        self.gate.inner.policy.mode == Mode::Permissive
            || self.authority.grants.iter().chain(&self.authority.defaults).any(means)
            || self.once.iter().any(means)
    }

    /// Returns whether a grant covers every use of a program, including programs that its arguments and its configuration start.
    pub fn covers_every_use(&self, command: &str, args: &[&str]) -> bool {
        let covers =
            |grant: &GateGrant| grant.capability.as_str() == "exec" && grant.scope.covers_every_use(command, args);
        self.gate.inner.policy.mode == Mode::Permissive
            || self.authority.grants.iter().chain(&self.authority.defaults).any(covers)
            || self.once.iter().any(covers)
    }

    /// Returns whether a grant covers a call by the name of the program alone, which for an interpreter means every use.
    pub fn names_program_alone(&self, command: &str, args: &[&str]) -> bool {
        let names =
            |grant: &GateGrant| grant.capability.as_str() == "exec" && grant.scope.names_program_alone(command, args);
        self.authority.grants.iter().chain(&self.authority.defaults).chain(&self.once).any(names)
    }

    /// Returns whether a program may run in its resolved working folder.
    pub fn runs_in(&self, command: &Command<'_>) -> bool {
        let given = self.case().without_own_index(command.program, command.args, command.given);
        let command = Command { given: &given, ..*command };
        self.case().by_grant("exec", |scope| scope.command(&command)).is_ok()
            || self.once.iter().any(|grant| grant.capability.as_str() == "exec" && grant.scope.command(&command))
    }

    /// Returns whether a `PATH` for a program is the host's own with additional folders, which are then removed.
    pub fn keeps_search_path(&self, value: &str) -> bool {
        let host = &self.gate.inner.host;
        host.has("PATH", value) && !host.is_search_path(value)
    }

    /// Returns whether a program may get a variable.
    pub fn variable(&self, command: &Command<'_>, variable: &Variable<'_>) -> Result<(), Reason> {
        let is_own = self.gate.inner.host.has(variable.name, variable.value);
        if variable.effect == VariableEffect::Harmless
            || is_own
            || self.case().is_own_index(command.program, command.args, variable)
        {
            return Ok(());
        }
        let covers = |scope: &CompiledScope| scope.variable(command, variable);
        self.check(self.case().by_grant("exec", covers), "exec", covers)
    }

    /// Returns whether the extension may run a program by its name, and may also write the file that the name resolves to: the
    /// name then does not determine the code that runs. An extension that may run or write anything is exempt.
    pub fn may_have_written(&self, program: &Path) -> bool {
        let grants = |capability: &'static str| {
            self.authority.grants.iter().filter(move |grant| grant.capability.as_str() == capability)
        };
        self.gate.inner.policy.mode != Mode::Permissive
            && grants("exec").all(|grant| grant.scope.has_commands())
            && grants("write").any(|grant| grant.scope.has_paths() && grant.scope.path(program))
    }

    /// Returns whether an environment variable may be read.
    pub fn env(&self, name: &str) -> Result<(), Reason> {
        if is_free_variable(name) {
            return Ok(());
        }
        let covers = |scope: &CompiledScope| scope.env(name);
        if !self.case().permanent_denials_of("env", covers).is_empty() {
            return Err(Reason::User);
        }
        self.check(self.case().by_grant("env", covers), "env", covers)
    }

    /// Returns whether file systems mounted inside the session's folders count as part of them.
    pub fn crosses_mounts(&self) -> bool {
        let of_model = matches!(self.model, Some(ModelCall::Led | ModelCall::LedUnasked));
        (of_model || self.gate.inner.policy.mode == Mode::Permissive) && self.also.iter().all(Self::crosses_mounts)
    }

    /// Returns the session's folders.
    pub fn places(&self) -> &Places {
        self.gate.places()
    }

    /// Returns the extension of the caller.
    pub fn extension(&self) -> &ExtensionId {
        &self.profile.extension
    }

    /// Returns the folder of the caller's package.
    pub fn package_root(&self) -> Option<&Path> {
        self.profile.package_root.as_deref()
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit").field("extension", &self.profile.extension).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "permit_tests.rs"]
mod tests;
