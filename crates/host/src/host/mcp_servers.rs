//! Lists MCP servers that extensions register, for the code that connects them.

use super::Host;
use crate::outcome::RegistrationOwner;
use pijs_protocol::registration::Registration;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Members of a configuration that may contain secrets; other extensions do not see them.
const PRIVATE: [&str; 3] = ["env", "headers", "oauth"];

impl Host {
    /// Lists MCP servers that live extensions registered, in load order: owner, name and configuration.
    pub fn mcp_servers(&self) -> Vec<(RegistrationOwner, String, Value)> {
        let others = self.other_registrations().into_iter();
        let servers = others.filter_map(|(owner, registration)| match registration {
            Registration::McpServer { name, config } => Some((owner, name, config)),
            _ => None,
        });
        servers.collect()
    }

    /// Returns a number that changes with [`Host::mcp_servers`].
    pub fn mcp_server_changes(&self) -> watch::Receiver<u64> {
        self.0.session.mcp_servers.subscribe()
    }

    /// Publishes the servers to extensions and to the code that connects them.
    pub(crate) fn publish_mcp_servers(&self) {
        self.set_state("mcpServers", Value::from(self.told_mcp_servers()));
        self.0.session.mcp_servers.send_modify(|number| *number += 1);
    }

    /// Lists the servers as extensions see them: without members that may contain secrets.
    pub fn told_mcp_servers(&self) -> Vec<Value> {
        let told = |(owner, name, mut config): (RegistrationOwner, String, Value)| {
            if let Some(members) = config.as_object_mut() {
                members.retain(|key, _| !PRIVATE.contains(&key.as_str()));
            }
            json!({"name": name, "config": config, "extensionPath": owner.path})
        };
        self.mcp_servers().into_iter().map(told).collect()
    }
}
