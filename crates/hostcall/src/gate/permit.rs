//! What a connector asks about the things it resolves.

use super::case::{Allowed, Case, Refusal};
use super::servers::Place;
use super::{Authority, CompiledGrant, Gate, Listening, Reason};
use crate::connector::Profile;
use crate::derive::Access;
use crate::places::Places;
use crate::policy::Mode;
use crate::scope::{Command, CompiledScope};
use crate::variables::{Effect, Variable};
use crate::vocabulary::is_free_variable;
use pijs_protocol::{ExtensionId, Method, guard};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

/// What a caller may touch.
///
/// A connector asks it about everything that resolution brings up and that the call itself did
/// not name: where a link led, where a redirect points, which file a program's name stands for.
#[derive(Clone)]
pub struct Permit {
    pub(super) gate: Gate,
    pub(super) profile: Arc<Profile>,
    pub(super) authority: Arc<Authority>,
    pub(super) method: Method,
    /// What a person allowed for this call alone.
    pub(super) once: Vec<CompiledGrant>,
    /// How far a call of the model is bound by it.
    pub(super) model: Option<ModelCall>,
    /// Permits of others that are behind the same call: each of them has to agree.
    pub(super) also: Vec<Permit>,
}

/// A call of the model that an extension is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelCall {
    /// Carried out as a call of the extension.
    Bound,
    /// Wanted by the model after a message of the extension: it works where the model works, on mounted file systems too.
    Led,
    /// As [`ModelCall::Led`], where nobody can be asked and the policy lets pass what a person would be asked about.
    LedUnasked,
}

impl Permit {
    pub(super) fn case(&self) -> Case<'_> {
        Case { inner: &self.gate.inner, profile: &self.profile, authority: &self.authority, method: &self.method }
    }

    fn check(
        &self,
        verdict: Result<Allowed, Refusal>,
        capability: &str,
        once: impl Fn(&CompiledScope) -> bool,
    ) -> Result<(), Reason> {
        // What was allowed of something else says nothing here: a scope that is about programs names no paths.
        let is_of_it = |grant: &&CompiledGrant| grant.capability.as_str() == capability || !guard!(GateOnce);
        let allowed_once = || self.once.iter().filter(is_of_it).any(|grant| once(&grant.scope));
        match verdict {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.reason.can_be_asked() && (self.passes_unasked() || allowed_once()) => Ok(()),
            Err(refusal) => Err(refusal.reason),
        }
    }

    /// Whether what a person would be asked about is allowed.
    pub(super) fn passes_unasked(&self) -> bool {
        self.model == Some(ModelCall::LedUnasked)
    }

    /// Sets how far a call of the model is bound by this permit.
    #[must_use]
    pub fn of_model(self, call: ModelCall) -> Self {
        Self { model: Some(call), ..self }
    }

    /// Adds what a person allowed for the same call alone.
    #[must_use]
    pub fn with_once_of(mut self, other: Self) -> Self {
        self.once.extend(other.once);
        self
    }

    /// Adds the permit of another extension that is behind the same call.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.also.push(other);
        self
    }

    /// Whether `access` is allowed at an absolute path that was reached without following links.
    pub fn path(&self, access: Access, path: &Path) -> Result<(), Reason> {
        self.also.iter().try_for_each(|permit| permit.path(access, path))?;
        if access == Access::Look && self.case().is_behind_a_program(path) {
            return Ok(());
        }
        self.check(self.case().path(access, path), access.capability(), |scope| scope.path(path))
    }

    /// Whether at a place that is open for [`Access::Make`] nothing may be touched that is there already. Who makes
    /// something there does it exclusively, and says so with [`Permit::made`].
    pub fn only_new(&self, path: &Path) -> bool {
        self.places().session_folder_of(path).is_some()
            && self.path(Access::Write, path).is_err()
            && guard!(GateCreateOnly)
    }

    /// Whether the session may become that of a file. What is in it every extension sees, and what is said from then on is
    /// written there: it was the session's before, or its name says that it is one and its content may be read and written.
    pub fn session(&self, file: &Path) -> Result<(), Reason> {
        if self.gate.inner.sessions.is_known(file) || !guard!(GateSwitch) {
            return Ok(());
        }
        if file.extension().is_none_or(|ending| ending != "jsonl") {
            return Err(Reason::Scope);
        }
        self.path(Access::Read, file).and_then(|()| self.path(Access::Write, file))
    }

    /// Notes that something was made where nothing was.
    pub fn made(&self, path: &Path) {
        self.gate.inner.sessions.note_made(&self.profile.extension, path);
    }

    /// Notes that the extension listens at a socket in the file system, for as long as what this gives is kept.
    pub fn listens_at(&self, socket: &Path) -> Listening {
        Listening::new(self.gate.clone(), self.profile.extension.clone(), Place::Socket(socket.to_owned()))
    }

    /// Notes that the content of a file is read, by the name it really has: a link may have another.
    pub fn reads_content(&self, real: &Path) {
        self.also.iter().for_each(|permit| permit.reads_content(real));
        if matches!(self.model, Some(ModelCall::Led | ModelCall::LedUnasked)) {
            return;
        }
        self.gate.note_read(&self.profile.extension, &real.to_string_lossy());
    }

    /// Notes that the extension listens at an address, for as long as what this gives is kept.
    pub fn listens(&self, address: SocketAddr) -> Listening {
        Listening::new(self.gate.clone(), self.profile.extension.clone(), Place::Address(address))
    }

    /// Whether the extension itself listens at this address.
    pub fn is_own_server(&self, address: SocketAddr) -> bool {
        self.gate.inner.servers.is_own(&self.profile.extension, Place::Address(address))
    }

    /// Whether a server may be talked to.
    pub fn host(&self, scheme: &str, host: &str, port: u16) -> Result<(), Reason> {
        if self.case().is_own_server(host, port) {
            return Ok(());
        }
        let covers = |scope: &CompiledScope| scope.host(scheme, host, port);
        if !self.case().nevers_about("http", covers).is_empty() {
            return Err(Reason::User);
        }
        self.check(self.case().by_grant("http", covers), "http", covers)
    }

    /// Whether any bytes may be sent to a server, not only HTTP requests. Permissive mode takes every connection so.
    pub fn sends_raw(&self, host: &str, port: u16) -> bool {
        let raw = |grant: &CompiledGrant| grant.capability.as_str() == "http" && grant.scope.raw_host(host, port);
        self.gate.inner.policy.mode == Mode::Permissive
            || self.authority.grants.iter().chain(&self.authority.defaults).any(raw)
            || self.once.iter().any(raw)
    }

    /// Whether the user named this very address and port, as an address that is not public needs.
    pub fn names_address(&self, address: IpAddr, port: u16) -> bool {
        let named =
            |grant: &CompiledGrant| grant.capability.as_str() == "http" && grant.scope.names_address(address, port);
        self.authority.grants.iter().any(named) || self.once.iter().any(named)
    }

    /// Whether the user named `localhost` with this very port. The name stands for this machine and nothing else
    /// (RFC 6761), so it is as good as an address.
    pub fn names_localhost(&self, port: u16) -> bool {
        let named = |grant: &CompiledGrant| grant.capability.as_str() == "http" && grant.scope.names_localhost(port);
        self.authority.grants.iter().any(named) || self.once.iter().any(named)
    }

    /// Whether the program's whole path is named, as one inside a folder that extensions can
    /// write must be. Permissive mode takes every program as named.
    pub fn names_program(&self, program: &Path) -> bool {
        let project = &self.places().project;
        let named =
            |grant: &CompiledGrant| grant.capability.as_str() == "exec" && grant.scope.names_program(program, project);
        self.gate.inner.policy.mode == Mode::Permissive
            || self.authority.grants.iter().any(named)
            || self.once.iter().any(named)
    }

    /// Whether a program with these arguments may run whatever they make it do. A grant of its bare name covers its plain
    /// uses and no more; permissive mode takes every use as meant.
    pub fn means_program(&self, command: &str, args: &[&str]) -> bool {
        let means =
            |grant: &CompiledGrant| grant.capability.as_str() == "exec" && grant.scope.means_command(command, args);
        self.gate.inner.policy.mode == Mode::Permissive
            || self.authority.grants.iter().chain(&self.authority.defaults).any(means)
            || self.once.iter().any(means)
    }

    /// Whether a grant covers every use of a program, whatever its arguments, and the configuration that it finds, make run.
    pub fn covers_every_use(&self, command: &str, args: &[&str]) -> bool {
        let covers =
            |grant: &CompiledGrant| grant.capability.as_str() == "exec" && grant.scope.covers_every_use(command, args);
        self.gate.inner.policy.mode == Mode::Permissive
            || self.authority.grants.iter().chain(&self.authority.defaults).any(covers)
            || self.once.iter().any(covers)
    }

    /// Whether a program may run in a folder that the folder of the call has turned out to be.
    pub fn runs_in(&self, command: &Command<'_>) -> bool {
        let given = self.case().without_own_index(command.program, command.args, command.given);
        let command = Command { given: &given, ..*command };
        self.case().by_grant("exec", |scope| scope.command(&command)).is_ok()
            || self.once.iter().any(|grant| grant.capability.as_str() == "exec" && grant.scope.command(&command))
    }

    /// Whether a search path that a program is given is the host's own, with folders added that are left out.
    pub fn keeps_search_path(&self, value: &str) -> bool {
        let host = &self.gate.inner.host;
        host.has("PATH", value) && !host.is_search_path(value)
    }

    /// Whether a program may be given a variable.
    pub fn variable(&self, command: &Command<'_>, variable: &Variable<'_>) -> Result<(), Reason> {
        let is_own = self.gate.inner.host.has(variable.name, variable.value);
        if variable.effect == Effect::Harmless
            || is_own
            || self.case().is_own_index(command.program, command.args, variable)
        {
            return Ok(());
        }
        let covers = |scope: &CompiledScope| scope.variable(command, variable);
        self.check(self.case().by_grant("exec", covers), "exec", covers)
    }

    /// Whether the extension may run a program for its name alone, and write the file that the name leads to: then the name
    /// says nothing about what runs. Who may run or write anything needs no such detour.
    pub fn may_have_written(&self, program: &Path) -> bool {
        let grants = |capability: &'static str| {
            self.authority.grants.iter().filter(move |grant| grant.capability.as_str() == capability)
        };
        self.gate.inner.policy.mode != Mode::Permissive
            && grants("exec").all(|grant| grant.scope.has_commands())
            && grants("write").any(|grant| grant.scope.has_paths() && grant.scope.path(program))
    }

    /// Whether an environment variable may be read.
    pub fn env(&self, name: &str) -> Result<(), Reason> {
        if is_free_variable(name) {
            return Ok(());
        }
        let covers = |scope: &CompiledScope| scope.env(name);
        if !self.case().nevers_about("env", covers).is_empty() {
            return Err(Reason::User);
        }
        self.check(self.case().by_grant("env", covers), "env", covers)
    }

    /// Whether file systems that are mounted inside the session's folders belong to them.
    pub fn crosses_mounts(&self) -> bool {
        let of_model = matches!(self.model, Some(ModelCall::Led | ModelCall::LedUnasked));
        (of_model || self.gate.inner.policy.mode == Mode::Permissive) && self.also.iter().all(Self::crosses_mounts)
    }

    /// The session's folders.
    pub fn places(&self) -> &Places {
        self.gate.places()
    }

    /// Whose permit it is.
    pub fn extension(&self) -> &ExtensionId {
        &self.profile.extension
    }

    /// Folder of the caller's package.
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
