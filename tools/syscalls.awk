# usage: awk -v name=SYMBOL -f syscalls.awk FILE...   -- gathers the `// syscalls: splice tee` lines
# of a process's sources into the list that its seccomp filter is made from.
/^[ \t]*\/\/ syscalls:/ {
	sub(/.*\/\/ syscalls:/, "")
	for (i = 1; i <= NF; i++) {
		if ($i !~ /^[a-z0-9_]+$/) {
			printf "%s:%d: '%s' is no system call\n", FILENAME, FNR, $i > "/dev/stderr"
			bad = 1
		} else if (!($i in seen)) {
			seen[$i] = 1
			calls[++n] = $i
		}
	}
}
END {
	for (i = 2; i <= n; i++) # sorted, so that the text depends on the set alone
		for (j = i; j > 1 && calls[j - 1] > calls[j]; j--) {
			tmp = calls[j]; calls[j] = calls[j - 1]; calls[j - 1] = tmp
		}
	print "// Generated from the `syscalls:` lines of the sources."
	print "#pragma once\n"
	print "#include <stddef.h>\n"
	printf "static const char *const %s[] = {\n", name
	for (i = 1; i <= n; i++)
		printf "\t\"%s\",\n", calls[i]
	print "\tNULL,\n};"
	exit bad
}
