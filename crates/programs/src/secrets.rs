//! Names of files that hold keys, credentials and passwords.
//!
//! [`IN_HOME`] lists files and folders of the home that no extension reads. Names for which [`may_hold_secrets`] holds are common
//! in any folder; an extension that has read such a file is asked before it sends data.

/// Names of the home that contain keys and credentials, with everything below them.
pub const IN_HOME: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".config/gcloud",
    ".config/gh",
    ".docker/config.json",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    "Library/Keychains",
    ".config/age",
    ".config/containers/auth.json",
    ".config/doctl",
    ".config/glab-cli",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".boto",
    ".databrickscfg",
    ".fly",
    ".gem/credentials",
    ".m2/settings-security.xml",
    ".my.cnf",
    ".oci",
    ".pgpass",
    ".s3cfg",
    ".terraform.d/credentials.tfrc.json",
    ".vault-token",
    // Sign-ins of tools and of other agents, and configuration that holds passwords.
    ".argocd",
    ".authinfo",
    ".bundle/config",
    ".bunfig.toml",
    ".cache/huggingface/stored_tokens",
    ".cache/huggingface/token",
    ".claude.json",
    ".claude/.credentials.json",
    ".codeium/config.json",
    ".codex/auth.json",
    ".composer/auth.json",
    ".condarc",
    ".config/.wrangler",
    ".config/1Password",
    ".config/Bitwarden",
    ".config/Code/User/globalStorage",
    ".config/Cursor/User/globalStorage",
    ".config/NuGet",
    ".config/argocd",
    ".config/composer/auth.json",
    ".config/configstore",
    ".config/filezilla",
    ".config/git/credentials",
    ".config/github-copilot",
    ".config/goose/secrets.yaml",
    ".config/gopass",
    ".config/hcloud",
    ".config/helm/registry",
    ".config/helm/repositories.yaml",
    ".config/io.datasette.llm/keys.json",
    ".config/linode-cli",
    ".config/msmtp",
    ".config/netlify",
    ".config/ngrok",
    ".config/openstack",
    ".config/pip/pip.conf",
    ".config/pypoetry/auth.toml",
    ".config/remmina",
    ".config/scw",
    ".config/stripe",
    ".copilot/config.json",
    ".edgerc",
    ".fetchmailrc",
    ".gemini/oauth_creds.json",
    ".gradle/gradle.properties",
    ".huggingface/token",
    ".kaggle",
    ".local/share/DBeaverData",
    ".local/share/com.vercel.cli",
    ".local/share/gopass",
    ".local/share/opencode/auth.json",
    ".local/share/opencode/mcp-auth.json",
    ".local/share/remmina",
    ".m2/settings.xml",
    ".mbsyncrc",
    ".msmtprc",
    ".mylogin.cnf",
    ".ngrok2",
    ".nuget/NuGet/NuGet.Config",
    ".pip/pip.conf",
    ".pki",
    ".pulumi/credentials.json",
    ".putty",
    ".qwen/oauth_creds.json",
    ".railway",
    ".sentryclirc",
    ".smbcredentials",
    ".subversion/auth",
    ".terraformrc",
    ".yarnrc.yml",
    // Browsers and mail: cookies authenticate like keys.
    ".mozilla",
    ".thunderbird",
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/google-chrome",
    ".config/microsoft-edge",
    ".config/opera",
    ".config/vivaldi",
    ".config/google-chrome-beta",
    ".config/google-chrome-unstable",
    ".config/mozilla",
    ".librewolf",
    ".var/app/com.brave.Browser",
    ".var/app/com.google.Chrome",
    ".var/app/org.chromium.Chromium",
    ".var/app/org.mozilla.Thunderbird",
    ".var/app/org.mozilla.firefox",
    "snap/chromium",
    "snap/firefox",
    "snap/thunderbird",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Firefox",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Microsoft Edge",
    "Library/Cookies",
    // Wallets.
    ".bitcoin",
    ".config/Exodus",
    ".config/solana",
    ".electrum",
    ".ethereum",
    "Library/Application Support/Exodus",
];

/// Returns whether a file of this name may hold secrets: keys, credentials, environment files.
///
/// Only the name counts, on purpose: the result decides whether sending data needs a prompt, not which files may be read.
pub fn may_hold_secrets(path: &str) -> bool {
    let mut names = path.rsplit(['/', '\\']);
    let name = names.next().unwrap_or(path).to_ascii_lowercase();
    // The URL of a repository's remote may contain a password.
    if name == "config" && names.next().is_some_and(|folder| folder.eq_ignore_ascii_case(".git")) {
        return true;
    }
    // A copy has the content of the original.
    let ends = [".bak", ".old", ".orig", ".save", "~"];
    let name = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    let stem = stem.trim_start_matches('.');
    if ENDINGS.contains(&ending) || NAMES.contains(&name) || STEMS.contains(&stem) {
        return true;
    }
    let sample = ["example", "sample", "template", "dist"].contains(&ending);
    (name == ".env" || name.starts_with(".env.")) && !sample
}

const ENDINGS: &[&str] =
    &["env", "jks", "kdb", "kdbx", "key", "keystore", "p12", "pem", "pfx", "ppk", "tfstate", "tfvars"];
const NAMES: &[&str] = &[
    ".dev.vars",
    ".envrc",
    ".git-credentials",
    ".htpasswd",
    ".mcp.json",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    "credentials",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
    "mcp.json",
];
const STEMS: &[&str] = &[
    "auth",
    "client_secret",
    "credentials",
    "kubeconfig",
    "oauth_creds",
    "secret",
    "secrets",
    "service-account",
    "service_account",
    "token",
    "tokens",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_may_hold_secrets_are_known_by_name() {
        for path in [
            ".env",
            "a/.env.local",
            "/x/server.KEY",
            "id_rsa",
            "~/.aws/credentials",
            "secrets.yaml",
            "auth.json",
            "~/.claude/.credentials.json",
            ".git/config",
            "/projects/app/sub/.Git/config",
            "deploy/prod.env",
            ".envrc",
            "infra/prod.tfvars",
            "client_secret.json",
            ".mcp.json",
            ".cursor/mcp.json",
            "id_rsa.bak",
        ] {
            assert!(may_hold_secrets(path), "{path}");
        }
        for path in [
            "a.ts",
            ".env.example",
            "environment.md",
            "keyboard.ts",
            "id_rsa.md.ts",
            "token/parser.rs",
            "config",
            "git/config",
            "prod.env.sample",
            "",
        ] {
            assert!(!may_hold_secrets(path), "{path}");
        }
    }
}
