#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pijs_readers::component(data));
