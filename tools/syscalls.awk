# usage: awk -v name=SYMBOL -f syscalls.awk MAP   -- makes the list of system calls of one role of the
# binary. MAP is the linker's map of a link with the role's entry point: the members of archives that it
# names at the head of a line, DIR/box.a(exec.o), are the sources that the role is made of,
# src/box/exec.c, and their lines `// syscalls: splice tee` the calls. What was embedded has no source.
match($0, /^[^ ]*\.a\([^)]*\.o\)/) {
	member = substr($0, 1, RLENGTH)
	sub(/^.*\//, "", member)
	split(member, part, /\.a\(|\.o\)/)
	path = "src/" part[1] "/" part[2] ".c"
	if (path in read)
		next
	read[path] = 1
	for (number = 1; (getline line < path) > 0; number++)
		if (line ~ /^[ \t]*\/\/ syscalls:/)
			gather(path, number, line)
	close(path)
}
function gather(path, number, line,    words, count, i) {
	sub(/.*\/\/ syscalls:/, "", line)
	count = split(line, words)
	for (i = 1; i <= count; i++)
		if (words[i] !~ /^[a-z0-9_]+$/) {
			printf "%s:%d: '%s' is no system call\n", path, number, words[i] > "/dev/stderr"
			bad = 1
		} else if (!(words[i] in seen)) {
			seen[words[i]] = 1
			calls[++n] = words[i]
		}
}
END {
	if (n == 0) {
		print FILENAME ": names no source with system calls" > "/dev/stderr"
		exit 1
	}
	for (i = 2; i <= n; i++) # sorted, so that the text depends on the set alone
		for (j = i; j > 1 && calls[j - 1] > calls[j]; j--) {
			tmp = calls[j]; calls[j] = calls[j - 1]; calls[j - 1] = tmp
		}
	print "// Generated from the `syscalls:` lines of the sources that the role links."
	print "#include \"os/syscalls.h\"\n"
	print "#include <stddef.h>\n"
	printf "const char *const %s[] = {\n", name
	for (i = 1; i <= n; i++)
		printf "\t\"%s\",\n", calls[i]
	print "\tNULL,\n};"
	exit bad
}
