printf 'login with %s failed\n' "$KEY" >&2
exit 3
