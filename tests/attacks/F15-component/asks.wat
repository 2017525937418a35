(import "pi:extension/env@1.0.0" "get" (func $get (param i32 i32 i32)))
;; Registers the command demo: texts below 512.
(data (i32.const 128) "\00\00\00\00" "\00\00\00\00\00\00\00\00" "\50\01\00\00\01\00\00\00"
                      "\00\00\00\00\00\00\00\00" "\00\00\00\00\00\00\00\00" "\00\00\00\00\00\00\00\00")
(data (i32.const 288) "demo")
(data (i32.const 336) "\20\01\00\00\04\00\00\00" "\20\01\00\00\04\00\00\00")
(func (export "register") (result i32) (i32.const 128))
(data (i32.const 2048) "ATTACK_CANARY")
(data (i32.const 2080) "{}")
;; A refusal is the command's error as it came; a value becomes the message of one.
(func (export "run-command") (param i32 i32 i32 i32 i32 i32) (result i32)
  (call $get (i32.const 2048) (i32.const 13) (i32.const 3000))
  (if (i32.eqz (i32.load8_u (i32.const 3000)))
    (then
      (i32.store (i32.const 3000) (i32.const 1))
      (i32.store (i32.const 3004) (i32.const 4))
      (i32.store (i32.const 3016) (i32.const 0))
      (i32.store (i32.const 3020) (i32.const 2080))
      (i32.store (i32.const 3024) (i32.const 2))))
  (i32.const 3000))
