//! The user's proxies: variables of the environment, `settings.json`, and `.npmrc` for registries.

use crate::environment::Environment;
use pijs_connectors::net::UserServersAt;
use pijs_llm::provider::proxy::Proxies;
use pijs_llm::user_servers::UserServers;
use pijs_packages::{ChosenProxy, InstallCode, NpmConfig, PackageError};
use std::sync::Arc;
use url::Url;

/// Returns the value of a proxy variable. `httpProxy` of the settings replaces a missing one.
pub(crate) fn variable(environment: &Environment, name: &str) -> Option<String> {
    match (environment.variable(name), name) {
        (None, "HTTP_PROXY" | "HTTPS_PROXY") => crate::settings::proxy(environment),
        (value, _) => value.map(str::to_owned),
    }
}

/// Returns the servers of the user that no extension may impersonate. The files are read whenever an extension listens.
pub(crate) fn user_servers(environment: &Environment, base_url: Option<&str>) -> UserServersAt {
    let dirs = &environment.dirs;
    let servers =
        UserServers::new(&[&dirs.agent_dir, &dirs.cwd.join(".pi")], &dirs.home, &environment.variables, base_url);
    Arc::new(move |port| servers.at_port(port))
}

/// Makes a client of registries use the proxy of `.npmrc`, or else those that `variable` names, as npm does.
pub fn for_registries(config: NpmConfig, variable: impl Fn(&str) -> Option<String>) -> NpmConfig {
    let exempt = config.no_proxy.clone();
    let proxies = Proxies::from_variables(|name| match name {
        "no_proxy" if exempt.is_some() => exempt.clone(),
        name => variable(name),
    });
    let proxies = match &config.proxy {
        Some(proxy) => proxies.replaced_by("https-proxy of .npmrc", proxy),
        None => proxies,
    };
    config.with_proxies(Arc::new(move |url: &Url| match proxies.for_url(url) {
        Ok(found) => Ok(found.map(|proxy| ChosenProxy { url: proxy.url().clone(), shown: proxy.to_string() })),
        Err(error) => {
            let unusable = PackageError::new(InstallCode::Io, url.origin().ascii_serialization(), error.message());
            Err(match error.help() {
                Some(help) => unusable.help(help),
                None => unusable,
            })
        }
    }))
}
