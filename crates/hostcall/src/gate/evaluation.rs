//! Evaluates one call against the rules of the gate.

use super::listeners::ListenAddress;
use super::{Authority, GateGrant, GateInner, Never};
use crate::caller::Profile;
use crate::decision::{Decision, Reason, Rule};
use crate::places::{Protection, normal};
use crate::policy::Mode;
use crate::risk::ExpectedLoss;
use crate::scope::{Command, CompiledScope};
use crate::subject::{Access, PathForm, PathUse, ProgramContext, Required, Subject};
use crate::variables::{Variable, VariableEffect};
use crate::vocabulary::{FREE, is_free_variable};
use pijs_programs as programs;
use pijs_protocol::{Capability, HostcallError, guard};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// Folders of the system's programs.
const PROGRAM_FOLDERS: &[&str] =
    &["/bin", "/opt/homebrew/bin", "/sbin", "/usr/bin", "/usr/local/bin", "/usr/local/sbin", "/usr/sbin"];

/// The rule that allows a subject.
pub(super) enum AllowedBy {
    Free,
    Handle,
    Grant(Arc<str>),
    /// The extension created the file, and it is unchanged.
    Made,
    Default(Arc<str>),
    Permissive,
}

/// The rule that refuses a subject.
#[derive(Debug, Clone, Copy)]
pub(super) struct Denial {
    pub(super) reason: Reason,
    pub(super) rule: Rule,
}

impl Denial {
    const NEVER: Self = Self { reason: Reason::User, rule: Rule::Never };
}

/// One call under evaluation.
pub(super) struct Evaluation<'a> {
    pub(super) inner: &'a GateInner,
    pub(super) profile: &'a Profile,
    pub(super) authority: &'a Authority,
    pub(super) method: &'a str,
}

impl Evaluation<'_> {
    pub(super) fn decide(&self, required: &Required<'_>) -> Result<Result<AllowedBy, Denial>, HostcallError> {
        let capability = required.capability;
        if let Some(refusal) = self.denied_outright(capability) {
            return Ok(Err(refusal));
        }
        // Denials of paths are checked with each path.
        if !matches!(required.subject, Subject::Paths(..)) && !self.permanent_denials(required)?.is_empty() {
            return Ok(Err(Denial::NEVER));
        }
        Ok(match &required.subject {
            Subject::Handle => Ok(AllowedBy::Handle),
            Subject::None | Subject::Code { .. } => self.plain(capability),
            Subject::Tool(name) => self.by_grant(capability, |scope| scope.tool(name) || !guard!(GateNamedTool)),
            Subject::Mcp { target, .. } => self.by_grant(capability, |scope| scope.mcp(target) || !guard!(McpScope)),
            Subject::Paths(first, second) => {
                let mut verdict = self.path_use(*first)?;
                if let (Ok(_), Some(second)) = (&verdict, second) {
                    verdict = self.path_use(*second)?;
                }
                verdict
            }
            Subject::Program { command, args, cwd, given } => {
                let folder = match cwd {
                    Some(cwd) => self.inner.places.node_path(cwd)?,
                    None => self.inner.places.project.clone(),
                };
                let given = self.without_own_index(command, args, given);
                let command = Command { program: command, args, folder: &folder, given: &given };
                let verdict = self.by_grant(capability, |scope| scope.command(&command));
                match (verdict, cwd) {
                    (Ok(allowed), Some(cwd)) => {
                        let at = PathUse { access: Access::Read, path: cwd, form: PathForm::Node };
                        self.path_use(at)?.map(|_| allowed)
                    }
                    (verdict, _) => verdict,
                }
            }
            Subject::Host { host, port, .. } if self.is_own_server(host, *port) => Ok(AllowedBy::Free),
            Subject::Host { scheme, host, port } => {
                let verdict = self.by_grant(capability, |scope| scope.host(scheme, host, *port));
                // A persistent connection may reach the extension's own server; the connector knows its address.
                let is_near = !matches!(self.method, "net" | "websocket") && crate::scope::is_near(host);
                let unnamed = || self.by_grant(capability, |scope| scope.names(host, *port)).is_err();
                match verdict {
                    Ok(_) if is_near && unnamed() => {
                        Err(Denial { reason: Reason::BlockedAddress, rule: Rule::OutOfScope })
                    }
                    verdict => verdict,
                }
            }
            Subject::Names(names) => {
                let asked: Vec<&&str> = names.iter().filter(|name| !is_free_variable(name)).collect();
                if asked.is_empty() {
                    Ok(AllowedBy::Free)
                } else {
                    self.by_grant(capability, |scope| asked.iter().all(|name| scope.env(name)))
                }
            }
        })
    }

    /// Returns the environment without a variable that names a git index in a folder that the caller may write: git replaces that
    /// file.
    pub(super) fn without_own_index<'g>(
        &self,
        command: &str,
        args: &[&str],
        given: &ProgramContext<'g>,
    ) -> ProgramContext<'g> {
        let mut given = given.clone();
        for variable in &mut given.variables {
            if self.is_own_index(command, args, variable) {
                variable.effect = VariableEffect::Harmless;
            }
        }
        given
    }

    /// Returns whether a variable names a git index that the caller may write anyway, for a git command that does not extract
    /// files from it. Extraction is excluded because git writes to any path that an index names.
    pub(super) fn is_own_index(&self, command: &str, args: &[&str], variable: &Variable<'_>) -> bool {
        if !programs::leaves_work_tree(args) && guard!(ExecIndex) {
            return false;
        }
        let path = Path::new(variable.value);
        let (Some(folder), Some(file), "GIT_INDEX_FILE") = (path.parent(), path.file_name(), variable.name) else {
            return false;
        };
        let Ok(folder) = std::fs::canonicalize(folder) else { return false };
        let may_write = |path: &Path| self.path(Access::Write, path).is_ok();
        programs::name_of(command) == "git"
            && path.is_absolute()
            && may_write(&normal(path, Path::new("")))
            && may_write(&folder.join(file))
    }

    /// Returns whether the extension itself listens at this address.
    pub(super) fn is_own_server(&self, host: &str, port: u16) -> bool {
        let place = |address| ListenAddress::Address(SocketAddr::new(address, port));
        let is_own = |address| self.inner.listeners.is_own(&self.profile.extension, place(address));
        crate::scope::literal(host).is_some_and(is_own)
    }

    /// Returns the refusal of a whole capability, by the policy or by a permanent denial.
    pub(super) fn denied_outright(&self, capability: &str) -> Option<Denial> {
        if !guard!(GateDenyList) {
            return None;
        }
        let is_it = |denied: &Capability| denied.as_str() == capability;
        if self.inner.policy.deny_caps.iter().any(is_it) {
            return Some(Denial { reason: Reason::Policy, rule: Rule::DenyList });
        }
        let refused = self.authority.never.iter().any(|never| never.scope.is_none() && is_it(&never.capability));
        refused.then_some(Denial::NEVER)
    }

    /// Returns the permanent denials that apply to a call.
    pub(super) fn permanent_denials(&self, required: &Required<'_>) -> Result<Vec<&Never>, HostcallError> {
        let of_scope = |covers: &dyn Fn(&CompiledScope) -> bool| self.permanent_denials_of(required.capability, covers);
        Ok(match &required.subject {
            Subject::Paths(first, second) => {
                let mut found = Vec::new();
                for used in std::iter::once(first).chain(second) {
                    found.extend(self.permanent_denials_at(used.access, &self.inner.places.absolute(*used)?));
                }
                found
            }
            Subject::Program { command, args, cwd, given } => {
                let folder = match cwd {
                    Some(cwd) => self.inner.places.node_path(cwd)?,
                    None => self.inner.places.project.clone(),
                };
                let command = Command { program: command, args, folder: &folder, given };
                of_scope(&|scope| scope.refuses_command(&command))
            }
            Subject::Host { host, port, .. } if self.is_own_server(host, *port) => Vec::new(),
            Subject::Host { scheme, host, port } => of_scope(&|scope| scope.host(scheme, host, *port)),
            Subject::Names(names) => {
                of_scope(&|scope| names.iter().any(|name| !is_free_variable(name) && scope.env(name)))
            }
            Subject::Tool(name) => of_scope(&|scope| scope.tool(name)),
            Subject::Mcp { target, .. } => of_scope(&|scope| scope.mcp(target)),
            Subject::None | Subject::Handle | Subject::Code { .. } => of_scope(&|_| false),
        })
    }

    /// Returns the permanent denials of a capability whose scope matches.
    pub(super) fn permanent_denials_of(
        &self,
        capability: &str,
        covers: impl Fn(&CompiledScope) -> bool,
    ) -> Vec<&Never> {
        if !guard!(GateDenyList) {
            return Vec::new();
        }
        let all = self.authority.never.iter().filter(|never| never.capability.as_str() == capability);
        all.filter(|never| never.scope.as_ref().is_none_or(&covers)).collect()
    }

    /// Returns the permanent denials that apply to a path.
    pub(super) fn permanent_denials_at(&self, access: Access, path: &Path) -> Vec<&Never> {
        let all = self.authority.never.iter().filter(|never| never.capability.as_str() == access.capability());
        let is_otherwise_allowed =
            |path: &Path| self.path_by_grants(access, path).is_ok() || self.reads_own(access, path);
        let stands_against = |never: &&Never| {
            let Some(scope) = &never.scope else { return true };
            scope.patterns_at(path).any(|folder| match folder {
                Some(folder) if folder != path => is_otherwise_allowed(folder) || !is_otherwise_allowed(path),
                _ => true,
            })
        };
        if guard!(GateDenyList) { all.filter(stands_against).collect() } else { Vec::new() }
    }

    fn plain(&self, capability: &str) -> Result<AllowedBy, Denial> {
        if FREE.contains(&capability) { Ok(AllowedBy::Free) } else { self.by_grant(capability, |_| true) }
    }

    fn path_use(&self, used: PathUse<'_>) -> Result<Result<AllowedBy, Denial>, HostcallError> {
        let path = self.inner.places.absolute(used)?;
        Ok(self.path(used.access, &path))
    }

    pub(super) fn path(&self, access: Access, path: &Path) -> Result<AllowedBy, Denial> {
        match self.path_without_made(access, path) {
            Err(refusal)
                if matches!(refusal.reason, Reason::NoGrant | Reason::Scope) && self.reads_own(access, path) =>
            {
                Ok(AllowedBy::Made)
            }
            verdict => verdict,
        }
    }

    pub(super) fn path_without_made(&self, access: Access, path: &Path) -> Result<AllowedBy, Denial> {
        if let Some(refusal) = self.denied_outright(access.capability()) {
            return Err(refusal);
        }
        if !self.permanent_denials_at(access, path).is_empty() {
            return Err(Denial::NEVER);
        }
        self.path_by_grants(access, path)
    }

    fn path_by_grants(&self, access: Access, path: &Path) -> Result<AllowedBy, Denial> {
        let own = self.profile.own_folder(path);
        let own = own.as_deref();
        let mut protection = self.session_protection(access, path, self.inner.places.protection(path, own));
        let is_own_data = protection == Protection::Write
            && self.inner.places.is_own_data(path, access, self.profile.package_root.as_deref());
        if is_own_data {
            protection = Protection::None;
        }
        let is_written = matches!(access, Access::Write | Access::Make);
        if protection == Protection::None && is_written && self.inner.code.is_others(access, path, self.profile) {
            protection = Protection::RunsLater;
        }
        match (protection, access) {
            (Protection::All, _) | (Protection::Write, Access::Write | Access::Speak | Access::Make)
                if guard!(GateProtected) =>
            {
                Err(Denial { reason: Reason::ProtectedPath, rule: Rule::Protected })
            }
            (_, Access::Read | Access::Look) if self.inner.places.reads_freely(path, own) => Ok(AllowedBy::Free),
            (_, Access::Speak) if !self.speaks_freely(path) && guard!(GateSocket) => self
                .by_grant(access.capability(), |scope| scope.names_path(path))
                .map_err(|_| Denial { reason: Reason::Scope, rule: Rule::OutOfScope }),
            (Protection::RunsLater, Access::Write | Access::Speak | Access::Make) if guard!(GateRunsLater) => self
                .by_grant(access.capability(), |scope| scope.names_path(path))
                .map_err(|_| Denial { reason: Reason::Scope, rule: Rule::RunsLater }),
            (_, Access::Write | Access::Make)
                if let Some(around) = self.inner.places.settings_around(path)
                    && !is_own_data
                    && guard!(GateHomeSettings) =>
            {
                self.by_grant(access.capability(), |scope| scope.names_settings(path, around))
                    .map_err(|_| Denial { reason: Reason::Scope, rule: Rule::RunsLater })
            }
            (_, Access::Look) => {
                let covers = |capability| self.by_grant(capability, |scope| scope.path(path));
                let read = covers("read").or_else(|no| self.program(path).ok_or(no));
                // Writing there would reveal the same information.
                let is_refused = || {
                    self.denied_outright("write").is_some()
                        || !self.permanent_denials_at(Access::Write, path).is_empty()
                };
                let writes = || covers("write").ok().filter(|_| !is_refused());
                read.or_else(|no| writes().ok_or(no))
            }
            _ => self.by_grant(access.capability(), |scope| scope.path(path)),
        }
    }

    /// Allows probing a program that the caller may run, because starting it would reveal the same information.
    fn program(&self, path: &Path) -> Option<AllowedBy> {
        let is_system =
            path.parent().is_some_and(|folder| PROGRAM_FOLDERS.iter().any(|known| folder == Path::new(known)));
        if !is_system || self.denied_outright("exec").is_some() {
            return None;
        }
        self.by_grant("exec", |scope| scope.names_or_covers(path)).ok()
    }

    /// Returns whether a path is the resolved target of a program that may be probed: `/usr/bin/python3` resolves to
    /// `/usr/bin/python3.11`.
    pub(super) fn is_behind_a_program(&self, path: &Path) -> bool {
        let folders = PROGRAM_FOLDERS.iter().chain(&["/etc/alternatives"]);
        let is_system = path.parent().is_some_and(|folder| folders.clone().any(|known| folder == Path::new(known)));
        is_system && self.denied_outright("exec").is_none() && self.by_grant("exec", |_| true).is_ok()
    }

    pub(super) fn by_grant(
        &self,
        capability: &str,
        covers: impl Fn(&CompiledScope) -> bool,
    ) -> Result<AllowedBy, Denial> {
        let mut held = false;
        let mut find = |grants: &[GateGrant]| {
            grants
                .iter()
                .filter(|grant| grant.capability.as_str() == capability)
                .inspect(|_| held = true)
                .filter(|grant| grant.serves(self.method))
                .find(|grant| covers(&grant.scope))
                .map(|grant| Arc::clone(&grant.id))
        };
        if let Some(grant) = find(&self.authority.grants) {
            return Ok(AllowedBy::Grant(grant));
        }
        if let Some(grant) = find(&self.authority.defaults) {
            return Ok(AllowedBy::Default(grant));
        }
        if self.inner.policy.mode == Mode::Permissive {
            return Ok(AllowedBy::Permissive);
        }
        let stands = if held { guard!(GateScope) } else { guard!(GateGrant) };
        if !stands {
            return Ok(AllowedBy::Permissive);
        }
        Err(if held {
            Denial { reason: Reason::Scope, rule: Rule::OutOfScope }
        } else {
            Denial { reason: Reason::NoGrant, rule: Rule::NoGrant }
        })
    }

    pub(super) fn allowed(&self, required: &Required<'_>, allowed: AllowedBy) -> Decision {
        let (rule, grant) = match allowed {
            AllowedBy::Free => (Rule::Free, None),
            AllowedBy::Handle => (Rule::Handle, None),
            AllowedBy::Grant(grant) => (Rule::Grant, Some(grant)),
            AllowedBy::Made => (Rule::Made, None),
            AllowedBy::Default(grant) => (Rule::Default, Some(grant)),
            AllowedBy::Permissive => (Rule::Permissive, None),
        };
        Decision { allowed: true, capability: required.capability, rule, grant, reason: None, loss: self.loss() }
    }

    pub(super) fn denied(&self, required: &Required<'_>, refusal: Denial) -> Decision {
        Decision {
            allowed: false,
            capability: required.capability,
            rule: refusal.rule,
            grant: None,
            reason: Some(refusal.reason),
            loss: self.loss(),
        }
    }

    pub(super) fn loss(&self) -> ExpectedLoss {
        self.authority.evidence.expected_loss()
    }
}

impl GateGrant {
    /// Returns whether a grant applies to a hostcall of this method. Capabilities without a hostcall have no method.
    fn serves(&self, method: &str) -> bool {
        let listed =
            self.methods.as_ref().is_none_or(|methods| method.is_empty() || methods.iter().any(|m| m == method));
        listed || !guard!(GateMethods)
    }
}
