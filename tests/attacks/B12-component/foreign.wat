(import "my:host/api@1.0.0" "go" (func $go))
(func $unused (call $go))
