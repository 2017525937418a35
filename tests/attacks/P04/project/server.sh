: > "$PROJECT/pwned-$MARK"
