//! MCP servers that extensions register: whoever connects them asks here which there are.

use super::Host;
use crate::outcome::Owner;
use pijs_protocol::registration::Registration;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Members of a configuration that may hold secrets: one extension is not told those of another.
const PRIVATE: [&str; 3] = ["env", "headers", "oauth"];

impl Host {
    /// MCP servers that live extensions registered, in load order: owner, name and configuration.
    pub fn mcp_servers(&self) -> Vec<(Owner, String, Value)> {
        let others = self.other_registrations().into_iter();
        let servers = others.filter_map(|(owner, registration)| match registration {
            Registration::McpServer { name, config } => Some((owner, name, config)),
            _ => None,
        });
        servers.collect()
    }

    /// A number that changes with [`Host::mcp_servers`].
    pub fn mcp_server_changes(&self) -> watch::Receiver<u64> {
        self.0.session.mcp_servers.subscribe()
    }

    /// Tells extensions and whoever connects them which servers there are.
    pub(crate) fn publish_mcp_servers(&self) {
        self.set_state("mcpServers", Value::from(self.told_mcp_servers()));
        self.0.session.mcp_servers.send_modify(|number| *number += 1);
    }

    /// As extensions are told of them: without members that may hold secrets.
    pub fn told_mcp_servers(&self) -> Vec<Value> {
        let told = |(owner, name, mut config): (Owner, String, Value)| {
            if let Some(members) = config.as_object_mut() {
                members.retain(|key, _| !PRIVATE.contains(&key.as_str()));
            }
            json!({"name": name, "config": config, "extensionPath": owner.path})
        };
        self.mcp_servers().into_iter().map(told).collect()
    }
}
