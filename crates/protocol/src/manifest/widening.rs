//! Compares two requests of a package, so that the user is prompted about the difference only.

use super::{CapabilityManifest, CapabilityRequest, RAW, Scope};

/// Returns the requests of `new` that exceed `old`, each reduced to its additional part; empty if there are none.
pub fn widening(old: &CapabilityManifest, new: &CapabilityManifest) -> Vec<CapabilityRequest> {
    new.capabilities.iter().filter_map(|request| added(old, request)).collect()
}

fn added(old: &CapabilityManifest, request: &CapabilityRequest) -> Option<CapabilityRequest> {
    let Some(known) = old.capabilities.iter().find(|known| known.capability == request.capability) else {
        return Some(request.clone());
    };
    let methods = match (&known.methods, &request.methods) {
        (None, _) => Some(Vec::new()),
        (Some(_), None) => None,
        (Some(old), Some(new)) => Some(missing(old, new)),
    };
    if methods.as_ref().is_none_or(|methods| !methods.is_empty()) {
        return Some(request.clone());
    }
    let (old, new) = match (&known.scope, &request.scope) {
        (None, new) => {
            return raw(new.as_ref()).map(|scope| CapabilityRequest { scope: Some(scope), ..request.clone() });
        }
        (Some(_), None) => return Some(request.clone()),
        (Some(old), Some(new)) => (old, new),
    };
    let list = |old: &Option<Vec<String>>, new: &Option<Vec<String>>| match (old, new) {
        (None, _) => Ok(None),
        // A removed list means that the request is no longer restricted.
        (Some(_), None) => Err(()),
        (Some(old), Some(new)) => Ok(Some(missing(old, new)).filter(|more| !more.is_empty())),
    };
    let cut = (|| {
        Ok(Scope {
            paths: list(&old.paths, &new.paths)?,
            hosts: list(&old.hosts, &new.hosts)?,
            env: list(&old.env, &new.env)?,
            commands: list(&old.commands, &new.commands)?,
            tools: list(&old.tools, &new.tools)?,
        })
    })();
    match cut {
        Err(()) => Some(request.clone()),
        Ok(scope) if scope == Scope::default() => None,
        Ok(scope) => Some(CapabilityRequest { scope: Some(scope), ..request.clone() }),
    }
}

/// Returns the raw connections of a scope. A request for any server does not cover them.
fn raw(scope: Option<&Scope>) -> Option<Scope> {
    let hosts = scope?.hosts.as_ref()?.iter().filter(|host| host.starts_with(RAW)).cloned().collect::<Vec<_>>();
    (!hosts.is_empty()).then(|| Scope { hosts: Some(hosts), ..Scope::default() })
}

fn missing(old: &[String], new: &[String]) -> Vec<String> {
    new.iter().filter(|item| !old.contains(item)).cloned().collect()
}
