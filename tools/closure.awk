# usage: awk -f closure.awk FILE...   -- prints the sources that a program is made of: the files
# named, and the .c beside every project header that they include, directly or through others.

function exists(path,    line, got) {
	got = (getline line < path)
	close(path)
	return got >= 0
}

function visit(path,    line, name) {
	if (path in seen)
		return
	seen[path] = 1
	if (path ~ /\.c$/)
		print path
	while ((getline line < path) > 0) {
		if (line !~ /^#[ \t]*include[ \t]*"/)
			continue
		split(line, name, "\"")
		if (name[2] !~ /^gen\// && exists("src/" name[2]))
			todo[++last] = "src/" name[2]
	}
	close(path)
	sub(/\.h$/, ".c", path)
	if (!(path in seen) && exists(path))
		todo[++last] = path
}

BEGIN {
	for (i = 1; i < ARGC; i++)
		if (ARGV[i] ~ /\.c$/)
			todo[++last] = ARGV[i]
	for (i = 1; i <= last; i++)
		visit(todo[i])
}
