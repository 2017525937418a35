//! Describes an extension for the user's consent: its identity, the capabilities that its code uses, those that its manifest
//! declares, and the findings about it.

use crate::environment::Environment;
use crate::mcp_config::requests_of_package;
use crate::text::clean;
use crate::user_error::{Result, UserError, is_missing};
use pijs_durable::read_regular;
use pijs_hostcall::grant_store::{CurrentPackage, code_digest};
use pijs_hostcall::requests::{Declared, parse_declared, requested};
use pijs_hostcall::{Evidence, Mode};
use pijs_packages::{Dirs, InstallScope, PackageManifest};
use pijs_protocol::artifact::{ArtifactMetadata, Finding, Offers};
use pijs_protocol::guard;
use pijs_protocol::manifest::{CapabilityManifest, Scope as ManifestScope};
use serde_json::Value;
use std::path::Path;

/// Maximum size of a manifest that is read.
pub const LONGEST_MANIFEST: u64 = 4 << 20;

/// An extension after its build.
pub struct PackageRequest {
    /// `npm:NAME` or `path:PATH`.
    pub id: String,
    /// Key under which answers about the extension are stored, see [`grant_key`].
    pub key: String,
    /// Digest of the sources.
    pub code: String,
    /// Capabilities that the scan found.
    pub found: CapabilityManifest,
    /// Capabilities that the extension requests from the user.
    pub asked: CapabilityManifest,
    /// Findings of the scan that speak against the extension, for the gate's questions.
    pub evidence: Evidence,
    /// Tools and commands that the code registers.
    pub offers: Offers,
    /// `FILE:LINE` of each place where the source contains invisible characters.
    pub hidden_text: Vec<String>,
    /// Whether the extension is an artifact, which contains its own requests.
    is_artifact: bool,
}

fn hidden_text(findings: &[Finding]) -> Vec<String> {
    let hidden = findings.iter().filter(|finding| finding.code == "BD_HIDDEN_TEXT");
    hidden.map(|finding| format!("{}:{}", finding.file, finding.line)).collect()
}

impl PackageRequest {
    /// Describes a package below `root`, with its manifest, that is installed in the scope `installed`. An unknown declaration is
    /// a warning, or an error under the strict policy.
    pub fn new(
        environment: &Environment,
        who: (&str, Option<InstallScope>),
        package: (&Path, &PackageManifest),
        metadata: &ArtifactMetadata,
        mode: Mode,
    ) -> Result<Self> {
        Self::staged(environment, who, package, package.0, metadata, mode)
    }

    /// Describes a package below `root` that will be put into `place`: its requests name the programs in that folder.
    pub fn staged(
        environment: &Environment,
        (id, installed): (&str, Option<InstallScope>),
        (root, manifest): (&Path, &PackageManifest),
        place: &Path,
        metadata: &ArtifactMetadata,
        mode: Mode,
    ) -> Result<Self> {
        // A single file belongs to no package, even inside a package's folder.
        let loose = id.strip_prefix("path:").is_some_and(|path| Path::new(path).is_file());
        let declared = if loose { None } else { declared(root, manifest).map_err(|failure| failure.within(id))? };
        if let Some(declared) = declared.as_ref().filter(|declared| !declared.unknown.is_empty()) {
            let strange = clean(&declared.unknown.join(", "));
            if mode == Mode::Strict {
                return Err(UserError::refused(format!("{id}: its manifest has unknown members: {strange}"))
                    .help("ask its author, or run it with --policy prompt"));
            }
            environment.notices.warn(format!("{id}: its manifest has unknown members: {strange}"));
        }
        let declared = declared.map(|declared| declared.manifest);
        let findings = metadata.findings.iter().map(|finding| (finding.code.as_str(), finding.class));
        Ok(Self {
            id: id.to_owned(),
            key: grant_key(&environment.dirs, id, installed),
            code: code_digest(&metadata.inputs),
            asked: match loose {
                true => requested(&metadata.capabilities, declared.as_ref()),
                false => with_servers(requested(&metadata.capabilities, declared.as_ref()), id, (place, manifest)),
            },
            evidence: Evidence::of_scan(&metadata.capabilities, findings, declared.as_ref()),
            found: metadata.capabilities.clone(),
            offers: metadata.offers.clone(),
            hidden_text: hidden_text(&metadata.findings),
            is_artifact: metadata.inputs.keys().any(|name| name.ends_with(".artifact")),
        })
    }

    /// Returns the identity and the requests that grants are bound to.
    pub fn present(&self) -> CurrentPackage<'_> {
        // An artifact is not under development: answers about it are bound to its bytes.
        let is_worked_on = !self.is_artifact || !guard!(GrantsArtifact);
        CurrentPackage { code: &self.code, asked: &self.asked, local: self.id.starts_with("path:") && is_worked_on }
    }
}

/// Adds the requests of the MCP servers in a package's manifest: their start, and the use of their tools.
fn with_servers(mut asked: CapabilityManifest, id: &str, package: (&Path, &PackageManifest)) -> CapabilityManifest {
    for request in requests_of_package(id, package) {
        match asked.capabilities.iter_mut().find(|known| known.capability == request.capability) {
            Some(known) => known.scope = joined(known.scope.take(), request.scope),
            None => asked.capabilities.push(request),
        }
    }
    asked.capabilities.sort_by(|a, b| a.capability.cmp(&b.capability));
    asked
}

/// Joins two scopes of one capability. An absent scope covers anything.
fn joined(one: Option<ManifestScope>, other: Option<ManifestScope>) -> Option<ManifestScope> {
    let (one, other) = (one?, other?);
    let lists = |one: Option<Vec<String>>, other: Option<Vec<String>>| match (one, other) {
        (Some(one), Some(other)) => Some([one, other].concat()),
        (one, other) => one.or(other),
    };
    Some(ManifestScope {
        paths: lists(one.paths, other.paths),
        hosts: lists(one.hosts, other.hosts),
        env: lists(one.env, other.env),
        commands: lists(one.commands, other.commands),
        tools: lists(one.tools, other.tools),
    })
}

/// Returns the name under which answers about the package `id` of the scope `installed` are stored. A project's lock file decides
/// the code that the project calls `npm:NAME`, so an answer under that name elsewhere was about other code. The folder alone
/// cannot decide this, because a project can be inside the folder of the user's own packages.
pub fn grant_key(dirs: &Dirs, id: &str, installed: Option<InstallScope>) -> String {
    // A path identifies the code by itself.
    let is_projects = !id.starts_with("path:") && installed == Some(InstallScope::Project);
    if is_projects && guard!(GrantsProject) { format!("{id} in {}", dirs.cwd.display()) } else { id.to_owned() }
}

/// Checks that the manifest of a package can be parsed, regardless of its requests.
pub fn check_declared(root: &Path) -> Result<()> {
    declared(root, &PackageManifest::read(root)?).map(drop)
}

/// Reads the manifest of a package: `pi.capabilities` of its `package.json`, else its `extension.json`.
fn declared(root: &Path, manifest: &PackageManifest) -> Result<Option<Declared>> {
    let read = |name: &str| -> Result<Option<Value>> {
        let path = root.join(name);
        let text = match read_regular(&path, LONGEST_MANIFEST) {
            Ok(text) => text,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(UserError::failed(format!("{} cannot be read: {error}", path.display()))),
        };
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
        serde_json::from_slice(text).map(Some).map_err(|error| UserError::failed(format!("{name}: {error}")))
    };
    let parse = |name: &str, value: &Value| {
        parse_declared(value).map(Some).map_err(|problem| {
            UserError::failed(format!("{name}: {}", clean(&problem)))
                .help("a capability manifest is {\"schema\": \"pi.ext.cap.v1\", \"capabilities\": [..]}")
        })
    };
    if let Some(value) = manifest.capabilities() {
        return parse("package.json", value);
    }
    match read("extension.json")? {
        Some(value) if value.get("capabilities").or_else(|| value.get("capability_manifest")).is_some() => {
            parse("extension.json", &value)
        }
        _ => Ok(None),
    }
}
