//! Tables of protected names, by folder.

use super::Protection;
use pijs_programs::{obeyed, secrets};

/// Folders with access to other processes, devices and kernel state.
pub(super) const SYSTEM: &[&str] = &["/proc", "/sys", "/dev"];

/// Names protected in the agent folder only: the ledger. `~/.pi/logs` is not protected.
pub(super) const AGENT_FOLDER: &[(&str, Protection)] = &[("logs", Protection::All)];

/// Folders of extensions, relative to a `.pi` folder.
pub(super) const EXTENSIONS: [&str; 2] = ["extensions", "agent/extensions"];

/// Package stores, relative to a `.pi` folder.
///
/// The copies that rummy loads are packages as well.
pub(super) const STORES: [&str; 6] = ["npm", "git", "rummy/stage", "agent/npm", "agent/git", "agent/rummy/stage"];

/// Names protected in a `.pi` folder. A name covers everything below it; the name of a closed file also covers its copies
/// ([`super::is_aside`]).
pub(super) const PI_FOLDER: &[(&str, Protection)] = &[
    ("auth.json", Protection::All),
    ("models.json", Protection::All),
    ("mcp-auth.json", Protection::All),
    // Contains keys, and programs that pi starts by itself.
    ("mcp.json", Protection::All),
    // Contains logins of earlier versions, and messages.
    ("oauth.json", Protection::All),
    ("pi-debug.log", Protection::All),
    ("sessions", Protection::All),
    ("trust.json", Protection::All),
    ("pijs-lock.json", Protection::All),
    ("pijs-lock.json.bak", Protection::All),
    ("pijs", Protection::All),
    ("npm", Protection::All),
    ("git", Protection::All),
    ("agent/auth.json", Protection::All),
    ("agent/models.json", Protection::All),
    ("agent/mcp-auth.json", Protection::All),
    ("agent/mcp.json", Protection::All),
    ("agent/oauth.json", Protection::All),
    ("agent/pi-debug.log", Protection::All),
    ("agent/sessions", Protection::All),
    ("agent/trust.json", Protection::All),
    ("agent/pijs-lock.json", Protection::All),
    ("agent/pijs-lock.json.bak", Protection::All),
    ("agent/pijs", Protection::All),
    ("agent/logs", Protection::All),
    ("agent/npm", Protection::All),
    ("agent/git", Protection::All),
    ("settings.json", Protection::Write),
    ("settings.json.bak", Protection::Write),
    // Creating this file locks out all other writers of `auth.json`.
    ("auth.json.lock", Protection::Write),
    ("settings.json.lock", Protection::Write),
    ("agent/auth.json.lock", Protection::Write),
    ("agent/settings.json.lock", Protection::Write),
    ("extensions", Protection::Write),
    // Contains programs that pi downloads: its shell looks for programs there first.
    ("bin", Protection::Write),
    // pi's documentation, which prompts refer the model to.
    ("pi", Protection::Write),
    ("agent/pi", Protection::Write),
    // Contains copies of plugins from anywhere, and the packages generated from them.
    ("rummy/stage", Protection::All),
    ("agent/rummy/stage", Protection::All),
    // Contains plugins of rummy.
    ("rummy", Protection::Write),
    ("agent/rummy", Protection::Write),
    ("agent/settings.json", Protection::Write),
    ("agent/settings.json.bak", Protection::Write),
    ("agent/extensions", Protection::Write),
    ("agent/bin", Protection::Write),
    // Parts of the system prompt; changing the prompt in a session needs a capability.
    ("SYSTEM.md", Protection::RunsLater),
    ("APPEND_SYSTEM.md", Protection::RunsLater),
    ("AGENTS.md", Protection::RunsLater),
    ("AGENTS.override.md", Protection::RunsLater),
    ("CLAUDE.md", Protection::RunsLater),
    // Contains instructions, tools and models of sub-agents.
    ("agents", Protection::RunsLater),
    ("skills", Protection::RunsLater),
    ("prompts", Protection::RunsLater),
    // Streamed rules abort replies and inject messages.
    ("rules", Protection::RunsLater),
    // Contains key bindings that run commands.
    ("keybindings.json", Protection::RunsLater),
    ("agent/SYSTEM.md", Protection::RunsLater),
    ("agent/APPEND_SYSTEM.md", Protection::RunsLater),
    ("agent/AGENTS.md", Protection::RunsLater),
    ("agent/AGENTS.override.md", Protection::RunsLater),
    ("agent/CLAUDE.md", Protection::RunsLater),
    ("agent/keybindings.json", Protection::RunsLater),
    ("agent/agents", Protection::RunsLater),
    ("agent/rules", Protection::RunsLater),
    ("agent/skills", Protection::RunsLater),
    ("agent/prompts", Protection::RunsLater),
];

/// Names protected in the home: keys and credentials ([`secrets::IN_HOME`]), files that a shell or a desktop runs by itself, and
/// [`obeyed::IN_HOME`].
pub(super) const HOME: &[(&str, Protection)] = &{
    let (kept, closed) = (KEPT_IN_HOME.len(), secrets::IN_HOME.len());
    let mut all = [("", Protection::All); KEPT_IN_HOME.len() + secrets::IN_HOME.len() + obeyed::IN_HOME.len()];
    let mut at = 0;
    while at < all.len() {
        // The first name that fits counts: `.config/git/credentials` before `.config/git`.
        if at < closed {
            all[at].0 = secrets::IN_HOME[at];
        } else if at < closed + kept {
            all[at] = KEPT_IN_HOME[at - closed];
        } else {
            all[at] = (obeyed::IN_HOME[at - closed - kept], Protection::RunsLater);
        }
        at += 1;
    }
    all
};

const KEPT_IN_HOME: &[(&str, Protection)] = &[
    (".bashrc", Protection::Write),
    (".bash_aliases", Protection::Write),
    (".bash_completion", Protection::Write),
    (".bash_login", Protection::Write),
    (".bash_logout", Protection::Write),
    (".bash_profile", Protection::Write),
    (".cshrc", Protection::Write),
    (".kshrc", Protection::Write),
    (".login", Protection::Write),
    (".mkshrc", Protection::Write),
    (".pam_environment", Protection::Write),
    (".profile", Protection::Write),
    (".tcshrc", Protection::Write),
    (".xinitrc", Protection::Write),
    (".xprofile", Protection::Write),
    (".xsession", Protection::Write),
    (".xsessionrc", Protection::Write),
    (".zlogin", Protection::Write),
    (".zlogout", Protection::Write),
    (".zprofile", Protection::Write),
    (".zshenv", Protection::Write),
    (".zshrc", Protection::Write),
    (".config/fish", Protection::Write),
    (".config/autostart", Protection::Write),
    (".config/environment.d", Protection::Write),
    (".config/systemd", Protection::Write),
    (".config/zsh", Protection::Write),
    (".local/share/systemd", Protection::Write),
    (".config/git", Protection::Write),
    (".gitconfig", Protection::Write),
];

/// Names protected in any folder: folders of version control, and files that tools run by themselves. [`pijs_programs::obeyed`]
/// lists configuration files and folders of tools.
pub(super) const ANYWHERE: &[(&str, Protection)] = &[
    (".git", Protection::Write),
    (".hg", Protection::Write),
    (".jj", Protection::Write),
    (".svn", Protection::Write),
    (".bzr", Protection::Write),
    (".fslckout", Protection::Write),
    (".pijul", Protection::Write),
    (".sl", Protection::Write),
    ("_FOSSIL_", Protection::Write),
    ("_darcs", Protection::Write),
    ("_svn", Protection::Write),
    (".envrc", Protection::Write),
    (".npmrc", Protection::Write),
    (".vscode/tasks.json", Protection::Write),
    (".vscode/settings.json", Protection::Write),
];
