(import "wasi:cli/stderr@0.2.6" "get-stderr" (func $stderr (result i32)))
(import "wasi:io/streams@0.2.6" "[method]output-stream.blocking-write-and-flush" (func $write (param i32 i32 i32 i32)))
;; One write of 8 MB of line ends.
(func (export "register") (result i32)
  (drop (memory.grow (i32.const 130)))
  (memory.fill (i32.const 131072) (i32.const 10) (i32.const 8000000))
  (call $write (call $stderr) (i32.const 131072) (i32.const 8000000) (i32.const 3000))
  (i32.const 0))
