//! The configured MCP servers: those of `mcp.json` files, and of the manifests of packages.

use crate::environment::Environment;
use crate::trust::Trust;
use crate::user_error::{Result, UserError, is_missing};
use pijs_connectors::exec::{NamedCommand, code_files};
use pijs_durable::Disk;
use pijs_mcp::config::{self, MAX_FILE_BYTES, MAX_SERVERS, Parsed, Reach, ServerConfig};
use pijs_mcp::needs::requests_of;
use pijs_packages::PackageManifest;
use pijs_programs::obeys_folder;
use pijs_protocol::guard;
use pijs_protocol::manifest::CapabilityRequest;
use std::path::{Path, PathBuf};

/// Returns the path of the user's file.
pub fn user_file(environment: &Environment) -> PathBuf {
    environment.dirs.agent_dir.join(config::FILE_NAME)
}

/// Returns the path of the project's file.
pub fn project_file(environment: &Environment) -> PathBuf {
    environment.dirs.cwd.join(".pi").join(config::FILE_NAME)
}

/// Returns the servers of a session here, and errors of the files. The project's file is used only if the folder is trusted;
/// until then the user's servers start in the home.
///
/// # Errors
///
/// Fails if a file cannot be read.
pub fn servers(environment: &Environment) -> Result<(Vec<ServerConfig>, Vec<String>)> {
    let user = parsed(&user_file(environment))?;
    let own = project_file(environment);
    // A home folder's `.pi` may be the agent folder itself.
    let is_there = own != user_file(environment) && own.symlink_metadata().is_ok();
    let is_trusted = Trust::read(environment)?.covers(&environment.dirs.cwd);
    let project = match is_there && is_trusted {
        true => parsed(&own)?,
        false => Parsed::default(),
    };
    let mut problems = Vec::new();
    let mut servers = config::merge(user, project, &mut problems);
    if let Some(home) = environment.dirs.home.to_str() {
        servers.iter_mut().for_each(|server| server.at_home(home));
    }
    if !is_trusted && guard!(McpFolder) {
        let home = environment.dirs.home.to_string_lossy();
        servers.iter_mut().for_each(|server| server.start_in(&home));
    }
    Ok((servers, problems))
}

/// Lists the files that the servers here run: a program by its path, arguments that are files or could become files, and the
/// module of `python -m`. Paths are relative to the folder of the entry; if it has none, to the project and to the home.
pub(crate) fn paths_of_programs(environment: &Environment) -> Vec<PathBuf> {
    let (servers, _) = servers(environment).unwrap_or_default();
    let mut paths = Vec::new();
    for server in &servers {
        let Reach::Stdio { command, args, env, cwd } = &server.reach else { continue };
        let folders = match cwd {
            Some(cwd) => vec![environment.dirs.cwd.join(cwd)],
            None => vec![environment.dirs.cwd.clone(), environment.dirs.home.clone()],
        };
        let dirs = &environment.dirs;
        let program = NamedCommand { command, args, env };
        folders.iter().for_each(|folder| paths.extend(code_files(&program, folder, [&dirs.cwd, &dirs.home])));
        paths.extend(cwd.iter().filter(|_| obeys_folder(command)).map(|cwd| environment.dirs.cwd.join(cwd)));
    }
    paths.iter().map(|path| pijs_durable::without_links(path)).collect()
}

fn parsed(path: &Path) -> Result<Parsed> {
    Ok(read(path)?.map_or_else(Parsed::default, |text| Parsed::parse(&text, &path.display().to_string())))
}

/// Reads a file; `None` if it does not exist.
pub fn read(path: &Path) -> Result<Option<String>> {
    let failed = |what: String| UserError::failed(format!("{} cannot be read: {what}", path.display()));
    match Disk::system().read(path, MAX_FILE_BYTES) {
        Ok(None) => Ok(None),
        Ok(Some(bytes)) => String::from_utf8(bytes).map(Some).map_err(|error| failed(error.to_string())),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(failed(error.to_string()).help("correct the file, or use --no-mcp")),
    }
}

/// Returns the servers in a package's manifest, and errors about others. A path that starts with `./` is relative to the package.
pub fn servers_of_package(id: &str, (root, manifest): (&Path, &PackageManifest)) -> (Vec<ServerConfig>, Vec<String>) {
    let (mut servers, mut problems) = (Vec::new(), Vec::new());
    // Components of a package have no servers of their own.
    let has_some = pijs_packages::package_of_realm(id).is_none();
    for (name, entry) in manifest.mcp_servers().filter(|_| has_some).take(MAX_SERVERS) {
        match Parsed::of_extension(id, name, entry) {
            Ok(mut server) => {
                server.at_package(&root.display().to_string());
                servers.push(server);
            }
            Err(problem) => {
                problems.push(format!("pi.mcpServers of its package.json: {}: {problem}", name.escape_debug()))
            }
        }
    }
    (servers, problems)
}

/// Returns the requests of a manifest's servers: one to start each with the command as written, and one to use its tools.
pub(crate) fn requests_of_package(id: &str, package: (&Path, &PackageManifest)) -> Vec<CapabilityRequest> {
    servers_of_package(id, package).0.iter().flat_map(requests_of).collect()
}
