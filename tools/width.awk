# usage: awk -f width.awk FILE.md...   -- prints every line of a document over 100 columns. Tables,
# code blocks and addresses, which cannot be broken, may be longer.

FNR == 1 { fenced = code = 0; blank = 1 }
/^ *```/ { fenced = !fenced }
{
	code = /^(    |\t)/ && (code || blank)
	blank = /^[ \t]*$/
	text = $0
	if (fenced || code || /^ *\|/)
		next
	gsub(/[a-z]+:\/\/[^ ]*/, "", text)
	gsub(/[\200-\277]/, "", text) # a character of several bytes is one column
	if (length(text) > 100) {
		print FILENAME ":" FNR ": " length(text) " columns"
		bad = 1
	}
}
END { exit bad }
