//! The capabilities that modules can use, with literal scopes.

use pijs_protocol::artifact::Offers;
use pijs_protocol::hostcall::Capability;
use pijs_protocol::manifest::{CAPABILITY_SCHEMA, CapabilityManifest, CapabilityRequest, Scope};
use std::collections::BTreeSet;

/// Scope of connections that carry more than HTTP requests. Their destination is rarely literal.
const RAW_ANYWHERE: &str = "tcp://*";

/// One capability whose scope is a list of strings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Scoped {
    /// Whether a use has no literal, so that the scope is unknown.
    open: bool,
    literals: BTreeSet<String>,
}

impl Scoped {
    /// Records a use, with its literal if there is one.
    pub(crate) fn see(&mut self, literal: Option<String>) {
        match literal {
            Some(literal) => {
                self.literals.insert(literal);
            }
            None => self.open = true,
        }
    }

    fn merge(&mut self, other: &Scoped) {
        self.open |= other.open;
        self.literals.extend(other.literals.iter().cloned());
    }

    fn is_used(&self) -> bool {
        self.open || !self.literals.is_empty()
    }

    /// Returns the literals, sorted, if every use has one.
    fn closed(&self) -> Option<Vec<String>> {
        (!self.open).then(|| self.literals.iter().cloned().collect())
    }
}

/// The uses in one or several modules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    pub(crate) read: Scoped,
    pub(crate) write: Scoped,
    pub(crate) exec: Scoped,
    pub(crate) network: NetworkUses,
    pub(crate) env: Scoped,
    /// Registered MCP servers, as patterns of their tools.
    pub(crate) servers: Scoped,
    /// Capabilities without a scope: `verdict`, `session.inject`, `tools`, ...
    pub(crate) plain: BTreeSet<&'static str>,
    pub(crate) answers: AnswerUses,
    pub(crate) compiled_text: CompiledText,
    pub(crate) offers: Offers,
    /// Whether the code creates tools like pi's own (`createBashTool`), which it may register under their names.
    pub(crate) makes_own_tools: bool,
}

/// Uses of the network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NetworkUses {
    pub(crate) http: Scoped,
    /// Whether the code opens connections of `net` or `tls`, which carry any bytes.
    pub(crate) connects: bool,
    /// Whether the code mentions socket classes, which servers and libraries do as well.
    pub(crate) has_sockets: bool,
}

impl NetworkUses {
    fn merge(&mut self, other: &Self) {
        self.http.merge(&other.http);
        self.connects |= other.connects;
        self.has_sockets |= other.has_sockets;
    }

    /// Returns the scope of the request: `None` without a use, `Some(None)` for any host.
    fn scope(&self) -> Option<Option<Scope>> {
        let sends_raw = self.connects || (self.has_sockets && self.http.is_used());
        if !self.http.is_used() && !sends_raw {
            return None;
        }
        let hosts = self.http.closed().filter(|_| self.http.is_used());
        let hosts = match sends_raw {
            false => hosts,
            true => {
                let mut hosts = hosts.unwrap_or_else(|| vec!["*".to_owned()]);
                hosts.push(RAW_ANYWHERE.to_owned());
                Some(hosts)
            }
        };
        Some(hosts.map(|hosts| Scope { hosts: Some(hosts), ..Scope::default() }))
    }
}

/// Events whose capabilities depend on their results, and the result strings in the code; they may be in different modules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AnswerUses {
    pub(crate) events: BTreeSet<&'static str>,
    pub(crate) words: BTreeSet<&'static str>,
}

impl AnswerUses {
    fn merge(&mut self, other: &Self) {
        self.events.extend(&other.events);
        self.words.extend(&other.words);
    }
}

/// Uses of compilers of text, which decide whether the capability `eval` is requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CompiledText {
    /// Whether the module compiles text that it assembles at run time.
    pub(super) is_computed: bool,
    /// Whether the module does so through an alias of `Function`, as libraries do that probe first.
    pub(super) is_by_other_name: bool,
    pub(super) is_probed: bool,
}

impl CompiledText {
    pub(crate) fn merge(&mut self, other: Self) {
        self.is_computed |= other.is_computed;
        self.is_by_other_name |= other.is_by_other_name;
        self.is_probed |= other.is_probed;
    }

    /// Returns whether the capability `eval` is requested.
    pub(crate) fn needs_grant(self) -> bool {
        self.is_computed || (self.is_by_other_name && !self.is_probed)
    }
}

impl Uses {
    pub(crate) fn merge(&mut self, other: &Uses) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.exec.merge(&other.exec);
        self.network.merge(&other.network);
        self.env.merge(&other.env);
        self.servers.merge(&other.servers);
        self.plain.extend(&other.plain);
        self.answers.merge(&other.answers);
        self.compiled_text.merge(other.compiled_text);
        self.offers.merge(&other.offers);
        self.makes_own_tools |= other.makes_own_tools;
    }

    /// Returns whether a tool is, or may be, registered under the name of a built-in tool.
    fn takes_places(&self) -> bool {
        self.offers.tools.keys().any(|name| super::pi::is_own_tool(name)) || (self.offers.more && self.makes_own_tools)
    }

    /// Returns the requested capabilities, sorted.
    ///
    /// Programs, hosts and variables become a scope if all are literal; otherwise the request covers any. Paths are computed more
    /// often than literal, so files default to the project plus absolute literals; other paths are requested at run time.
    pub(crate) fn to_manifest(&self) -> CapabilityManifest {
        let mut capabilities = Vec::new();
        let mut add = |capability: &str, scope: Option<Scope>| {
            capabilities.push(CapabilityRequest { capability: Capability::new(capability), methods: None, scope });
        };
        for (capability, seen) in [("read", &self.read), ("write", &self.write)] {
            if seen.is_used() {
                let outside = seen.literals.iter().filter(|path| path.starts_with('/')).cloned();
                let paths = std::iter::once(".".to_owned()).chain(outside).collect();
                add(capability, Some(Scope { paths: Some(paths), ..Scope::default() }));
            }
        }
        if self.exec.is_used() {
            add("exec", self.exec.closed().map(|commands| Scope { commands: Some(commands), ..Scope::default() }));
        }
        if let Some(scope) = self.network.scope() {
            add("http", scope);
        }
        if self.env.is_used() {
            add("env", self.env.closed().map(|names| Scope { env: Some(names), ..Scope::default() }));
        }
        if self.servers.is_used() {
            add("mcp", self.servers.closed().map(|tools| Scope { tools: Some(tools), ..Scope::default() }));
        }
        if self.compiled_text.needs_grant() {
            add("eval", None);
        }
        let answers = super::pi::of_answers(&self.answers.events, &self.answers.words);
        let places = self.takes_places().then_some("tool.shadow");
        for capability in self.plain.iter().copied().chain(answers).chain(places).collect::<BTreeSet<_>>() {
            add(capability, None);
        }
        capabilities.sort_by(|a, b| a.capability.cmp(&b.capability));
        CapabilityManifest { schema: CAPABILITY_SCHEMA.to_owned(), capabilities }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(uses: &Uses) -> Option<Option<Vec<String>>> {
        let manifest = uses.to_manifest();
        let http = manifest.capabilities.into_iter().find(|request| request.capability.as_str() == "http")?;
        Some(http.scope.and_then(|scope| scope.hosts))
    }

    #[test]
    fn raw_connections_are_requested_besides_http() {
        let list = |hosts: &[&str]| Some(Some(hosts.iter().map(|host| (*host).to_owned()).collect()));
        let uses = |network: NetworkUses| Uses { network, ..Uses::default() };
        let connects = uses(NetworkUses { connects: true, ..NetworkUses::default() });
        assert_eq!(hosts(&connects), list(&["*", "tcp://*"]));
        let has_sockets = uses(NetworkUses { has_sockets: true, ..NetworkUses::default() });
        assert_eq!(hosts(&has_sockets), None);
        let mut asks = uses(NetworkUses { has_sockets: true, ..NetworkUses::default() });
        asks.network.http.see(Some("a.example".to_owned()));
        assert_eq!(hosts(&asks), list(&["a.example", "tcp://*"]));
        asks.network.has_sockets = false;
        assert_eq!(hosts(&asks), list(&["a.example"]));
        asks.network.http.see(None);
        assert_eq!(hosts(&asks), Some(None));
    }
}
