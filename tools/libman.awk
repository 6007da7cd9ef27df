# usage: awk -f libman.awk src/lib/cove.h   -- prints the man page of libcove: the header's own
# comments as text, its declarations as they are.

function escape(s) {
	gsub(/\\/, "\\e", s)
	gsub(/-/, "\\-", s)
	if (s ~ /^[.']/)
		s = "\\&" s
	return s
}

function close_code() {
	if (code)
		print ".fi\n.RE"
	code = 0
}

function flush_text() {
	if (text != "")
		print ".PP\n" text
	text = ""
}

# Tabs to stops of 8, with the declarations' words taken out first.
function expand(s,    out, i, c) {
	for (i = 1; i <= length(s); i++) {
		c = substr(s, i, 1)
		if (c != "\t") {
			out = out c
			continue
		}
		do
			out = out " "
		while (length(out) % 8)
	}
	return out
}

BEGIN {
	print ".TH LIBCOVE 3 \"\" \"cove\" \"Library Functions\""
	print ".SH NAME\nlibcove \\- sandboxes from C and C++"
	print ".SH SYNOPSIS\n.nf\n.B #include <cove.h>\n\ncc prog.c $(pkg\\-config \\-\\-cflags \\-\\-libs libcove)\n.fi"
	print ".SH DESCRIPTION"
}

/^\/\/ -+ [a-z]+$/ {
	close_code()
	flush_text()
	print ".SH " toupper($NF)
	begun = 1
	next
}
!begun && (/^#/ || /^$/ || !/^\/\//) { # what surrounds the head comment
	if (head)
		flush_text()
	head = 0
	skipping = 1
	next
}
!begun && skipping { next }
!begun && /^\/\/ libcove: / { head = 1; next }
/^#ifdef __cplusplus/ && begun { exit }
/^$/ {
	close_code()
	flush_text()
	next
}
/^\/\/$/ {
	close_code()
	flush_text()
	next
}
/^\/\/\t/ { # an example inside of a comment
	flush_text()
	if (!code)
		print ".PP\n.RS 4\n.nf"
	code = 1
	sub(/^\/\/\t/, "")
	print escape($0)
	next
}
/^\/\/ / {
	close_code()
	sub(/^\/\/ /, "")
	text = text (text == "" ? "" : "\n") escape($0)
	next
}
{
	flush_text()
	if (!code)
		print ".PP\n.RS 4\n.nf"
	code = 1
	line = expand($0)
	gsub(/COVE_API |COVE_MUST /, "", line)
	if (substr(line, 1, 24) ~ /^ *$/) # not every awk counts in a pattern
		sub(/^ +/, "        ", line)
	print escape(line)
}

END {
	close_code()
	flush_text()
	print ".SH SEE ALSO\n.BR cove (1)"
}
