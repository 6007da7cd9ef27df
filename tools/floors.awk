# usage: awk -f floors.awk FLOORS src/*.c src/*/*.[ch]   -- prints every include that runs upstairs
FILENAME == ARGV[1] { for (i = 2; i <= NF; i++) may[$1, $i] = 1; may[$1, $1] = 1; next }
/^#[ \t]*include[ \t]*"/ {
	n = split(FILENAME, at, "/"); room = n > 2 ? at[n - 1] : "main"
	split($0, quoted, "\""); split(quoted[2], to, "/")
	if (to[1] != "gen" && !((room, to[1]) in may)) {
		print FILENAME ":" FNR ": " room " may not include \"" quoted[2] "\""
		bad = 1
	}
}
END { exit bad }
