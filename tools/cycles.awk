# usage: awk -f cycles.awk FILE...   -- prints every circle of includes. A header and the source
# beside it are one thing, and so is NAME_private.h, which the parts of NAME share: if a.c needs b.h
# and b.c needs a.h, neither can be understood alone.

function node(path) {
	sub(/^src\//, "", path)
	sub(/\.[chS]$/, "", path)
	sub(/_private$/, "", path)
	return path
}

function walk(at, trail,    n, i, to) {
	state[at] = 1 # on the trail
	n = split(arrows[at], to, " ")
	for (i = 1; i <= n; i++) {
		if (state[to[i]] == 1) {
			print "circle of includes: " substr(trail, index(trail " ", to[i] " ")) " -> " to[i]
			bad = 1
		} else if (!state[to[i]]) {
			walk(to[i], trail " -> " to[i])
		}
	}
	state[at] = 2
}

/^#[ \t]*include[ \t]*"/ {
	split($0, quoted, "\"")
	from = node(FILENAME)
	to = node(quoted[2])
	if (to != from && !((from, to) in known)) {
		known[from, to] = 1
		arrows[from] = arrows[from] " " to
	}
}

END {
	for (at in arrows)
		if (!state[at])
			walk(at, at)
	exit bad
}
