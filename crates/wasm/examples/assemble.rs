//! Creates an extension from a core module in text: `assemble FILE.wat OUT.wasm`. The exports must have the flat signatures of
//! the world.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(from), Some(to)) = (arguments.next(), arguments.next()) else {
        return Err(std::io::Error::other("usage: assemble FILE.wat OUT.wasm"));
    };
    std::fs::write(to, pijs_wasm::text::core_module(&std::fs::read_to_string(from)?))
}
