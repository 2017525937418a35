//! Reads the members of a package's `package.json` that a session needs, once during discovery.
//!
//! Consent, the grants of the package's servers, and reports all use the same bytes.

use crate::error::Result;
use crate::manifest::Manifest;
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::Arc;

/// Members of a package's manifest that a session needs. Cheap to clone; the default stands for a package without a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageManifest(Arc<ManifestMembers>);

#[derive(Debug, Default, PartialEq, Eq)]
struct ManifestMembers {
    name: Option<String>,
    capabilities: Option<Value>,
    mcp_servers: Map<String, Value>,
}

impl PackageManifest {
    /// Reads the `package.json` of a folder; returns the default if there is none.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be read, and when it is a link that leads out of the folder.
    pub fn read(root: &Path) -> Result<Self> {
        Ok(Manifest::read(root)?.map(|manifest| Self::of(&manifest)).unwrap_or_default())
    }

    pub(crate) fn of(manifest: &Manifest) -> Self {
        let pi = manifest.pi.as_ref();
        Self(Arc::new(ManifestMembers {
            name: manifest.name.clone(),
            capabilities: pi.and_then(|pi| pi.capabilities.clone()),
            mcp_servers: pi.and_then(|pi| pi.mcp_servers.clone()).unwrap_or_default(),
        }))
    }

    /// Returns `name`.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Returns `pi.capabilities`, unparsed.
    pub fn capabilities(&self) -> Option<&Value> {
        self.0.capabilities.as_ref()
    }

    /// Lists the MCP servers of the package: `pi.mcpServers`, with entries in the form of `mcp.json`.
    pub fn mcp_servers(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.mcp_servers.iter().map(|(name, entry)| (name.as_str(), entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_has_servers_in_their_order_and_capabilities_as_they_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |text: &str| {
            std::fs::write(folder.path().join("package.json"), text).expect("written");
            PackageManifest::read(folder.path())
        };
        let whole = r#"{"name": "x", "pi": {"capabilities": null, "mcpServers": {"b": {"command": "c"}, "a": {}}}}"#;
        let manifest = read(whole).expect("it can be read");
        let servers: Vec<&str> = manifest.mcp_servers().map(|(name, _)| name).collect();
        assert_eq!((manifest.name(), servers), (Some("x"), vec!["b", "a"]));
        assert_eq!(manifest.capabilities(), Some(&Value::Null));
        assert_eq!(read(r#"{"pi": true}"#).expect("it can be read"), PackageManifest::default());
        assert!(read("{").is_err());
        assert_eq!(
            PackageManifest::read(&folder.path().join("none")).expect("there is none"),
            PackageManifest::default()
        );
    }
}
