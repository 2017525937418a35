//! Policies: modes, grants and deny lists.

use pijs_protocol::manifest::{CapabilityRequest, Scope};
use pijs_protocol::{Capability, guard};
use serde::{Deserialize, Serialize};

/// Decides calls without a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Such calls are denied.
    Strict,
    /// The user is prompted; without a user such calls are denied.
    #[default]
    Prompt,
    /// Such calls are allowed, with a warning in the ledger.
    Permissive,
}

/// `extensions.policy` of the settings (`docs/spec/capabilities.md`, Policies).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Mode for calls without a grant.
    pub mode: Mode,
    /// Capabilities granted to every extension: `read` and `write` in the project, its own package, the `.pi` folders and temp;
    /// others without restriction.
    pub default_caps: Vec<Capability>,
    /// Capabilities denied to every extension, even with a grant.
    pub deny_caps: Vec<Capability>,
}

/// Permission for one capability of an extension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Id in the ledger and in `pi ext grants`.
    pub id: String,
    /// The capability.
    pub capability: Capability,
    /// Hostcall methods that may use the grant; absent means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
    /// Scope of the grant; absent means anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// Whether the grant was given without a prompt, because the file was named with `-e` or the package was installed
    /// unattended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unasked: bool,
}

impl Grant {
    /// Creates a grant without restriction.
    pub fn any(id: impl Into<String>, capability: impl Into<Capability>) -> Self {
        Self { id: id.into(), capability: capability.into(), methods: None, scope: None, unasked: false }
    }

    /// Creates a grant with a scope.
    pub fn scoped(id: impl Into<String>, capability: impl Into<Capability>, scope: Scope) -> Self {
        Self { scope: Some(scope), ..Self::any(id, capability) }
    }

    /// Creates the grant that accepts a request of the manifest or of the scan. Paths default to project, own package, `.pi`
    /// folders and temp.
    pub fn accepting(id: impl Into<String>, request: &CapabilityRequest) -> Self {
        let files = matches!(request.capability.as_str(), "read" | "write");
        let scope = match &request.scope {
            None if files => Some(usual_paths()),
            Some(scope) if files && scope.paths.is_none() => {
                Some(Scope { paths: usual_paths().paths, ..scope.clone() })
            }
            other => other.clone(),
        };
        Self { scope, methods: request.methods.clone(), ..Self::any(id, request.capability.as_str()) }
    }

    /// Returns the scope for the gate. A scope without a list for this capability covers nothing.
    pub(crate) fn fitting_scope(&self) -> Option<Scope> {
        let mut scope = self.scope.clone()?;
        let list = match self.capability.as_str() {
            "read" | "write" => &mut scope.paths,
            "http" => &mut scope.hosts,
            "exec" => &mut scope.commands,
            "env" => &mut scope.env,
            "mcp" => &mut scope.tools,
            _ => return Some(scope),
        };
        if guard!(GateEmptyScope) {
            list.get_or_insert_default();
        } else if list.as_ref().is_some_and(Vec::is_empty) {
            *list = None;
        }
        Some(scope)
    }

    /// Returns the grants that naming a file with `-e` gives: the model-facing capabilities among those `found` by the scan (see
    /// [`crate::vocabulary::MODEL_FACING`]).
    pub fn for_named_file(found: &[Capability]) -> Vec<Self> {
        let mut names: Vec<&str> = found.iter().map(Capability::as_str).collect();
        // The scan cannot tell the names of registered tools, and the purpose of some is to replace a built-in one.
        if names.contains(&"tools") && !names.contains(&"tool.shadow") {
            names.push("tool.shadow");
        }
        names.retain(|name| crate::vocabulary::MODEL_FACING.contains(name));
        let unasked = |name| Self { unasked: true, ..Self::any(format!("-e:{name}"), name) };
        names.into_iter().map(unasked).collect()
    }
}

/// Returns the default paths: project, own package, `.pi` folders, temp.
pub fn usual_paths() -> Scope {
    let paths = ["<project>", "<package>", "<pi>", "<temp>"].map(str::to_owned).to_vec();
    Scope { paths: Some(paths), ..Scope::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn accepted(request: serde_json::Value) -> serde_json::Value {
        let request: CapabilityRequest = serde_json::from_value(request).expect("a request");
        serde_json::to_value(Grant::accepting("a", &request)).expect("a grant")
    }

    #[test]
    fn a_request_is_granted_as_made_and_files_in_default_folders() {
        let usual = json!({"paths": ["<project>", "<package>", "<pi>", "<temp>"]});
        for (request, scope) in [
            (json!({"capability": "read"}), Some(usual.clone())),
            (json!({"capability": "write", "scope": {}}), Some(usual)),
            (json!({"capability": "write", "scope": {"paths": ["src"]}}), Some(json!({"paths": ["src"]}))),
            (json!({"capability": "exec"}), None),
            (json!({"capability": "exec", "scope": {"commands": ["ls"]}}), Some(json!({"commands": ["ls"]}))),
            (json!({"capability": "http", "scope": {}}), Some(json!({}))),
        ] {
            let mut expected = json!({"id": "a", "capability": request["capability"]});
            if let Some(scope) = scope {
                expected["scope"] = scope;
            }
            assert_eq!(accepted(request.clone()), expected, "{request}");
        }
        let fs = json!({"capability": "read", "methods": ["fs"], "scope": {"paths": ["a"]}});
        let expected = json!({"id": "a", "capability": "read", "methods": ["fs"], "scope": {"paths": ["a"]}});
        assert_eq!(accepted(fs), expected);
    }

    #[test]
    fn naming_a_file_grants_model_facing_capabilities_only() {
        let found = ["exec", "http", "verdict", "tools", "write"].map(Capability::new);
        let grants = Grant::for_named_file(&found);
        let names: Vec<&str> = grants.iter().map(|grant| grant.capability.as_str()).collect();
        assert_eq!(names, ["verdict", "tools", "tool.shadow"]);
        assert!(grants.iter().all(|grant| grant.unasked && grant.scope.is_none()));
    }
}
