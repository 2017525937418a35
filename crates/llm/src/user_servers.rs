//! Lists the servers that the user's configuration names: those of models and of MCP, and proxies.
//!
//! Requests to such a server carry the user's keys, and its answers count as the user's model or tools. While the server is
//! down, any program of this machine can take its address, so an extension must not listen there. [`UserServers::at_port`] reads
//! the files whenever an extension begins to listen, because they change during a session.
//!
//! Addresses are searched in the text of the files, in whichever member they are: arguments of an MCP server's program name
//! servers too. An address with a host and port that another program knows only after expansion (`${PORT}`) is not found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use url::{Host, Url};

/// Maximum size of a file in bytes.
const LARGEST: u64 = 4 << 20;

/// Files of a folder of pi that name servers.
const FILES: [&str; 3] = ["mcp.json", "models.json", "settings.json"];

/// Ends of the names of variables that contain an address.
const VARIABLES: [&str; 3] = ["_PROXY", "_BASE_URL", "_API_BASE"];

/// Parts of the user's configuration that name servers.
#[derive(Debug, Clone, Default)]
pub struct UserServers {
    files: Vec<PathBuf>,
    values: Vec<(String, String)>,
}

impl UserServers {
    /// Creates the list of a session: files of pi's folders, npm's configuration file, proxies and other addresses among the
    /// variables, and the address of `--base-url`.
    pub fn new(
        pi_folders: &[&Path],
        home: &Path,
        variables: &BTreeMap<String, String>,
        base_url: Option<&str>,
    ) -> Self {
        let npm = variables.get("NPM_CONFIG_USERCONFIG").map_or_else(|| home.join(".npmrc"), PathBuf::from);
        let mut files = vec![npm];
        pi_folders.iter().for_each(|folder| files.extend(FILES.iter().map(|name| folder.join(name))));
        let is_address = |name: &str| {
            let name = name.to_ascii_uppercase();
            name != "NO_PROXY" && VARIABLES.iter().any(|ending| name.ends_with(ending))
        };
        let named = variables.iter().filter(|(name, _)| is_address(name));
        let values = named.map(|(name, value)| (name.clone(), value.clone()));
        let base_url = base_url.map(|address| ("--base-url".to_owned(), address.to_owned()));
        Self { files, values: values.chain(base_url).collect() }
    }

    /// Returns the host of each server at a port, with the file, variable or option that names it.
    pub fn at_port(&self, port: u16) -> Vec<(String, String)> {
        let read = |path: &PathBuf| {
            let text = pijs_durable::read_regular(path, LARGEST).ok()?;
            // JSON may escape a slash.
            let text = String::from_utf8_lossy(&text).replace("\\/", "/");
            Some((path.display().to_string(), text))
        };
        // The value of a proxy may lack a scheme.
        let value = |(name, value): &(String, String)| match value.contains("://") {
            true => (name.clone(), value.clone()),
            false => (name.clone(), format!("http://{value}")),
        };
        let texts = self.files.iter().filter_map(read).chain(self.values.iter().map(value));
        let mut found: Vec<(String, String)> = texts
            .flat_map(|(name, text)| {
                let hosts = addresses(&text).filter(|(_, named)| *named == port).map(|(host, _)| host);
                hosts.map(|host| (host, name.clone())).collect::<Vec<_>>()
            })
            .collect();
        found.dedup();
        found
    }
}

/// Returns the host and port of each address in a text.
fn addresses(text: &str) -> impl Iterator<Item = (String, u16)> {
    text.match_indices("://").filter_map(|(at, separator)| {
        let rest = &text[at + separator.len()..];
        let ends = |character: char| character.is_whitespace() || "\"'`<>,;|\\/?#)}".contains(character);
        let authority = &rest[..rest.find(ends).unwrap_or(rest.len())];
        let scheme = text[..at].rsplit(|character: char| !character.is_ascii_alphanumeric()).next()?;
        let default = match scheme.to_ascii_lowercase().as_str() {
            "https" | "wss" => 443,
            _ => 80,
        };
        // Every scheme is read as http is, whose hosts have one spelling.
        let url = Url::parse(&format!("http://{authority}")).ok()?;
        let has_port = authority.rsplit('@').next()?.trim_end_matches(char::is_numeric).ends_with(':');
        let port = if has_port { url.port_or_known_default()? } else { default };
        match url.host()? {
            Host::Domain(name) => Some((name.trim_end_matches('.').to_owned(), port)),
            Host::Ipv4(address) => Some((address.to_string(), port)),
            Host::Ipv6(address) => Some((address.to_string(), port)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_every_spelling() {
        for (text, host, port) in [
            (r#"{"baseUrl": "http://127.0.0.1:18777/v1"}"#, "127.0.0.1", 18777),
            (r#"["--remote=HTTP://LocalHost.:80"]"#, "localhost", 80),
            ("http://user:pa@[::1]:5/x", "::1", 5),
            ("http://0x7f.1:5", "127.0.0.1", 5),
            ("postgres://me:secret@db.local:5432/x", "db.local", 5432),
            ("wss://a.example", "a.example", 443),
            ("x=http://b", "b", 80),
            ("https://b:80", "b", 80),
            ("http://[::ffff:7f00:1]:9}", "::ffff:127.0.0.1", 9),
        ] {
            assert_eq!(addresses(text).collect::<Vec<_>>(), [(host.to_owned(), port)], "{text}");
        }
        assert_eq!(addresses("://, http://, a://b:99999").count(), 0);
    }

    #[test]
    fn files_are_read_at_each_question() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("models.json");
        let variables =
            [("HTTP_PROXY", "localhost:3128"), ("no_proxy", "localhost:1"), ("OTHER", "http://localhost:1")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let servers = UserServers::new(&[folder.path()], folder.path(), &variables.into(), Some("http://b:2"));
        assert_eq!(servers.at_port(1), []);
        assert_eq!(servers.at_port(2), [("b".to_owned(), "--base-url".to_owned())]);
        assert_eq!(servers.at_port(3128), [("localhost".to_owned(), "HTTP_PROXY".to_owned())]);
        assert_eq!(servers.at_port(18777), []);
        std::fs::write(&file, r#"{"baseUrl": "http:\/\/localhost:18777\/v1"}"#).expect("written");
        assert_eq!(servers.at_port(18777), [("localhost".to_owned(), file.display().to_string())]);
    }
}
