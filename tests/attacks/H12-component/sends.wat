(import "pi:extension/http@1.0.0" "fetch" (func $fetch (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32)))
;; Registers the command demo: texts below 512.
(data (i32.const 128) "\00\00\00\00" "\00\00\00\00\00\00\00\00" "\50\01\00\00\01\00\00\00"
                      "\00\00\00\00\00\00\00\00" "\00\00\00\00\00\00\00\00" "\00\00\00\00\00\00\00\00")
(data (i32.const 288) "demo")
(data (i32.const 336) "\20\01\00\00\04\00\00\00" "\20\01\00\00\04\00\00\00")
(func (export "register") (result i32) (i32.const 128))
(data (i32.const 2048) "GET")
(data (i32.const 2080) "@@server.canary@@/\00")
(func $length (param $at i32) (result i32)
  (local $end i32)
  (local.set $end (local.get $at))
  (loop $next
    (if (i32.load8_u (local.get $end))
      (then (local.set $end (i32.add (local.get $end) (i32.const 1))) (br $next))))
  (i32.sub (local.get $end) (local.get $at)))
(func (export "run-command") (param i32 i32 i32 i32 i32 i32) (result i32)
  (call $fetch
    (i32.const 2080) (call $length (i32.const 2080)) (i32.const 2048) (i32.const 3) (i32.const 0) (i32.const 0)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i64.const 0) (i32.const 3000))
  (if (i32.eqz (i32.load8_u (i32.const 3000))) (then (return (i32.const 0))))
  (i32.const 3000))
