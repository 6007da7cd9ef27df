# usage: awk -f openings.awk LIST FILE.c...   -- prints every source that does not open with two to ten
# lines of comment, and is not in LIST, from which files are only taken off. A file in LIST that is
# gone is printed as well. Lines that the build reads, such as `// syscalls:`, do not count.

function judge() {
	if (file == "")
		return
	seen[file] = 1
	if ((lines < 2 || lines > 10) && !(file in listed))
		tell("opens with " lines " lines of comment, not with 2 to 10")
}

function tell(words) {
	print file ": " words
	bad = 1
}

BEGIN {
	while ((getline line < ARGV[1]) > 0)
		if (line !~ /^(#|$)/)
			listed[line] = 1
	# An empty file has no line of its own to be met at.
	for (i = 2; i < ARGC; i++)
		if ((getline line < ARGV[i]) <= 0) {
			file = ARGV[i]
			judge()
			ARGV[i] = ""
		} else {
			close(ARGV[i])
		}
	ARGV[1] = file = ""
}
FNR == 1 {
	judge()
	file = FILENAME
	lines = 0
	open = 1
}
open && /^\/\// {
	lines += !/^\/\/( (syscalls|wraps): .*)?$/
	next
}
{ open = 0 }
END {
	judge()
	for (file in listed)
		if (!(file in seen))
			tell("is listed, but not there")
	exit bad
}
