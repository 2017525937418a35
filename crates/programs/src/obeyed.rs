//! Lists files and folders that tools obey because of their location: programs to start, code to load, or text for a model.
//!
//! These are not the project's code that a user runs, but files that a tool reads before it does its work. Writing one of them
//! needs a grant that names it.

/// Names that are protected in any folder, with everything below them.
pub const FOLDERS: &[&str] = &[
    // Servers that build and test pushed code, with their own keys.
    ".buildkite",
    ".circleci",
    ".drone.yml",
    ".forgejo/workflows",
    ".gitea/workflows",
    ".github/actions",
    ".github/workflows",
    ".gitlab-ci.yml",
    ".travis.yml",
    ".woodpecker",
    ".woodpecker.yml",
    "Jenkinsfile",
    ".appveyor.yml",
    "appveyor.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    // Hooks, which a commit or a push runs.
    ".githooks",
    ".husky",
    ".lefthook.yaml",
    ".lefthook.yml",
    ".overcommit.yml",
    ".pre-commit-config.yaml",
    ".lefthook.json",
    ".lefthook.toml",
    "lefthook.json",
    "lefthook.toml",
    "lefthook.yaml",
    "lefthook.yml",
    // Builders and task runners.
    ".bazelrc",
    ".justfile",
    ".mvn",
    ".storybook",
    "CMakeLists.txt",
    "GNUmakefile",
    "Brewfile",
    "Guardfile",
    "Podfile",
    "SConscript",
    "SConstruct",
    "Snakefile",
    "Thorfile",
    "Tiltfile",
    "Makefile",
    "Rakefile",
    "Rakefile.rb",
    "Taskfile.dist.yaml",
    "Taskfile.dist.yml",
    "Taskfile.yaml",
    "Taskfile.yml",
    "Vagrantfile",
    "build.gradle",
    "build.gradle.kts",
    "build.ninja",
    "build.sbt",
    "build.xml",
    "build.zig",
    "gradle.properties",
    "gradle/wrapper",
    "gradlew",
    "justfile",
    "meson.build",
    "mvnw",
    "pom.xml",
    "settings.gradle",
    "settings.gradle.kts",
    "wscript",
    // Managers of packages, languages and their versions.
    ".bundle",
    ".cargo",
    ".mise",
    ".mise.local.toml",
    ".mise.toml",
    ".pnp.cjs",
    ".pnp.loader.mjs",
    ".pnpmfile.cjs",
    ".pnpmfile.mjs",
    ".tool-versions",
    ".yarnrc",
    ".yarnrc.yml",
    "Gemfile",
    "gems.locked",
    "gems.rb",
    "Package.swift",
    "Pipfile",
    "binding.gyp",
    "build.rs",
    "bunfig.toml",
    "composer.json",
    "deno.json",
    "deno.jsonc",
    "flake.nix",
    "mise.local.toml",
    "mise.toml",
    "mix.exs",
    "package.json",
    "package.json5",
    "package.yaml",
    "pixi.toml",
    "wrangler.json",
    "wrangler.jsonc",
    "wrangler.toml",
    // Lock files, which determine the source of downloaded code.
    "Cargo.lock",
    "Gemfile.lock",
    "Pipfile.lock",
    "bun.lock",
    "bun.lockb",
    "composer.lock",
    "deno.lock",
    "flake.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "pnpm-lock.yaml",
    "poetry.lock",
    "requirements.txt",
    "uv.lock",
    "yarn.lock",
    // Plug-ins of checkers.
    ".mypy.ini",
    ".pylintrc",
    ".yarn/releases",
    "META-INF/services",
    "mypy.ini",
    "nodemon.json",
    "pylintrc",
    "pnpm-workspace.yaml",
    "rust-toolchain",
    "rust-toolchain.toml",
    "shell.nix",
    // Files that Python and its tests load first.
    "conftest.py",
    "noxfile.py",
    "pyproject.toml",
    "pytest.ini",
    "setup.cfg",
    "setup.py",
    "sitecustomize.py",
    "tox.ini",
    "usercustomize.py",
    // Editors and debuggers that read the folder in which they are opened.
    ".devcontainer",
    ".devcontainer.json",
    ".dir-locals.el",
    ".exrc",
    ".gdbinit",
    ".idea",
    ".lldbinit",
    ".nvim.lua",
    ".nvimrc",
    ".vimrc",
    ".vscode",
    ".zed",
    // pi itself, started in another folder that the user trusts.
    ".pi/APPEND_SYSTEM.md",
    ".pi/SYSTEM.md",
    ".pi/extensions",
    ".pi/git",
    ".pi/mcp.json",
    ".pi/npm",
    ".pi/pijs-lock.json",
    ".pi/prompts",
    ".pi/rummy",
    ".pi/rules",
    ".pi/settings.json",
    ".pi/skills",
    // Other agents: hooks and servers that they start, and their instructions.
    ".aider.conf.yml",
    ".amazonq",
    ".augment",
    ".claude",
    ".clinerules",
    ".codex",
    ".continue",
    ".cursor",
    ".cursorrules",
    ".factory",
    ".gemini",
    ".github/agents",
    ".github/copilot-instructions.md",
    ".github/instructions",
    ".github/prompts",
    ".goosehints",
    ".junie",
    ".kiro",
    ".mcp.json",
    ".omp",
    ".opencode",
    ".qwen",
    ".roo",
    ".windsurf",
    ".windsurfrules",
    // Folders in which pi and others look for skills.
    ".agents/skills",
    "AGENT.md",
    "AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.local.md",
    "CLAUDE.md",
    "GEMINI.md",
    "QWEN.md",
    "opencode.json",
    "opencode.jsonc",
    // Configuration of git and of shells, in case the project is, or becomes, a home.
    ".gitconfig",
    ".gitmodules",
    ".ripgreprc",
    // Programs that package managers and shells find first.
    ".venv",
    "node_modules/.bin",
    "venv",
];

/// Number of components of the longest pattern of [`FILES`].
pub const MAX_FILE_NAMES: usize = 2;

/// File names that are protected in any folder; `*` matches any characters of a name. Does not apply to folders.
pub const FILES: &[&str] = &[
    // Builders and task runners.
    "*.csproj",
    "*.fsproj",
    "*.gemspec",
    "*.podspec",
    "*.targets",
    "*.vbproj",
    "*.vcxproj",
    ".latexmkrc",
    "BUILD",
    "BUILD.bazel",
    "Build.PL",
    "Makefile.PL",
    "Procfile",
    "Cargo.toml",
    "Directory.Build.props",
    "Directory.Build.targets",
    "Directory.Packages.props",
    "GruntFile.*",
    "MODULE.bazel",
    "Makefile.am",
    "Makefile.in",
    "WORKSPACE",
    "WORKSPACE.bazel",
    "configure",
    "configure.ac",
    "bb.edn",
    "deps.edn",
    "dodo.py",
    "dune",
    "gradle-wrapper.properties",
    "go.mod",
    "go.work",
    "gulpfile.*",
    "latexmkrc",
    "magefile.go",
    "nx.json",
    "project.clj",
    "rebar.config",
    "tasks.py",
    "tools/bazel",
    // Containers.
    "Containerfile",
    "Dockerfile",
    "Dockerfile.*",
    "compose*.yaml",
    "compose*.yml",
    "docker-compose*.yaml",
    "docker-compose*.yml",
    // Settings of checkers, testers and bundlers that are programs, or that name plug-ins.
    "*.config.cjs",
    "*.config.cts",
    "*.config.js",
    "*.config.mjs",
    "*.config.mts",
    "*.config.ts",
    ".*rc.cjs",
    ".*rc.js",
    ".*rc.mjs",
    ".*rc.ts",
    "*.conf.js",
    "*.conf.ts",
    ".ackrc",
    ".babelrc*",
    ".c8rc*",
    ".commitlintrc*",
    ".eslintrc*",
    ".flake8",
    ".formatter.exs",
    ".golangci.toml",
    ".golangci.yaml",
    ".golangci.yml",
    ".huskyrc*",
    ".lintstagedrc*",
    ".luacheckrc",
    ".mocharc*",
    ".nycrc*",
    ".parcelrc",
    ".php-cs-fixer*.php",
    ".postcssrc*",
    ".prettierrc",
    ".prettierrc.json",
    ".prettierrc.toml",
    ".prettierrc.yaml",
    ".prettierrc.yml",
    ".releaserc*",
    ".rspec",
    ".rubocop.yml",
    ".stylelintrc*",
    ".swcrc",
    "jest.config.json",
    "phpstan.neon*",
    "phpunit.xml",
    "phpunit.xml.dist",
    "psalm.xml",
    // Start files that a program reads in its working folder.
    ".Rprofile",
    ".ghci",
    ".iex.exs",
    ".irbrc",
    ".pdbrc",
    ".pryrc",
    // Other agents.
    ".crush.json",
    ".rules",
    "CRUSH.md",
    "WARP.md",
    "crush.json",
];

/// Returns whether a name matches a pattern of [`FILES`], without regard to case.
pub fn is_named(name: &[u8], pattern: &str) -> bool {
    let pattern = pattern.as_bytes();
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else {
        return name.eq_ignore_ascii_case(pattern);
    };
    let (front, end) = (&pattern[..star], &pattern[star + 1..]);
    name.len() >= front.len() + end.len()
        && name[..front.len()].eq_ignore_ascii_case(front)
        && name[name.len() - end.len()..].eq_ignore_ascii_case(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_pattern_exceeds_the_maximum_length() {
        let longest = FILES.iter().map(|pattern| pattern.split('/').count()).max();
        assert_eq!(longest, Some(MAX_FILE_NAMES));
    }

    #[test]
    fn a_star_stands_for_any_characters_of_a_name() {
        for (name, pattern) in
            [("vite.config.ts", "*.config.ts"), ("CARGO.toml", "Cargo.toml"), (".eslintrc.js", ".*rc.js")]
        {
            assert!(is_named(name.as_bytes(), pattern), "{name}");
        }
        for (name, pattern) in
            [("config.ts", "*.config.ts"), ("a.config.tsx", "*.config.ts"), ("Cargo.toml2", "Cargo.toml")]
        {
            assert!(!is_named(name.as_bytes(), pattern), "{name}");
        }
    }

    #[test]
    fn a_pattern_has_one_star() {
        assert!(FILES.iter().all(|pattern| pattern.matches('*').count() < 2));
        assert!(!FOLDERS.iter().any(|name| name.contains('*')));
    }
}
