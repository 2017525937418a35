//! A registry on loopback that serves the versions of `lock.json` for one package, and nothing else, so that installs are
//! reproducible.

use super::loopback::{Server, ServerRequest, ServerResponse, serve};
use crate::corpus::{Corpus, Laid};
use anyhow::{Context, Result};
use pijs_packages::{PinnedPackage, TarballCache};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Serves a package of the corpus, with its dependencies, from the tarballs that `depot` keeps.
pub(super) async fn open(corpus: &Corpus, laid: &Laid, depot: &TarballCache, package: &str) -> Result<Server> {
    let mut documents: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let mut tarballs = BTreeMap::new();
    let placed = corpus.placed(package)?;
    let is_placed = |name: &str| placed.iter().any(|(at, _)| at.rsplit("node_modules/").next() == Some(name));
    for (at, pin) in &placed {
        let file = laid.packages.join(package.replace('/', "+")).join(at).join("package.json");
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let mut manifest: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))?;
        // Dependencies that npm did not install (peers, binaries for other systems) are removed, so that they are not requested.
        for kind in ["dependencies", "optionalDependencies", "peerDependencies"] {
            if let Some(wanted) = manifest.get_mut(kind).and_then(Value::as_object_mut) {
                wanted.retain(|name, _| is_placed(name));
            }
        }
        let PinnedPackage { name, version, integrity } = pin;
        let path = format!("/{name}/-/{version}.tgz");
        manifest["dist"] = json!({ "tarball": path, "integrity": integrity });
        tarballs.insert(path, depot.tarball(pin).await?);
        documents.entry(name.clone()).or_default().insert(version.clone(), manifest);
    }
    serve(0, move |request: &ServerRequest| {
        let path = request.path().replace("%2f", "/").replace("%2F", "/").replace("%40", "@");
        if let Some(tarball) = tarballs.get(&path) {
            return ServerResponse::new("application/octet-stream", tarball.clone());
        }
        let Some((name, versions)) = documents.get_key_value(path.trim_start_matches('/')) else {
            return ServerResponse::missing();
        };
        ServerResponse::new("application/json", document(name, versions, &request.host).to_string())
    })
    .await
}

/// Returns the registry document of a package.
fn document(name: &str, versions: &Map<String, Value>, host: &str) -> Value {
    let mut versions = versions.clone();
    for manifest in versions.values_mut() {
        let path = manifest["dist"]["tarball"].as_str().unwrap_or_default();
        manifest["dist"]["tarball"] = format!("http://{host}{path}").into();
    }
    json!({ "name": name, "dist-tags": { "latest": versions.keys().next_back() }, "versions": versions })
}
