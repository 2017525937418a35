//! The flags of `open`.

use crate::HostcallError;
use serde_json::Value;

/// The `flags` of `fs.open` as in Node: a string, or the platform's bits (Linux values, as in `fs.constants` of the host module).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFlags {
    /// Reading is allowed.
    pub read: bool,
    /// Writing is allowed.
    pub write: bool,
    /// Writes append.
    pub append: bool,
    /// A missing file is created.
    pub create: bool,
    /// An existing file is an error.
    pub exclusive: bool,
    /// An existing file is truncated.
    pub truncate: bool,
    /// A symbolic link at the end of the path is an error.
    pub nofollow: bool,
    /// The path must be a folder.
    pub directory: bool,
}

impl OpenFlags {
    const EMPTY: Self = Self {
        read: false,
        write: false,
        append: false,
        create: false,
        exclusive: false,
        truncate: false,
        nofollow: false,
        directory: false,
    };
    /// The flags `w`.
    pub const WRITE: Self = Self { write: true, create: true, truncate: true, ..Self::EMPTY };
    /// The flags `a`.
    pub const APPEND: Self = Self { write: true, create: true, append: true, ..Self::EMPTY };

    /// Parses `flags`; absent means `r`.
    pub fn parse(flags: Option<&Value>) -> Result<Self, HostcallError> {
        match flags {
            None | Some(Value::Null) => Ok(Self { read: true, ..Self::default() }),
            Some(Value::String(name)) => Self::named(name),
            Some(Value::Number(bits)) => bits
                .as_u64()
                .and_then(Self::bits)
                .ok_or_else(|| HostcallError::invalid("schema", format!("fs.open: unknown flags {bits}"))),
            Some(other) => Err(HostcallError::invalid("schema", format!("fs.open: unknown flags {other}"))),
        }
    }

    fn named(name: &str) -> Result<Self, HostcallError> {
        let mut flags = Self::default();
        let mut exclusive = false;
        let mut plus = false;
        let mut kind = None;
        for character in name.chars() {
            match character {
                'r' | 'w' | 'a' if kind.is_none() => kind = Some(character),
                '+' if !plus => plus = true,
                'x' if !exclusive => exclusive = true,
                's' => {}
                _ => return Err(HostcallError::invalid("schema", format!("fs.open: unknown flags {name:?}"))),
            }
        }
        match kind {
            Some('r') if !exclusive => flags.read = true,
            Some('w') => (flags.write, flags.create, flags.truncate) = (true, true, true),
            Some('a') => (flags.write, flags.create, flags.append) = (true, true, true),
            _ => return Err(HostcallError::invalid("schema", format!("fs.open: unknown flags {name:?}"))),
        }
        flags.exclusive = exclusive;
        if plus {
            (flags.read, flags.write) = (true, true);
        }
        Ok(flags)
    }

    fn bits(bits: u64) -> Option<Self> {
        const CREATE: u64 = 0o100;
        const EXCLUSIVE: u64 = 0o200;
        const NOCTTY: u64 = 0o400;
        const TRUNCATE: u64 = 0o1000;
        const APPEND: u64 = 0o2000;
        const NONBLOCK: u64 = 0o4000;
        const DSYNC: u64 = 0o10000;
        const DIRECTORY: u64 = 0o200000;
        const NOFOLLOW: u64 = 0o400000;
        const NOATIME: u64 = 0o1000000;
        const SYNC: u64 = 0o4010000;
        let known = 3
            | CREATE
            | EXCLUSIVE
            | NOCTTY
            | TRUNCATE
            | APPEND
            | NONBLOCK
            | DSYNC
            | DIRECTORY
            | NOFOLLOW
            | NOATIME
            | SYNC;
        if bits & !known != 0 || bits & 3 == 3 {
            return None;
        }
        let has = |bit| bits & bit != 0;
        Some(Self {
            read: bits & 3 != 1,
            write: bits & 3 != 0,
            append: has(APPEND),
            create: has(CREATE),
            exclusive: has(EXCLUSIVE) && has(CREATE),
            truncate: has(TRUNCATE),
            nofollow: has(NOFOLLOW),
            directory: has(DIRECTORY),
        })
    }

    /// Returns whether opening or using the handle can change anything. Truncating and creating count, even for a handle that
    /// only reads.
    pub fn writes(self) -> bool {
        self.write || self.append || self.create || self.truncate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Compares the flags with Node's documentation (`fs`, file system flags), and the bits with those of Linux.
    #[test]
    fn flags_of_open_mean_what_they_mean_in_node() {
        let set = |flags: OpenFlags| {
            let OpenFlags { read, write, append, create, exclusive, truncate, nofollow, directory } = flags;
            let all = [
                (read, "read"),
                (write, "write"),
                (append, "append"),
                (create, "create"),
                (exclusive, "exclusive"),
                (truncate, "truncate"),
                (nofollow, "nofollow"),
                (directory, "directory"),
            ];
            all.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
        };
        let parse =
            |flags: Value| OpenFlags::parse(Some(&flags)).map(set).map_err(|error| error.details["reason"].clone());
        for (flags, expected) in [
            (json!(null), "read"),
            (json!("r"), "read"),
            (json!("rs"), "read"),
            (json!("r+"), "read write"),
            (json!("rs+"), "read write"),
            (json!("w"), "write create truncate"),
            (json!("wx"), "write create exclusive truncate"),
            (json!("w+"), "read write create truncate"),
            (json!("wx+"), "read write create exclusive truncate"),
            (json!("a"), "write append create"),
            (json!("ax"), "write append create exclusive"),
            (json!("a+"), "read write append create"),
            (json!("as+"), "read write append create"),
            (json!(0), "read"),
            (json!(1), "write"),
            (json!(2), "read write"),
            (json!(0o100), "read create"),
            // Without creation, exclusiveness has no effect.
            (json!(0o200), "read"),
            (json!(0o300), "read create exclusive"),
            (json!(0o400), "read"),
            (json!(0o1000), "read truncate"),
            (json!(0o2001), "write append"),
            (json!(0o4000), "read"),
            (json!(0o10000), "read"),
            (json!(0o200000), "read directory"),
            (json!(0o400000), "read nofollow"),
            (json!(0o1000000), "read"),
            (json!(0o4010000), "read"),
        ] {
            assert_eq!(parse(flags.clone()), Ok(expected.to_owned()), "{flags}");
        }
        // Node has no constants for `O_DIRECT`, `O_PATH`, and temporary files without a name.
        for flags in [
            json!("q"),
            json!("rx"),
            json!("rw"),
            json!("r++"),
            json!("wxx"),
            json!("+"),
            json!(""),
            json!(3),
            json!(0o40000),
            json!(0o10000000),
            json!(0o20200000),
            json!(1_u64 << 40),
            json!(-1),
            json!(0.5),
            json!([]),
        ] {
            assert_eq!(parse(flags.clone()), Err(json!("schema")), "{flags}");
        }
    }
}
