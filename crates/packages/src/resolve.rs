//! Resolves a package's `dependencies` to the folders of its own `node_modules`.
//!
//! The tree has npm's shape, so that a package finds the same modules as under npm: each dependency is placed as high as possible
//! without hiding a version that is used below. The tree belongs to one installed package; two packages never share a dependency,
//! so replacing one cannot change the other. The same documents yield the same tree: levels are resolved in order, with sorted
//! names. (`deno_npm` does not fit: its result is a graph that needs links on disk, which are not written here, and it fetches
//! peers that the host supplies.)

use crate::archive::InstallLimits;
use crate::error::{InstallCode, PackageError, Result};
use crate::members::folder_of;
use crate::registry::{PackageDocument, RegistryClient, VersionInfo};
use crate::source::{PackageName, allows, printable};
use futures_util::{StreamExt, stream};
use nodejs_semver::Version;
use std::collections::{BTreeMap, BTreeSet};

/// Number of concurrent requests for documents.
const PARALLEL_DOCUMENTS: usize = 8;

/// A package of the tree and its path.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    /// Path below the installed package: empty for the package itself, otherwise `node_modules/a/node_modules/b`.
    pub(crate) path: String,
    pub(crate) name: PackageName,
    pub(crate) info: VersionInfo,
}

/// A whole tree, in path order.
#[derive(Debug)]
pub(crate) struct DependencyTree {
    pub(crate) packages: Vec<Placed>,
    /// Notes about optional dependencies that were left out, and about peers that do not fit.
    pub(crate) notes: Vec<String>,
}

/// A package inside the root. It stays in its folder, and only its dependencies are placed.
#[derive(Debug, Clone)]
pub(crate) struct MemberInfo {
    /// Name in imports.
    pub(crate) name: PackageName,
    /// Folder below the root.
    pub(crate) folder: String,
    pub(crate) info: VersionInfo,
}

struct TreeNode {
    /// Name in imports; differs from the package's name under an alias.
    key: String,
    name: PackageName,
    info: VersionInfo,
    /// Folder of a member.
    folder: Option<String>,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
    Peer,
}

struct Edge {
    from: usize,
    /// Name in imports.
    key: String,
    name: PackageName,
    range: String,
    need: Need,
}

/// Resolves all dependencies of `root` and its members.
pub(crate) async fn resolve(
    registry: &RegistryClient,
    limits: &InstallLimits,
    name: &PackageName,
    root: VersionInfo,
    members: Vec<MemberInfo>,
) -> Result<DependencyTree> {
    let node = TreeNode {
        key: String::new(),
        name: name.clone(),
        info: root,
        folder: None,
        parent: None,
        children: BTreeMap::new(),
    };
    let mut resolver = TreeResolver { nodes: vec![node], used: Vec::new(), notes: Vec::new() };
    for MemberInfo { name, folder, info } in members {
        let (at, key) = (resolver.nodes.len(), name.as_str().to_owned());
        resolver.nodes[0].children.insert(key.clone(), at);
        let folder = Some(folder);
        resolver.nodes.push(TreeNode { key, name, info, folder, parent: Some(0), children: BTreeMap::new() });
    }
    let mut documents: BTreeMap<PackageName, Result<PackageDocument>> = BTreeMap::new();
    let mut level = Vec::new();
    for known in 0..resolver.nodes.len() {
        level.extend(resolver.edges_of(known)?);
    }
    while !level.is_empty() {
        let missing: BTreeSet<PackageName> =
            level.iter().filter(|edge| !documents.contains_key(&edge.name)).map(|edge| edge.name.clone()).collect();
        let requests: Vec<_> = missing.iter().map(|name| registry.document(name)).collect();
        let fetched: Vec<_> = stream::iter(requests).buffered(PARALLEL_DOCUMENTS).collect().await;
        documents.extend(missing.into_iter().zip(fetched));

        let mut next = Vec::new();
        for edge in level {
            if let Some(placed) = resolver.place(edge, &mut documents, limits)? {
                next.extend(resolver.edges_of(placed)?);
            }
        }
        level = next;
    }
    Ok(resolver.finish())
}

struct TreeResolver {
    nodes: Vec<TreeNode>,
    /// Edges, with the nodes that they resolved to, so that a later node is not placed in between.
    used: Vec<(Edge, usize)>,
    notes: Vec<String>,
}

impl TreeResolver {
    /// Returns the dependencies of a node in name order, without the host's packages, because extensions get the host's copies.
    fn edges_of(&mut self, from: usize) -> Result<Vec<Edge>> {
        let info = self.nodes[from].info.clone();
        let mut wanted: BTreeMap<String, (String, Need)> = BTreeMap::new();
        for (key, range) in &info.peer_dependencies {
            if !info.peer_dependencies_meta.get(key).is_some_and(|meta| meta.optional) {
                wanted.insert(key.clone(), (range.clone(), Need::Peer));
            }
        }
        wanted.extend(info.dependencies.iter().map(|(key, range)| (key.clone(), (range.clone(), Need::Required))));
        wanted.extend(
            info.optional_dependencies.iter().map(|(key, range)| (key.clone(), (range.clone(), Need::Optional))),
        );

        let mut edges = Vec::new();
        for (key, (range, need)) in wanted {
            if info.bundle_dependencies.contains(&key) {
                continue;
            }
            if self.is_member(&key, &range) {
                continue;
            }
            let edge = PackageName::parse(&key).and_then(|alias| {
                let (name, range) = registry_spec(&alias, &range)?;
                Ok(Edge { from, key: key.clone(), name, range, need })
            });
            match edge {
                Ok(edge) if edge.name.is_host_supplied() => {}
                Ok(edge) => edges.push(edge),
                Err(error) if need == Need::Optional => {
                    self.notes.push(format!("skipped an optional dependency: {error}"))
                }
                Err(error) => return Err(error.within(&format!("npm:{}@{}", info.name, info.version))),
            }
        }
        Ok(edges)
    }

    /// Returns whether a dependency names a member by its range: `workspace:*`, or the path of a folder.
    fn is_member(&self, key: &str, spec: &str) -> bool {
        let found = self.nodes[0].children.get(key).is_some_and(|node| self.nodes[*node].folder.is_some());
        found && (spec.trim().starts_with("workspace:") || folder_of(spec).is_some())
    }

    /// Returns the node that an import of `key` from `from` resolves to.
    fn visible(&self, from: usize, key: &str) -> Option<usize> {
        let mut at = Some(from);
        while let Some(node) = at {
            if let Some(found) = self.nodes[node].children.get(key) {
                return Some(*found);
            }
            at = self.nodes[node].parent;
        }
        None
    }

    fn fits(&self, edge: &Edge, node: usize) -> bool {
        let node = &self.nodes[node];
        // `*` accepts a member of any version.
        if node.folder.is_some() && node.name == edge.name && edge.range == "*" {
            return true;
        }
        node.name == edge.name && Version::parse(&node.info.version).is_ok_and(|version| allows(&edge.range, &version))
    }

    fn is_met(&self, edge: &Edge) -> bool {
        self.visible(edge.from, &edge.key).is_some_and(|found| edge.need == Need::Peer || self.fits(edge, found))
    }

    /// Finds or creates the node that an edge leads to; returns the node if it is new.
    fn place(
        &mut self,
        edge: Edge,
        documents: &mut BTreeMap<PackageName, Result<PackageDocument>>,
        limits: &InstallLimits,
    ) -> Result<Option<usize>> {
        if let Some(found) = self.visible(edge.from, &edge.key)
            && self.is_met(&edge)
        {
            if !self.fits(&edge, found) {
                let (from, has) = (&self.nodes[edge.from], &self.nodes[found]);
                let note = format!(
                    "{} requires its peer {}@{} and gets {}",
                    from.name, edge.key, edge.range, has.info.version
                );
                self.notes.push(note);
            }
            self.used.push((edge, found));
            return Ok(None);
        }
        let picked = match documents.get(&edge.name) {
            Some(Ok(document)) => document.pick(&edge.range),
            Some(Err(_)) => match documents.remove(&edge.name) {
                Some(Err(error)) => Err(error),
                _ => unreachable!("just seen"),
            },
            None => {
                // The document failed for an optional dependency on the same level.
                Err(PackageError::new(
                    InstallCode::Source,
                    format!("npm:{}", edge.name),
                    "its registry does not serve it",
                ))
            }
        };
        let info = match picked {
            Ok(info) if edge.need == Need::Optional && !(info.os.is_null() && info.cpu.is_null()) => {
                self.notes.push(format!("{}@{} is a native binary for one system; skipped", info.name, info.version));
                return Ok(None);
            }
            Ok(info) => info,
            Err(error) if edge.need == Need::Optional => {
                self.notes.push(format!("skipped an optional dependency: {error}"));
                return Ok(None);
            }
            // pi installs no peers at all, so a peer that cannot be fetched is missing in pi, too.
            Err(error) if edge.need == Need::Peer => {
                self.notes.push(format!("skipped a peer of {}: {error}", self.nodes[edge.from].info.name));
                return Ok(None);
            }
            Err(error) => {
                let from = &self.nodes[edge.from];
                let wanted = format!("needed by {}@{}", from.info.name, from.info.version);
                return Err(PackageError { message: format!("{} ({wanted})", error.message), ..error });
            }
        };
        if self.nodes.len() > limits.packages {
            let why = format!("more than {} packages in its dependency tree", limits.packages);
            return Err(PackageError::new(InstallCode::Size, format!("npm:{}", self.nodes[0].name), why));
        }
        let parent = self.highest(&edge, &info);
        let new = self.nodes.len();
        let node = TreeNode {
            key: edge.key.clone(),
            name: edge.name.clone(),
            info,
            folder: None,
            parent: Some(parent),
            children: BTreeMap::new(),
        };
        self.nodes.push(node);
        self.nodes[parent].children.insert(edge.key.clone(), new);
        self.used.push((edge, new));
        Ok(Some(new))
    }

    /// Returns the topmost ancestor below which the new node neither collides with its own name nor hides a version that is used
    /// below.
    fn highest(&self, edge: &Edge, info: &VersionInfo) -> usize {
        let mut best = edge.from;
        let mut at = Some(edge.from);
        while let Some(node) = at {
            if self.nodes[node].children.contains_key(&edge.key) {
                break;
            }
            if !self.would_hide(node, edge, info) {
                best = node;
            }
            at = self.nodes[node].parent;
        }
        best
    }

    fn would_hide(&self, parent: usize, edge: &Edge, info: &VersionInfo) -> bool {
        let version = Version::parse(&info.version).ok();
        self.used.iter().any(|(user, target)| {
            let above = self.nodes[*target].parent.is_some_and(|holder| !self.is_below(holder, parent));
            user.key == edge.key
                && above
                && self.is_below(user.from, parent)
                && !(user.name == edge.name && version.as_ref().is_some_and(|version| allows(&user.range, version)))
        })
    }

    fn is_below(&self, node: usize, ancestor: usize) -> bool {
        let mut at = Some(node);
        while let Some(here) = at {
            if here == ancestor {
                return true;
            }
            at = self.nodes[here].parent;
        }
        false
    }

    fn finish(self) -> DependencyTree {
        let path = |mut index: usize| {
            let mut parts = Vec::new();
            while let Some(parent) = self.nodes[index].parent {
                let node = &self.nodes[index];
                parts.push(node.folder.clone().unwrap_or_else(|| format!("node_modules/{}", node.key)));
                index = parent;
            }
            parts.reverse();
            parts.join("/")
        };
        let mut packages: Vec<Placed> = (0..self.nodes.len())
            .filter(|index| self.nodes[*index].folder.is_none())
            .map(|index| Placed {
                path: path(index),
                name: self.nodes[index].name.clone(),
                info: self.nodes[index].info.clone(),
            })
            .collect();
        packages.sort_by(|a, b| a.path.cmp(&b.path));
        DependencyTree { packages, notes: self.notes }
    }
}

/// Parses a range of the registry, or `npm:OTHER@RANGE`. Folders, git sources and URLs are refused as dependencies.
fn registry_spec(name: &PackageName, spec: &str) -> Result<(PackageName, String)> {
    let spec = spec.trim();
    if let Some(alias) = spec.strip_prefix("npm:") {
        let at = alias.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(index, _)| index);
        let (real, range) = at.map_or((alias, ""), |at| (&alias[..at], &alias[at + 1..]));
        return Ok((PackageName::parse(real)?, range.to_owned()));
    }
    if spec.contains([':', '/']) || crate::source::VersionRequest::parse(spec).is_none() {
        let why = format!("it depends on {name} from {}, which is not a registry", printable(spec));
        return Err(PackageError::new(InstallCode::Source, format!("npm:{name}"), why)
            .help("dependencies are taken from npm registries only"));
    }
    // An empty range means any version, not the tag `latest`.
    Ok((name.clone(), if spec.is_empty() { "*".to_owned() } else { spec.to_owned() }))
}
