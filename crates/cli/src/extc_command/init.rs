//! `extc init`: a folder with a small extension.

use super::FAILED;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// A file of the extension: its path and its text, in which `NAME` stands for the name of the extension.
type File = (&'static str, &'static str);

/// The files of an extension in TypeScript.
const SCRIPT: &[File] = &[
    ("package.json", include_str!("init/package.json")),
    ("tsconfig.json", include_str!("init/tsconfig.json")),
    ("index.ts", include_str!("init/index.ts")),
    ("pijs.d.ts", include_str!("../../../../docs/guide/pijs.d.ts")),
    ("README.md", include_str!("init/README.md")),
];

/// The files of a component in Rust, with the interface of this version.
const COMPONENT: &[File] = &[
    ("package.json", include_str!("init/wasm/package.json")),
    ("extension.json", include_str!("init/wasm/extension.json")),
    ("Cargo.toml", include_str!("init/wasm/Cargo.toml.in")),
    ("src/lib.rs", include_str!("init/wasm/lib.rs")),
    ("wit/extension.wit", include_str!("../../../../schema/wit/extension.wit")),
    (".gitignore", include_str!("init/wasm/gitignore")),
    ("README.md", include_str!("init/wasm/README.md")),
];

/// Maximum length of an npm package name.
const LONGEST_NAME: usize = 214;

/// Writes the files into the folder `name`, or into the working folder. Does not replace existing files.
pub(super) fn run(name: Option<&Path>, wasm: bool, err: &mut dyn Write) -> io::Result<u8> {
    let folder = name.unwrap_or(Path::new("."));
    let files = if wasm { COMPONENT } else { SCRIPT };
    match write(folder, files) {
        Ok(package) => {
            let shown = shell_word(&folder.display().to_string());
            let names: Vec<&str> = files.iter().map(|(file, _)| *file).collect();
            writeln!(err, "wrote {package}: {} in {shown}", names.join(", "))?;
            if wasm {
                writeln!(err, "  build it with: cd {shown} && cargo build --release --target wasm32-wasip2")?;
                writeln!(err, "                 cp target/wasm32-wasip2/release/extension.wasm .")?;
                writeln!(err, "  it needs Rust 1.85 or later and, once: rustup target add wasm32-wasip2")?;
            }
            writeln!(err, "  check it with: extc check {shown}")?;
            writeln!(err, "  run it with:   pi -e {shown}")?;
            Ok(0)
        }
        Err((what, help)) => {
            writeln!(err, "error: {what}\n  help: {help}")?;
            Ok(FAILED)
        }
    }
}

/// Quotes a path for a shell, if necessary.
fn shell_word(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if path.chars().all(is_plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

/// Writes the files and returns the name of the package. The error consists of a message and a hint.
fn write(folder: &Path, files: &[File]) -> Result<String, (String, String)> {
    let failed = |error: io::Error, at: &Path| {
        (format!("{}: {error}", at.display()), "name a folder that can be written: extc init FOLDER".to_owned())
    };
    fs::create_dir_all(folder).map_err(|error| failed(error, folder))?;
    let real = folder.canonicalize().map_err(|error| failed(error, folder))?;
    let package = package_name(&real);
    if let Some((file, _)) = files.iter().find(|(file, _)| real.join(file).symlink_metadata().is_ok()) {
        let help = "name a folder that does not exist yet: extc init FOLDER".to_owned();
        return Err((format!("{}: it exists already, and is not replaced", folder.join(file).display()), help));
    }
    for (file, text) in files {
        let path = real.join(file);
        let parent = path.parent().unwrap_or(&real);
        fs::create_dir_all(parent).map_err(|error| failed(error, parent))?;
        let created = fs::File::create_new(&path);
        let written = created.and_then(|mut file| file.write_all(text.replace("NAME", &package).as_bytes()));
        written.map_err(|error| failed(error, &path))?;
    }
    Ok(package)
}

/// Returns a valid npm name for the package in this folder.
fn package_name(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let name: String = name.chars().map(|character| if plain(character) { character } else { '-' }).collect();
    let name = name.trim_start_matches(['.', '_', '-']);
    match name.get(..name.len().min(LONGEST_NAME)) {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => "my-extension".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_commands_quote_the_folder() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("it's mine");
        let mut out = Vec::new();
        run(Some(&folder), false, &mut out).expect("written");
        let out = String::from_utf8(out).expect("text");
        let quoted = format!("'{}'", folder.display().to_string().replace('\'', "'\\''"));
        assert!(out.contains(&format!("pi -e {quoted}\n")), "{out}");
    }

    #[test]
    fn any_folder_gives_a_valid_npm_name() {
        for (folder, name) in [
            ("/x/my-extension", "my-extension"),
            ("/x/My Extension!", "my-extension-"),
            ("/x/.hidden", "hidden"),
            ("/x/größe", "gr--e"),
            ("/", "my-extension"),
        ] {
            assert_eq!(package_name(Path::new(folder)), name, "{folder}");
        }
        assert_eq!(package_name(Path::new(&format!("/{}", "x".repeat(300)))).len(), LONGEST_NAME);
    }
}
