//! Determines the files that a plain use of git may open, so that the kernel can refuse all others.
//!
//! The host checks arguments, settings, links and the index before git starts, but each of them can be exchanged before git reads
//! it. [`FileBounds`] closes what no check can: git opens only the session's folders, its repository with the repositories that
//! this one borrows from, files that arguments or the user's configuration name, programs, and the keys that its command uses
//! ([`git_keys`]).
//!
//! [`search_links`] finds links of a repository that lead to keys, and [`ObeyedFiles`] the files that the settings of a project's
//! repository name as programs.
//!
//! All paths are resolved when the bounds are made. The supervisor opens them without following links, so a path that is exchanged
//! later is left out. A file that is left out by mistake makes git fail with *Permission denied*; it never makes git read more.

#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod links;
mod locate;
mod obeyed_files;
mod settings;

pub use links::{LinkSearch, search_links};
pub use locate::{changed_folder, git_folder};
pub use obeyed_files::ObeyedFiles;
pub use settings::{GitKeys, GitSetting, git_keys, only_repository_signs};

use pijs_durable::read_regular;
use pijs_programs::{command_of_git, files_of_argument};
use serde::{Deserialize, Serialize};
use settings::{files_of_setting, runs_program_of_user};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Files and folders, each with everything below, by their real paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileBounds {
    /// Paths that can be read.
    pub read: BTreeSet<PathBuf>,
    /// Paths that can be written.
    pub written: BTreeSet<PathBuf>,
}

/// The folders of a session.
#[derive(Debug)]
pub struct SessionFolders<'a> {
    /// The user's home.
    pub home: &'a Path,
    /// The working folder of the session.
    pub project: &'a Path,
    /// The folder for temporary files, where git keeps what it passes to other programs.
    pub temp: &'a Path,
    /// The folder of the extension's package.
    pub package: Option<&'a Path>,
    /// Keys and credentials in the home, and targets of links among them.
    pub credentials: Vec<PathBuf>,
}

/// A use of git.
#[derive(Debug)]
pub struct GitUse<'a> {
    /// Git's executable, by its real path and by the path where it was found.
    pub git: [&'a Path; 2],
    /// The arguments.
    pub words: &'a [&'a str],
    /// The options among them before the command.
    pub globals: &'a [&'a str],
    /// The working folder.
    pub cwd: &'a Path,
    /// Git's environment.
    pub env: &'a BTreeMap<String, String>,
    /// The user's environment.
    pub users_env: &'a BTreeMap<String, String>,
    /// The settings of the user and of the repository.
    pub settings: &'a [GitSetting<'a>],
    /// The repository's own folders.
    pub folders: &'a [PathBuf],
    /// The links in these folders: name and target.
    pub links: &'a [(OsString, PathBuf)],
    /// The keys that are used.
    pub keys: GitKeys,
}

/// Folders of programs and their data, without files of users. Container managers keep secrets in other folders of `/run`.
const SYSTEM_FOLDERS: &[&str] = &[
    "/bin",
    "/etc",
    "/gnu",
    "/home/linuxbrew/.linuxbrew",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/opt",
    "/proc",
    "/run/NetworkManager",
    "/run/current-system",
    "/run/nscd",
    "/run/opengl-driver",
    "/run/resolvconf",
    "/run/systemd",
    "/run/wrappers",
    "/sbin",
    "/snap",
    "/sys",
    "/usr",
    "/var/cache",
    "/var/db",
    "/var/lib",
];

/// Folders of devices and sockets.
const DEVICE_FOLDERS: &[&str] = &["/dev", "/run/user"];

/// Files of a repository that may be links.
const LINKED_FILES: &[&str] =
    &["alternates", "attributes", "config", "exclude", "packed-refs", "shallow", "sparse-checkout"];

/// Folders of a repository that may be links to folders of the same name.
const LINKED_FOLDERS: &[&str] =
    &["annex", "hooks", "info", "lfs", "logs", "modules", "objects", "refs", "remotes", "rr-cache", "svn", "worktrees"];

/// Settings of the user whose value is a folder that git reads.
const FOLDER_SETTINGS: &[&str] = &["http.sslcapath", "init.templatedir"];

/// Commands that make a work tree at a path of their arguments.
const MAKE_WORK_TREES: &[&str] = &["clone", "init", "worktree"];

/// Maximum number of folders that are searched for repositories of submodules.
const MAX_FOLDERS: usize = 1000;

/// Maximum number of bytes that are read of a list of paths, or of the configuration of ssh.
const LONGEST_LIST: u64 = 1 << 20;

impl FileBounds {
    /// Returns what git may open.
    pub fn of(used: &GitUse<'_>, session: &SessionFolders<'_>) -> Self {
        let mut bounds = Self::default();
        SYSTEM_FOLDERS.iter().for_each(|folder| bounds.read(folder));
        DEVICE_FOLDERS.iter().for_each(|folder| bounds.write(folder));
        [session.project, session.temp].into_iter().for_each(|folder| bounds.write(folder));
        session.package.into_iter().for_each(|folder| bounds.read(folder));
        bounds.add_programs(used, session);
        bounds.add_repository(used, session.home);
        bounds.add_settings(used, session.home);
        bounds.add_arguments(used);
        bounds.add_variables(used, session.home);
        if makes_work_tree(used.words) {
            bounds.add_new_work_trees(used, session.home);
        }
        if used.keys == GitKeys::All || used.settings.iter().any(|setting| runs_program_of_user(setting, used.keys)) {
            bounds.add_home(session);
        }
        match used.keys {
            GitKeys::All => bounds.add_files_of_ssh(session.home),
            // gpg makes lock files beside its keys.
            GitKeys::OfGpg => bounds.write(session.home.join(".gnupg")),
            GitKeys::OfSshSignature | GitKeys::None => {}
        }
        bounds
    }

    fn read(&mut self, path: impl AsRef<Path>) {
        self.read.extend(path.as_ref().canonicalize());
    }

    fn write(&mut self, path: impl AsRef<Path>) {
        if let Ok(real) = path.as_ref().canonicalize() {
            self.written.insert(real.clone());
            self.read.insert(real);
        }
    }

    /// Adds a folder, unless the home is in it.
    fn write_below(&mut self, folder: &Path, home: &Path) {
        let real = folder.canonicalize().ok().filter(|real| !home.starts_with(real));
        real.into_iter().for_each(|real| self.write(real));
    }

    /// Adds git's installation, and the folders in which it finds programs.
    fn add_programs(&mut self, used: &GitUse<'_>, session: &SessionFolders<'_>) {
        let path = used.env.get("PATH").map(String::as_str).unwrap_or_default();
        path.split(':').filter(|folder| folder.starts_with('/')).for_each(|folder| self.read(folder));
        let installations = used.git.iter().filter_map(|file| file.parent()?.parent());
        installations.filter(|folder| !session.home.starts_with(folder)).for_each(|folder| self.read(folder));
        // An installation for many machines has its libraries in other folders.
        let top: PathBuf = used.git[0].iter().take(2).collect();
        if ![session.home, session.project, session.temp].iter().any(|folder| folder.starts_with(&top)) {
            self.read(top);
        }
    }

    fn add_repository(&mut self, used: &GitUse<'_>, home: &Path) {
        let folders: Vec<&PathBuf> = used.folders.iter().filter(|folder| is_repository(folder)).collect();
        let real: Vec<PathBuf> = folders.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
        let is_top = |top: &&Path| git_folder(top).canonicalize().is_ok_and(|git| real.contains(&git));
        let from = changed_folder(used.cwd, used.globals).canonicalize().ok();
        match from.as_deref().and_then(|from| from.ancestors().find(is_top)) {
            Some(top) => {
                self.write(top);
                used.settings.iter().filter(|setting| !setting.file.is_empty()).for_each(|setting| {
                    self.read(top.join(setting.file));
                });
            }
            None => self.write_below(used.cwd, home),
        }
        for (name, target) in used.links {
            // A work tree that shares another repository has links to its parts.
            let is_same = target.file_name() == Some(name);
            if LINKED_FOLDERS.iter().any(|known| *name == **known) && is_same {
                self.write_below(target, home);
            } else if LINKED_FILES.iter().any(|known| *name == **known) && target.is_file() {
                self.read(target);
            }
        }
        for folder in folders {
            self.write(folder);
            self.add_alternates(folder);
            for entry in entries(&folder.join("worktrees")) {
                // The file names the `.git` file of the other work tree.
                let named = lines(&entry.join("gitdir"));
                let trees = named.iter().filter_map(|line| Path::new(line).parent());
                let is_its = |tree: &&Path| command_of_git(used.words) == Some("worktree") && git_folder(tree) == entry;
                trees.filter(is_its).for_each(|tree| self.write(tree));
            }
        }
    }

    /// Adds the objects that a repository, and those of its submodules, borrow from other repositories.
    fn add_alternates(&mut self, repository: &Path) {
        let (mut open, mut count) = (vec![repository.to_owned()], 0);
        while let Some(folder) = open.pop().filter(|_| count < MAX_FOLDERS) {
            count += 1;
            if !is_repository(&folder) {
                open.extend(entries(&folder).into_iter().filter(|entry| entry.is_dir() && !entry.is_symlink()));
                continue;
            }
            open.push(folder.join("modules"));
            let objects = folder.join("objects");
            for line in lines(&objects.join("info/alternates")) {
                let Ok(borrowed) = objects.join(line).canonicalize() else { continue };
                let has_objects = borrowed.join("pack").is_dir() || borrowed.join("info").is_dir();
                if has_objects && !self.read.contains(&borrowed) {
                    self.read(&borrowed);
                    open.extend(borrowed.parent().filter(|lender| is_repository(lender)).map(Path::to_owned));
                }
            }
        }
    }

    /// Adds the user's configuration, and the files that it names.
    fn add_settings(&mut self, used: &GitUse<'_>, home: &Path) {
        self.read(home.join(".gitconfig"));
        let variable = used.env.get("XDG_CONFIG_HOME").map(|folder| Path::new(folder).join("git"));
        for folder in [home.join(".config/git")].into_iter().chain(variable) {
            self.read(&folder);
            // The files may be links to those of a manager of settings.
            entries(&folder).iter().for_each(|entry| self.read(entry));
        }
        for setting in used.settings {
            let file = Path::new(setting.file);
            if file.is_absolute() {
                self.read(file);
                // An included file without settings is not the origin of any.
                let is_include = setting.key.starts_with("include") && setting.key.ends_with(".path");
                file.parent()
                    .filter(|_| is_include)
                    .into_iter()
                    .for_each(|folder| self.read(folder.join(setting.value)));
            }
            for path in files_of_setting(setting, used.keys).into_iter().filter_map(|named| absolute(home, named)) {
                if path.is_file() || FOLDER_SETTINGS.contains(&setting.key) {
                    self.read(&path);
                }
                if setting.key == "user.signingkey" {
                    // The value names the public or the private key.
                    let is_public = path.extension().is_some_and(|end| end == "pub");
                    self.read(if is_public { path.with_extension("") } else { path.with_added_extension("pub") });
                }
            }
        }
    }

    /// Adds the files and repositories that arguments, or addresses of a command that connects, name. The gate and the check of
    /// arguments decide about these names.
    fn add_arguments(&mut self, used: &GitUse<'_>) {
        let from = changed_folder(used.cwd, used.globals);
        let is_address = |key: &str| {
            used.keys == GitKeys::All && ["remote.", "submodule.", "url."].iter().any(|start| key.starts_with(start))
        };
        let addresses = used.settings.iter().filter(|setting| is_address(setting.key)).map(|setting| setting.value);
        let named = used.words.iter().copied().chain(addresses).flat_map(files_of_argument);
        for path in named.map(|file| from.join(file)) {
            let repository = [path.clone(), git_folder(&path)].into_iter().find(|folder| is_repository(folder));
            if let Some(repository) = &repository {
                self.read(repository);
                self.add_alternates(repository);
            }
            if repository.is_some() || path.is_file() {
                self.read(path);
            }
        }
        for pair in used.words.windows(2).filter(|pair| matches!(pair[0], "--work-tree" | "--git-dir")) {
            self.write(from.join(pair[1]));
        }
    }

    /// Adds the files that variables name: an index, and what the user's own environment has.
    fn add_variables(&mut self, used: &GitUse<'_>, home: &Path) {
        let from = changed_folder(used.cwd, used.globals);
        for (name, value) in used.env {
            let path = from.join(value);
            if name == "GIT_INDEX_FILE" {
                // Git writes a new index beside the old one.
                path.parent().into_iter().for_each(|folder| self.write_below(folder, home));
            }
            if used.users_env.get(name) == Some(value) && path.is_file() {
                self.read(path);
            }
        }
    }

    /// Adds the folders in which a command makes a work tree.
    fn add_new_work_trees(&mut self, used: &GitUse<'_>, home: &Path) {
        let from = changed_folder(used.cwd, used.globals);
        for word in used.words.iter().filter(|word| !word.starts_with('-')) {
            let path = from.join(word);
            let folder = path.ancestors().find(|folder| folder.is_dir());
            folder.into_iter().for_each(|folder| self.write_below(folder, home));
        }
    }

    /// Adds settings and programs in the home, and credentials. Other rules close the credentials that are not used.
    fn add_home(&mut self, session: &SessionFolders<'_>) {
        let is_used = |entry: &PathBuf| {
            let name = entry.file_name().unwrap_or_default().as_encoded_bytes();
            (name.starts_with(b".") && name != b".pi") || name == b"bin"
        };
        entries(session.home).iter().filter(|entry| is_used(entry)).for_each(|entry| self.write(entry));
        session.credentials.iter().for_each(|path| self.write(path));
    }

    /// Adds files that the configuration of ssh names.
    fn add_files_of_ssh(&mut self, home: &Path) {
        for line in lines(&home.join(".ssh/config")) {
            let words = line.split([' ', '\t', '=', '"']).filter_map(|word| absolute(home, word));
            words.filter(|path| path.is_file()).for_each(|path| self.read(path));
        }
    }
}

/// Returns an absolute path, or one in the home.
fn absolute(home: &Path, named: &str) -> Option<PathBuf> {
    let in_home = named.strip_prefix("~/").map(|rest| home.join(rest));
    in_home.or_else(|| named.starts_with('/').then(|| PathBuf::from(named)))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn lines(file: &Path) -> Vec<String> {
    let text = read_regular(file, LONGEST_LIST).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}

/// Returns whether git with these arguments makes a work tree at a path of them.
pub fn makes_work_tree(words: &[&str]) -> bool {
    command_of_git(words).is_some_and(|command| MAKE_WORK_TREES.contains(&command))
}

/// Returns whether a folder has the layout of a repository, or of a work tree's part of one.
pub fn is_repository(folder: &Path) -> bool {
    folder.join("HEAD").symlink_metadata().is_ok()
        && (folder.join("objects").is_dir() || folder.join("commondir").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A home, a project with a repository, and a folder outside.
    struct World {
        _folder: tempfile::TempDir,
        root: PathBuf,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let root = folder.path().canonicalize().expect("a path");
            for name in ["home/.gnupg", "home/.ssh", "home/.config/git", "home/notes", "project/src", "temp", "outside"]
            {
                std::fs::create_dir_all(root.join(name)).expect("folders");
            }
            let world = Self { _folder: folder, root };
            world.repository("project");
            world
        }

        fn file(&self, name: &str, text: &str) {
            std::fs::write(self.root.join(name), text).expect("written");
        }

        fn repository(&self, at: &str) {
            std::fs::create_dir_all(self.root.join(at).join(".git/objects/info")).expect("folders");
            self.file(&format!("{at}/.git/HEAD"), "ref: refs/heads/main\n");
        }

        fn bounds(&self, words: &[&str], settings: &[GitSetting<'_>], keys: GitKeys) -> FileBounds {
            let (home, env) = (self.root.join("home"), BTreeMap::new());
            let used = GitUse {
                git: [Path::new("/usr/bin/git"); 2],
                words,
                globals: &[],
                cwd: &self.root.join("project/src"),
                env: &env,
                users_env: &env,
                settings,
                folders: &[self.root.join("project/.git")],
                links: &[],
                keys,
            };
            let session = SessionFolders {
                home: &home,
                project: &self.root.join("project"),
                temp: &self.root.join("temp"),
                package: None,
                credentials: vec![home.join(".ssh"), home.join(".gnupg")],
            };
            FileBounds::of(&used, &session)
        }

        /// Returns which of these paths can be read, and which written.
        fn open<'a>(&self, bounds: &FileBounds, paths: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
            let among = |list: &BTreeSet<PathBuf>| {
                let is_in = |path: &&&str| list.iter().any(|root| self.root.join(path).starts_with(root));
                paths.iter().filter(is_in).copied().collect()
            };
            (among(&bounds.read), among(&bounds.written))
        }
    }

    const PATHS: &[&str] = &[
        "home/.config/git/ignore",
        "home/.config/x",
        "home/.gnupg/x",
        "home/.ssh/id",
        "home/notes/x",
        "outside/x",
        "project/x",
        "temp/x",
    ];

    #[test]
    fn only_the_session_and_the_settings_of_git_are_open() {
        let world = World::new();
        world.file("outside/x", "");
        let bounds = world.bounds(&["commit", "-m", "x"], &[], GitKeys::None);
        let (read, written) = world.open(&bounds, PATHS);
        assert_eq!(read, ["home/.config/git/ignore", "project/x", "temp/x"]);
        assert_eq!(written, ["project/x", "temp/x"]);
    }

    #[test]
    fn keys_are_open_to_the_commands_that_use_them() {
        let world = World::new();
        world.file("home/.ssh/id", "");
        world.file("home/.ssh/id.pub", "");
        let key = world.root.join("home/.ssh/id.pub");
        let signing =
            [GitSetting { is_users: true, key: "user.signingkey", value: key.to_str().expect("a path"), file: "" }];
        let of = |keys| world.open(&world.bounds(&["commit"], &signing, keys), &["home/.gnupg/x", "home/.ssh/id"]).0;
        assert_eq!(of(GitKeys::OfGpg), ["home/.gnupg/x"]);
        assert_eq!(of(GitKeys::OfSshSignature), ["home/.ssh/id"]);
        assert_eq!(of(GitKeys::All), ["home/.gnupg/x", "home/.ssh/id"]);
        assert_eq!(of(GitKeys::None), [""; 0]);
    }

    #[test]
    fn named_files_and_borrowed_objects_are_open() {
        let world = World::new();
        world.repository("outside/lender");
        world.file(
            "project/.git/objects/info/alternates",
            "../../../outside/lender/.git/objects\n../../../home/notes\n",
        );
        world.file("outside/message", "");
        world.file("home/ignored", "");
        let ignored = world.root.join("home/ignored");
        let settings = [GitSetting {
            is_users: true,
            key: "core.excludesfile",
            value: ignored.to_str().expect("a path"),
            file: "",
        }];
        let bounds = world.bounds(&["commit", "-F../../outside/message"], &settings, GitKeys::None);
        let paths = ["home/ignored", "home/notes/x", "outside/lender/.git/objects/x", "outside/message", "outside/x"];
        let (read, written) = world.open(&bounds, &paths);
        assert_eq!(read, ["home/ignored", "outside/lender/.git/objects/x", "outside/message"]);
        assert_eq!(written, [""; 0]);
    }

    #[test]
    fn a_new_work_tree_opens_its_folder_but_not_the_home() {
        let world = World::new();
        let bounds = world.bounds(&["clone", "https://a.example/x", "../../outside/new/x"], &[], GitKeys::None);
        assert_eq!(world.open(&bounds, &["outside/new/x"]).1, ["outside/new/x"]);
        let bounds = world.bounds(&["clone", "https://a.example/x", "../../home/new"], &[], GitKeys::None);
        assert_eq!(world.open(&bounds, &["home/new"]).1, [""; 0]);
    }

    #[test]
    fn other_words_than_the_command_make_no_work_tree() {
        let world = World::new();
        for line in [
            ["commit", "-m", "init", "../../outside/x"],
            ["log", "--", "clone", "../../outside/x"],
            ["-C", "worktree", "add", "../../outside/x"],
        ] {
            let bounds = world.bounds(&line, &[], GitKeys::None);
            assert_eq!(world.open(&bounds, &["outside/x"]).1, [""; 0], "{line:?}");
        }
    }
}
