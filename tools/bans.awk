# usage: awk -f bans.awk FILE...   -- prints every use of a function that this house does without,
# and every mark of unfinished work. Comments and strings may name them.

BEGIN {
	n = split("strcpy strcat sprintf vsprintf strtok strtok_r atoi atol atoll atof alloca system " \
		  "popen gets vfork tmpnam tempnam mktemp setjmp longjmp", words, " ")
	for (i = 1; i <= n; i++)
		banned[words[i]] = 1
	unescaped["printf"] = unescaped["puts"] = unescaped["fputs"] = 1
}

# Routes get a sandbox, and the rights of their client to it, from gateway/ alone. A preview has no
# client: its credential is the token of a port.
BEGIN { looked_up["box_ref_begin"] = looked_up["box_ref_look"] = looked_up["access_find"] = 1 }
FNR == 1 { is_route = FILENAME ~ /^src\/(api|toolbox|cloudflare|daytona)\// }

# Names that the command line prints may steer a terminal: cli/print.h escapes them.
FNR == 1 { is_cli = FILENAME ~ /^src\/cli\// && FILENAME !~ /\/(print|help|complete|man_tail|edit|picture|screen|repl|tty)\.c$/ }

/TODO|FIXME|(^|[^X])XXX([^X]|$)|HACK/ {
	print FILENAME ":" FNR ": a mark of unfinished work"
	bad = 1
}

/[ \t]$/ {
	print FILENAME ":" FNR ": blanks at the end of the line"
	bad = 1
}

{
	gsub(/\\./, "") # escaped quotes first
	gsub(/"[^"]*"/, "\"\"")
	gsub(/\/\/.*/, "")
	gsub(/\/\*.*\*\//, "")
	rest = $0
	while (match(rest, /[A-Za-z_][A-Za-z0-9_]*[ \t]*\(/)) {
		name = substr(rest, RSTART, RLENGTH)
		before = RSTART > 1 ? substr(rest, RSTART - 1, 1) : " "
		rest = substr(rest, RSTART + RLENGTH)
		sub(/[ \t]*\($/, "", name)
		if (is_cli && name in unescaped) {
			print FILENAME ":" FNR ": " name "() does not escape: print_line()"
			bad = 1
		}
		if (is_route && name in looked_up) {
			print FILENAME ":" FNR ": " name "() is for gateway/: gateway_box(), gateway_entry()"
			bad = 1
		}
		if (name in banned && before !~ /[.>]/) {
			print FILENAME ":" FNR ": " name "() is banned"
			bad = 1
		}
	}
}

END { exit bad }
