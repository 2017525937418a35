#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pijs_readers::package_json(data));
