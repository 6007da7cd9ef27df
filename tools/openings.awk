# usage: awk -f openings.awk FILE.c...   -- prints every source that does not open with two to ten
# lines of comment. Lines that the build reads, such as `// syscalls:`, do not count.

function judge() {
	if (file != "" && (lines < 2 || lines > 10)) {
		print file ": opens with " lines " lines of comment, not with 2 to 10"
		bad = 1
	}
}

BEGIN {
	# An empty file has no line of its own to be met at.
	for (i = 1; i < ARGC; i++)
		if ((getline line < ARGV[i]) <= 0) {
			file = ARGV[i]
			judge()
			ARGV[i] = ""
		} else {
			close(ARGV[i])
		}
	file = ""
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
	exit bad
}
